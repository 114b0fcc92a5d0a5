"""What a student's process may do, as two lists: Landlock's of paths, seccomp's of system calls; and limits for the rest.

Built in the zygote, entered in each child before the first line of the student's code. Every rule that is not about
what Python, NumPy and PyTorch need to compute is left out, so it is refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .course import Limits

ALL = frozenset({"landlock", "seccomp", "rlimits", "uid"})  # tests switch one off to see what it is good for

_PLAIN = """
read readv pread64 preadv write writev close lseek fstat newfstatat stat lstat statx access faccessat faccessat2
readlink readlinkat getcwd getdents64 getdents poll ppoll select pselect6 dup dup2 dup3 munmap mprotect brk mremap madvise
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause
nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getitimer setitimer alarm restart_syscall
getpid gettid getppid getpgrp getuid geteuid getgid getegid getresuid getresgid getgroups uname sysinfo
getrusage getrlimit getcpu sched_yield sched_getaffinity futex set_robust_list set_tid_address rseq membarrier
getrandom exit exit_group
"""  # the calls whose arguments do no harm

_MAP_SHARED, _MAP_TYPE, _MAP_ANONYMOUS, _MAP_GROWSDOWN = 0x1, 0xF, 0x20, 0x100
_OPEN_WRITES = 0o3 | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0) & ~getattr(os, "O_DIRECTORY", 0)
_O_ASYNC = 0o20000
_FCNTL = (0, 1, 2, 3, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
_IOCTL = (0x5401, 0x5413, 0x5450, 0x5451)  # TCGETS and TIOCGWINSZ (is this a terminal?), FIONCLEX, FIOCLEX
_CLONE_THREAD, _NEW_NAMESPACES = 0x10000, 0x7E020080
_DAC_READ_SEARCH = 2


class LockdownFailed(Exception):
    """The wall could not be put up: the grader's fault, never the student's."""


def missing() -> str:
    """What keeps this machine from strong isolation, as the end of a sentence; empty when nothing does."""
    if not sys.platform.startswith("linux"):
        return f"it needs Linux, and this is {sys.platform}"
    try:
        import seccompy  # type: ignore[import-not-found, unused-ignore]  # optional, Linux only
        from landlockpy import _syscall  # type: ignore[import-not-found, unused-ignore]

        _syscall.abi_version()
        return "" if seccompy.supported() else "this kernel has no seccomp filters"
    except ImportError as error:
        return f"the package {error.name} is not installed"
    except OSError as error:
        return f"this kernel offers no Landlock ({os.strerror(error.errno or errno.ENOSYS)})"


def readable() -> tuple[str, ...]:
    """The folders and files that the interpreter, its packages and the dynamic linker need, and no others."""
    paths = sysconfig.get_paths()
    folders = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [os.path.join(sys.base_prefix, "lib", name) for name in _libraries(sys.base_prefix)]
    folders += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"]
    return tuple(path for path in dict.fromkeys(map(os.path.realpath, folders)) if os.path.exists(path))


def _libraries(prefix: str) -> Iterable[str]:
    folder = os.path.join(prefix, "lib")
    return (name for name in (os.listdir(folder) if os.path.isdir(folder) else ()) if name.startswith("libpython"))


@dataclass
class Policy:
    """The rules, built once. `abi` emulates an older Landlock; `switches` is what is on (all, but in tests of the tests)."""

    limits: Limits
    switches: frozenset[str] = ALL
    abi: int | None = None
    ruleset: Any = None
    filter: Any = None
    world_readable: bool = True
    used: dict[str, int] = field(default_factory=dict)

    def build(self) -> None:
        """Do before the fork all that can be done there."""
        if "landlock" in self.switches:
            self.ruleset = _landlock(self.abi)
        if "seccomp" in self.switches:
            self.filter = _seccomp()
            assert self.filter.program
        self.world_readable = all(map(_open_to_all, readable()))
        self.used = {line[:6]: int(line.split()[1]) << 10 for line in open("/proc/self/status") if line[:2] == "Vm"}

    def keeps(self) -> list[int]:
        """Descriptors that the child needs until it is locked."""
        return [self.ruleset.fileno()] if self.ruleset is not None else []

    def enter(self, parent: int) -> None:
        """Lock this process, which the zygote `parent` has just forked, for good. Raises LockdownFailed."""
        try:
            _write("/proc/self/oom_score_adj", "1000")  # before it is no longer ours to write
            if "rlimits" in self.switches:
                self._limit()
            if "uid" in self.switches and os.geteuid() == 0:
                _become_nobody(61184 + os.getpid() % 4336, self.world_readable)
            _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; a change of uid would have cleared it
            if os.getppid() != parent:
                raise LockdownFailed("the zygote is gone")
            _prctl(4, 0)  # PR_SET_DUMPABLE
            _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
            if self.ruleset is not None:
                self.ruleset.restrict()
                self.ruleset.close()
            if self.filter is not None:
                _own_signals(os.getpid()).load()
                self.filter.load()
        except (OSError, ValueError, RuntimeError) as error:
            raise LockdownFailed(f"{type(error).__name__}: {error}") from None

    def _limit(self) -> None:
        """Beyond what the zygote has already: data bounds what can be written to, the address space what mprotect hides."""
        import resource as r

        limits, memory = self.limits, self.limits.memory_mb << 20
        threads = limits.threads + (0 if os.geteuid() == 0 and "uid" in self.switches else _threads_of_user() + 32)
        for name, value in {
            "DATA": self.used["VmData"] + memory, "AS": self.used["VmSize"] + 2 * memory + (1 << 30),
            "CPU": limits.cpu_seconds, "NOFILE": limits.files, "NPROC": threads, "FSIZE": 0, "CORE": 0,
            "MEMLOCK": 0, "MSGQUEUE": 0, "NICE": 0, "RTPRIO": 0,
        }.items():  # fmt: skip
            r.setrlimit(getattr(r, f"RLIMIT_{name}"), (value, value + 1 if name == "CPU" else value))


def _landlock(abi: int | None) -> Any:
    from landlockpy import AccessFS, Ruleset
    from landlockpy.flags import LATEST_ABI, fs_for_abi, net_for_abi, scope_for_abi

    level = LATEST_ABI if abi is None else abi
    handled: dict[str, Any] = {"handled_fs": fs_for_abi(level), "handled_net": net_for_abi(level)}
    ruleset = Ruleset(**handled, scoped=scope_for_abi(level))
    for path in readable():
        folder = os.path.isdir(path)
        ruleset.allow_path(path, AccessFS.READ_FILE | AccessFS.READ_DIR if folder else AccessFS.READ_FILE)
    return ruleset


def _seccomp() -> Any:
    """An allow-list. Arguments are compared in all their 64 bits."""
    from seccompy import Action, CmpOp, Filter

    filter = Filter(default=Action.ERRNO | errno.EPERM)
    bits = int(CmpOp.MASKED_EQ)

    def allow(name: str, *conditions: tuple[int, int, int] | tuple[int, int, int, int]) -> None:
        try:
            filter.allow(name, args=conditions or None)
        except ValueError:  # this architecture never had the call
            return

    for name in _PLAIN.split():
        allow(name)
    allow("openat", (2, bits, 0, _OPEN_WRITES))
    allow("open", (1, bits, 0, _OPEN_WRITES))
    # memory that others can't share is counted by the limits; a stack that grows by itself is not
    allow("mmap", (3, bits, 2, _MAP_TYPE | _MAP_GROWSDOWN))
    allow("mmap", (3, bits, _MAP_SHARED, _MAP_TYPE | _MAP_ANONYMOUS | _MAP_GROWSDOWN), (2, bits, 0, 2))
    for command in _FCNTL:
        allow("fcntl", (1, int(CmpOp.EQ), command))
    allow("fcntl", (1, int(CmpOp.EQ), 4), (2, bits, 0, _O_ASYNC))  # F_SETFL
    for request in _IOCTL:
        allow("ioctl", (1, int(CmpOp.EQ), request))
    for option in (15, 16):  # PR_SET_NAME, PR_GET_NAME
        allow("prctl", (0, int(CmpOp.EQ), option))
    allow("prlimit64", (0, int(CmpOp.EQ), 0), (2, int(CmpOp.EQ), 0))  # one's own, to read
    allow("clone", (0, bits, _CLONE_THREAD, _CLONE_THREAD | _NEW_NAMESPACES))
    for name in ("kill", "tgkill"):  # narrowed to the process itself by _own_signals
        allow(name)
    filter.errno("clone3", errno.ENOSYS)  # its flags lie in memory; libc falls back to clone
    filter.errno("openat2", errno.ENOSYS)
    return filter


def _own_signals(pid: int) -> Any:
    from seccompy import CmpOp, Filter

    filter = Filter()
    for name in ("kill", "tgkill"):
        filter.errno(name, errno.EPERM, args=[(0, int(CmpOp.NE), pid)])
    return filter


def _become_nobody(user: int, world_readable: bool) -> None:
    """Become a user that owns nothing. Where packages lie in root's own folder, keep the right to read (Landlock bounds it)."""
    can_read = not world_readable and _capabilities() >> _DAC_READ_SEARCH & 1
    if not world_readable and not can_read:
        _set_capabilities(0)  # stay root, without a root's powers
        return
    _prctl(8, 1)  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _set_capabilities(1 << _DAC_READ_SEARCH if can_read else 0)


def _capabilities() -> int:
    line = next(line for line in open("/proc/self/status") if line.startswith("CapPrm:"))
    return int(line.split()[1], 16)


def _set_capabilities(mask: int) -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    if _libc().capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _open_to_all(path: str) -> bool:
    """Whether a user that owns nothing can reach and read `path`."""
    parts = [path]
    while os.path.dirname(parts[-1]) != parts[-1]:
        parts.append(os.path.dirname(parts[-1]))
    return all(os.stat(part).st_mode & (0o1 if os.path.isdir(part) else 0o4) for part in parts)


def _threads_of_user() -> int:
    """The threads that count against this user's limit already."""
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue
    return count


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
