"""The warm process that students' processes are forked from: it has imported the heavy libraries and knows no secret.

It is executed afresh, not forked from the grader, and does what it is told over one socket: fork, trace, end.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from .course import Limits
from .lockdown import LockdownFailed, Policy, readable
from .wire import pack

FRAMES, TRACE, FIRST_OTHER = 3, 4, 5  # a child's descriptors; 1 and 2 are what it prints
GRACE = 0.3  # seconds that a process which hung up has to end by itself, so that its own status is seen


class Zygote:
    """Forks children and keeps an eye on what they leave behind."""

    def __init__(self, control: socket.socket, policy: Policy, warm_torch: bool) -> None:
        self.control, self.policy, self.warm_torch = control, policy, warm_torch
        self.children: set[int] = set()

    def run(self) -> None:
        """Obey until the grader hangs up or is gone; children die with this process."""
        grader = os.getppid()
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while os.getppid() == grader:
            if not poll.poll(2000):
                continue
            data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 3)
            if not data:
                return
            order = json.loads(data)
            self.control.send(json.dumps(getattr(self, f"do_{order['op']}")(order, descriptors)).encode())

    def do_fork(self, order: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        me, pid = os.getpid(), os.fork()
        if pid == 0:
            self._child(me, descriptors, bool(order["torch"]))
        for descriptor in descriptors:
            os.close(descriptor)
        self.children.add(pid)
        return {"pid": pid}

    def do_trace(self, order: Mapping[str, Any], _: list[int]) -> dict[str, Any]:
        """Ask a child which line it is at."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(order["pid"], signal.SIGUSR1)
        return {}

    def do_end(self, order: Mapping[str, Any], _: list[int]) -> dict[str, Any]:
        """Kill a child with its group and whatever it left behind; tell how it ended if it did so by itself."""
        pid = order["pid"]
        until = time.monotonic() + (GRACE if order["gone"] else 0.0)
        status = self._reap(pid, os.WNOHANG)
        while status is None and time.monotonic() < until:
            time.sleep(0.002)
            status = self._reap(pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._reap(pid, 0)
        self.children.discard(pid)
        self._sweep()
        return {"status": status}

    def _reap(self, pid: int, options: int) -> int | None:
        """The exit code of a child, or minus its signal; None while it runs."""
        found, status = os.waitpid(pid, options)
        return os.waitstatus_to_exitcode(status) if found else None

    def _sweep(self) -> None:
        """Kill orphans: a process that outlives its parent becomes ours, because this is a subreaper."""
        for _ in range(1000):
            orphans = _children() - self.children
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def _child(self, parent: int, descriptors: list[int], torch: bool) -> None:
        """The life of a student's process. Never returns."""
        from . import child

        code = 1
        try:
            os.setsid()
            frames, prints, trace = descriptors
            for source, target in ((frames, FRAMES), (prints, 1), (prints, 2), (trace, TRACE)):
                os.dup2(source, target)
            self._close_others()
            if torch and not self.warm_torch:
                with contextlib.suppress(ImportError):
                    importlib.import_module("torch")
            child.watch(TRACE)
            self.policy.enter(parent)
            os.write(FRAMES, pack({"ready": True}).frame)
            child.serve(lambda n: os.read(FRAMES, n), _write, self.policy.limits.reply_mb << 20)
        except LockdownFailed as error:
            os.write(FRAMES, pack({"ready": False, "why": str(error)}).frame)
        except EOFError:
            code = 0
        finally:
            os._exit(code)

    def _close_others(self) -> None:
        kept = self.policy.keeps()
        for name in os.listdir("/proc/self/fd"):
            if int(name) >= FIRST_OTHER and int(name) not in kept:
                with contextlib.suppress(OSError):
                    os.close(int(name))


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(FRAMES, view) :]


def _children() -> set[int]:
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(map(int, file.read().split()))
    return set()


def main() -> None:
    """Warm up, say so, and obey. The command line holds one JSON object, descriptor 0 is the control socket."""
    import fcntl

    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, FRAMES, TRACE):  # held, so that nothing that must last gets these numbers
        os.dup2(nothing, descriptor)
    try:
        zygote = _warm(control, settings)
    except Exception as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        return
    control.send(json.dumps({"ready": True}).encode())
    zygote.run()


def _warm(control: socket.socket, settings: Mapping[str, Any]) -> Zygote:
    import ctypes

    from . import child

    for name in settings["preload"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert child.serve
    policy = Policy(Limits(**settings["limits"]), frozenset(settings["switches"]), settings["abi"])
    policy.build()
    allowed = readable()
    sys.path[:] = [path for path in sys.path if os.path.realpath(path).startswith(allowed)]
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads: a fork of it could hang")
    gc.collect()
    gc.freeze()
    return Zygote(control, policy, "torch" in sys.modules)
