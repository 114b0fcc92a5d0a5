"""What a student's process may do: Landlock's list of paths, seccomp's list of system calls, and limits for the rest.

Built in the zygote, entered in each child before the first line of the student's code. What Python, NumPy and PyTorch
do not need to compute is left out, and so refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
import sysconfig
from dataclasses import dataclass, field
from typing import Any

from ..course import Limits
from . import gpu

ALL = frozenset({"landlock", "seccomp", "rlimits", "uid"})  # tests switch some off, to see what each is good for

_HARMLESS = """
read readv pread64 preadv write writev close lseek fstat newfstatat stat lstat statx access faccessat faccessat2
readlink readlinkat getcwd getdents64 getdents poll ppoll select pselect6 dup dup2 dup3 munmap mprotect brk mremap
madvise rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause
nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getitimer setitimer alarm restart_syscall
getpid gettid getppid getpgrp getuid geteuid getgid getegid getresuid getresgid getgroups uname sysinfo
getrusage getrlimit getcpu sched_yield sched_getaffinity futex set_robust_list set_tid_address rseq membarrier
getrandom exit exit_group
"""  # whatever their arguments are
_WRITES = 0o3 | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0) & ~getattr(os, "O_DIRECTORY", 0)
_FCNTL = (0, 1, 2, 3, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: not F_SETOWN, which sends signals
_IOCTL = (0x5401, 0x5413, 0x5450, 0x5451)  # TCGETS and TIOCGWINSZ (is it a terminal?), FIONCLEX, FIOCLEX
_O_ASYNC = 0o20000
_SHARED, _PRIVATE, _MAP_TYPE, _ANONYMOUS, _GROWSDOWN = 0x1, 0x2, 0xF, 0x20, 0x100
_THREAD, _NEW_NAMESPACES = 0x10000, 0x7E020080
_DAC_READ_SEARCH = 2


class LockdownFailed(Exception):
    """The wall could not be put up: the grader's fault, never the student's."""


def missing() -> str:
    """What keeps this machine from strong isolation, as the end of a sentence; empty when nothing does."""
    if not sys.platform.startswith("linux"):
        return f"it needs Linux, and this is {sys.platform}"
    try:
        import seccompy
        from landlockpy import _syscall

        _syscall.abi_version()
        return "" if seccompy.supported() else "this kernel has no seccomp filters"
    except ImportError as error:
        return f"the package {error.name} is not installed"
    except OSError as error:
        return f"this kernel offers no Landlock ({os.strerror(error.errno or errno.ENOSYS)})"


def packages() -> list[str]:
    """The folders of installed packages that this interpreter looks into."""
    return [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]


def readable() -> tuple[str, ...]:
    """The folders and files that the interpreter, its packages and the dynamic linker need, and no others."""
    library = os.path.join(sys.base_prefix, "lib")
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *packages()]
    with contextlib.suppress(OSError):
        paths += [os.path.join(library, name) for name in os.listdir(library) if name.startswith("libpython")]
    paths += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"]
    paths += ["/proc/cpuinfo", "/sys/devices/system/cpu"]  # which kernels to take is decided at the first call
    return tuple(path for path in dict.fromkeys(map(os.path.realpath, paths)) if os.path.exists(path))


@dataclass
class Policy:
    """The rules, built once. `switches` is what is on, `abi` emulates an older Landlock: both for tests.

    `gpu` lets a process open the machine's GPUs as well: more of memory and of the driver, and nothing else.
    """

    limits: Limits
    switches: frozenset[str] = ALL
    abi: int | None = None
    gpu: bool = False
    ruleset: Any = None
    filter: Any = None
    world_readable: bool = True
    used: dict[str, int] = field(default_factory=dict)

    def build(self) -> None:
        """Do before the fork all that can be done there."""
        self.ruleset = _landlock(self.abi, self.gpu) if "landlock" in self.switches else None
        self.filter = _seccomp(self.gpu) if "seccomp" in self.switches else None
        self.world_readable = all(map(_open_to_all, readable()))

    def measure(self) -> None:
        """See how much memory a child starts with, beyond which its limits count."""
        with open("/proc/self/status") as file:
            self.used = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file if line.startswith("Vm")}

    @property
    def descriptor(self) -> int:
        """What a child must keep open until it is locked."""
        return -1 if self.ruleset is None else int(self.ruleset.fileno())

    def enter(self, parent: int) -> None:
        """Lock this process, which the zygote `parent` has just forked, for good. Raises LockdownFailed."""
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # before the kernel stops taking this process for ours
            self.limit()
            if "uid" in self.switches and os.geteuid() == 0:
                _become_nobody(61184 + os.getpid() % 4336, self.world_readable)
            _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; a change of user would have cleared it
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

    def limit(self) -> None:
        """Set the limits that this system has.

        Memory is bounded beyond what the zygote held: DATA counts what can be written, which is what PyTorch fills; AS,
        far above it, counts what mprotect hides from DATA.
        """
        if "rlimits" not in self.switches or sys.platform == "win32":
            return
        import resource

        limits = {"CPU": self.limits.cpu_seconds, "NOFILE": self.limits.files, "FSIZE": 0, "CORE": 0}
        if sys.platform == "linux" and self.used:
            memory, alone = self.limits.memory_mb << 20, os.geteuid() == 0 and "uid" in self.switches
            limits |= {"DATA": self.used["VmData"] + memory, "AS": self.used["VmSize"] + 2 * memory + (1 << 30)}
            limits |= {"NPROC": self.limits.threads + (0 if alone else _threads_of_user() + 32)}
            limits |= dict.fromkeys(("MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO"), 0)
            if self.gpu:  # the driver reserves hundreds of GiB of addresses, locks pages, and has threads and files of its own
                del limits["AS"], limits["MEMLOCK"]
                limits |= {name: limits[name] + more for name, more in (("DATA", 8 << 30), ("NPROC", 32), ("NOFILE", 256))}
        for name, value in limits.items():  # the hard limit of CPU is where the kernel kills without asking
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value + (name == "CPU")))


def _landlock(abi: int | None, gpus: bool) -> Any:
    from landlockpy import AccessFS, Ruleset
    from landlockpy.flags import LATEST_ABI, fs_for_abi, net_for_abi, scope_for_abi

    level = abi or LATEST_ABI
    handled: dict[str, Any] = {"handled_fs": fs_for_abi(level), "handled_net": net_for_abi(level)}
    ruleset = Ruleset(**handled, scoped=scope_for_abi(level))
    for path in (*readable(), *(gpu.found(gpu.FILES) if gpus else ())):
        folder = AccessFS.READ_DIR if os.path.isdir(path) else AccessFS.NONE
        ruleset.allow_path(path, AccessFS.READ_FILE | folder)
    control = (AccessFS.READ_FILE | AccessFS.WRITE_FILE | AccessFS.IOCTL_DEV) & handled["handled_fs"]
    for path in gpu.found(gpu.DEVICES) if gpus else ():
        if not os.path.isdir(path):
            ruleset.allow_path(path, control)
    return ruleset


def _seccomp(gpus: bool) -> Any:
    """An allow-list, compiled. Arguments are compared in all their 64 bits, or in the bits of a mask."""
    from seccompy import Action, CmpOp, Filter, supported

    supported()  # looks for libc now: inside the wall it could not
    filter = Filter(default=Action.ERRNO | errno.EPERM)

    def allow(names: str, **masked: tuple[int, int]) -> None:
        """Where each argument (`_0` is the first) has the value under the mask."""
        conditions = [(int(arg[1:]), int(CmpOp.MASKED_EQ), value, mask) for arg, (value, mask) in masked.items()]
        for name in names.split():
            with contextlib.suppress(ValueError):  # this architecture never had the call
                filter.allow(name, args=conditions or None)

    every = (1 << 64) - 1
    allow(_HARMLESS)
    if gpus:  # Landlock says which files may be written, and a GPU's memory is shared with its driver
        allow(gpu.CALLS)
        allow("openat", _2=(0, _WRITES & ~0o3))
        allow("open", _1=(0, _WRITES & ~0o3))
        allow("mmap", _3=(_SHARED, _MAP_TYPE | _GROWSDOWN))
        for value, mask in gpu.CONTROL:
            allow("ioctl", _1=(value, mask))  # the kernel reads 32 bits of it
    allow("openat", _2=(0, _WRITES))
    allow("open", _1=(0, _WRITES))
    allow("mmap", _3=(_PRIVATE, _MAP_TYPE | _GROWSDOWN))  # memory that the limits count: not shared, no growing stack
    allow("mmap", _2=(0, 0x2), _3=(_SHARED, _MAP_TYPE | _ANONYMOUS | _GROWSDOWN))  # files, to read
    for command in _FCNTL:
        allow("fcntl", _1=(command, every))
    allow("fcntl", _1=(4, every), _2=(0, _O_ASYNC))  # F_SETFL
    for request in _IOCTL:
        allow("ioctl", _1=(request, every))
    allow("prctl", _0=(15, every))  # PR_SET_NAME: threads have names
    allow("prlimit64", _0=(0, every), _2=(0, every))  # one's own, to read
    allow("clone", _0=(_THREAD, _THREAD | _NEW_NAMESPACES))
    allow("kill tgkill")  # only to itself: see _own_signals
    for name in ("clone3", "openat2"):  # their flags lie in memory; libc falls back to the older calls
        filter.errno(name, errno.ENOSYS)
    assert filter.program
    return filter


def _own_signals(pid: int) -> Any:
    from seccompy import CmpOp, Filter

    filter = Filter()
    for name in ("kill", "tgkill"):
        filter.errno(name, errno.EPERM, args=[(0, int(CmpOp.NE), pid)])
    return filter


def _become_nobody(user: int, world_readable: bool) -> None:
    """Become a user that owns nothing.

    Where packages lie in root's own folder it keeps the right to read, which Landlock bounds; where root has no such
    right to give, it stays root without a root's powers.
    """
    with open("/proc/self/status") as file:
        held = int(next(line for line in file if line.startswith("CapPrm:")).split()[1], 16)
    kept = 0 if world_readable else held & 1 << _DAC_READ_SEARCH
    if world_readable or kept:
        _prctl(8, 1)  # PR_SET_KEEPCAPS
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(kept, kept)
    if ctypes.CDLL(None, use_errno=True).capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _open_to_all(path: str) -> bool:
    """Whether a user that owns nothing can reach and read `path`."""
    above = os.path.dirname(path)
    if not os.stat(path).st_mode & (0o1 if os.path.isdir(path) else 0o4):
        return False
    return above == path or _open_to_all(above)


def _threads_of_user() -> int:
    """The threads that count against this user's limit already."""
    count = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"{entry.path}/task"))
    return count


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
