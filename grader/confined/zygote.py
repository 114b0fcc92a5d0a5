"""The warm process that students' processes are forked from: it has imported the heavy libraries, and knows no secret.

It is executed afresh, not forked from the grader, and does what it is told over one socket: fork, trace, end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..course import Limits
from . import child, gpu, twins
from .lockdown import Policy, readable
from .packing import pack

FRAMES, TRACE = 3, 4  # a child's descriptors; 0 is empty, 1 and 2 are what it prints, and there are no others
_BEFORE = ("numpy.random", "resource", "pwd")  # what every child needs
GRACE = 0.3  # seconds that a process which hung up has to end by itself, so that its own status is seen


class Zygote:
    """Forks children, and clears away what they leave behind."""

    def __init__(self, control: socket.socket, policies: Mapping[str, Policy], visible: str | None) -> None:
        """`policies` by the device that a process is to open, "" for none; `visible` GPUs are those that the grader sees."""
        self.control, self.policies, self.visible = control, policies, visible
        self.children: set[int] = set()

    def run(self) -> None:
        """Obey until the grader hangs up or is gone; children die with this process."""
        grader, poll = os.getppid(), select.poll()
        poll.register(self.control, select.POLLIN)
        while os.getppid() == grader:
            if poll.poll(2000):
                data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 3)
                if not data:
                    return
                order = json.loads(data)
                answer = getattr(self, f"do_{order['op']}")(order, descriptors)
                self.control.send(json.dumps(answer).encode())

    def do_fork(self, order: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        new = child.preload(order["imports"]), twins.make_all(order["twins"])
        if any(new):
            _settle(self.policies.values())
        me, pid = os.getpid(), os.fork()
        if pid == 0:
            self._child(me, descriptors, order["device"])
        for descriptor in descriptors:
            os.close(descriptor)
        self.children.add(pid)
        return {"pid": pid}

    def do_trace(self, order: Mapping[str, Any], _: list[int]) -> dict[str, Any]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(order["pid"], signal.SIGUSR1)
        return {}

    def do_end(self, order: Mapping[str, Any], _: list[int]) -> dict[str, Any]:
        """Kill a child, its group and its orphans. A dead child is not reaped before that: it holds its number."""
        pid, until = order["pid"], time.monotonic() + (GRACE if order["gone"] else 0.0)
        peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while not (own := os.waitid(os.P_PID, pid, peek) is not None) and time.monotonic() < until:
            time.sleep(0.002)
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.children.discard(pid)
        self._sweep()
        return {"status": status if own else None}

    def _sweep(self) -> None:
        """Kill orphans: a process that outlives its parent becomes ours, because this is a subreaper."""
        for _ in range(1000):
            for pid in (orphans := _children() - self.children):
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
            if not orphans:
                return

    def _child(self, parent: int, descriptors: list[int], device: str) -> None:
        """The life of a student's process. Never returns."""
        ready, code, policy = False, 1, self.policies[device]
        try:
            self._settle(descriptors, policy.descriptor)
            frames = os.fdopen(FRAMES, "rb", closefd=False)
            policy.enter(parent)
            if device:
                gpu.enter(device, policy.limits.memory_mb, self.visible)
            child.prepare()
            ready = True
            child.serve(frames.read, _write, policy.limits.reply_mb << 20)
        except EOFError:
            code = 0
        except BaseException as error:
            if not ready:  # what fails before the student's code can run is the grader's fault
                _write(pack({"ready": False, "why": f"{type(error).__name__}: {error}"}).frame)
        finally:
            os._exit(code)

    def _settle(self, descriptors: list[int], ruleset: int) -> None:
        """A session and descriptors of one's own."""
        os.setsid()
        for source, targets in zip(descriptors, ((FRAMES,), (1, 2), (TRACE,)), strict=True):
            for target in targets:
                os.dup2(source, target)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # its own: flags of a shared one would tell the next child something
        for name in os.listdir("/proc/self/fd"):
            if int(name) > TRACE and int(name) != ruleset:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        sys.stdout, sys.stderr = (os.fdopen(n, "w", 1, errors="replace", closefd=False) for n in (1, 2))
        child.watch(TRACE)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(FRAMES, view) :]


def _children() -> set[int]:
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(map(int, file.read().split()))
    return set()  # a kernel that does not tell


def main() -> None:
    """Warm up, say so, and obey. The command line holds one JSON object; descriptor 0 is the control socket."""
    import fcntl

    control = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, FRAMES, TRACE):  # held, so that nothing that must last gets these numbers
        os.dup2(nothing, descriptor)
    try:
        settings = json.loads(sys.argv[1])
        zygote = Zygote(control, _warm(settings), settings["visible"])
        control.send(b'{"ready": true}')
    except Exception as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        return
    zygote.run()
    os._exit(0)


def _warm(settings: Mapping[str, Any]) -> dict[str, Policy]:
    child.preload([*_BEFORE, *settings["preload"]])
    tempfile.gettempdir()  # found while files can be written: later it would be looked for in vain
    rules = Limits(**settings["limits"]), frozenset(settings["switches"]), settings["abi"]
    policies = {device: Policy(*rules, gpu=bool(device)) for device in ("", settings["device"])}
    for policy in policies.values():
        policy.build()
    sys.path[:] = [path for path in sys.path if os.path.realpath(path).startswith(readable())]
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    _settle(policies.values())
    return policies


def _settle(policies: Iterable[Policy]) -> None:
    """After all that was imported and made, be ready to fork."""
    for policy in policies:
        policy.measure()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads: a fork of it could hang")
    gc.collect()
    gc.freeze()
