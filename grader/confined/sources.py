"""Where students' processes come from: forks of a warm zygote, or a fresh Python each."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .link import START_SECONDS, RunnerFailed

_PACKAGE = (  # by its path: what lies beside it, as a student's own random.py may, is not to be imported
    f"from importlib.util import module_from_spec as of, spec_from_file_location as at; "
    f"spec = at('grader', {str(Path(__file__).resolve().parents[1] / '__init__.py')!r}); "
    f"sys.modules['grader'] = of(spec); spec.loader.exec_module(sys.modules['grader'])"
)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Warm:
    """Forks from a zygote: executed afresh with an environment of its own, and started again if it dies."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings, self.failed = settings, ""
        self._start()

    def _start(self) -> None:
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ready = False
        with inner:
            self.process = _python("zygote", self.settings, stdin=inner.fileno())

    def _answer(self) -> dict[str, Any]:
        self.control.settimeout(START_SECONDS)
        try:
            data = self.control.recv(1 << 16)
        except OSError as error:
            raise RunnerFailed(f"the zygote does not answer ({type(error).__name__})") from None
        if not data:
            raise RunnerFailed("the zygote is gone")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _ask(self, op: str, descriptors: Sequence[int] = (), **order: Any) -> dict[str, Any]:
        if not self.ready:
            failed = self._answer().get("failed")
            if failed:
                self.failed = f"the zygote could not start: {failed}"
                raise RunnerFailed(self.failed)
            self.ready = True
        try:
            socket.send_fds(self.control, [json.dumps({"op": op, **order}).encode()], descriptors)
        except OSError:
            raise RunnerFailed("the zygote is gone") from None
        return self._answer()

    def fork(self, *, imports: Sequence[str], twins: Mapping[str, str], device: str = "") -> tuple[int, list[socket.socket]]:
        if self.failed:  # it would fail again, and cost seconds each time
            raise RunnerFailed(self.failed)
        if self.process.poll() is not None:
            self.close()
            self._start()
        with contextlib.ExitStack() as inner_ends, contextlib.ExitStack() as outer_ends:
            pairs = [socket.socketpair() for _ in range(3)]
            for outer, inner in pairs:
                outer_ends.enter_context(outer)
                inner_ends.enter_context(inner)
            order = {"imports": imports, "twins": twins, "device": device}
            pid = self._ask("fork", [inner.fileno() for _, inner in pairs], **order)["pid"]
            outer_ends.pop_all()
        return pid, [outer for outer, _ in pairs]

    def trace(self, pid: int) -> None:
        self._ask("trace", pid=pid)

    def end(self, pid: int, *, gone: bool) -> int | None:
        status: int | None = self._ask("end", pid=pid, gone=gone)["status"]
        return status

    def close(self) -> None:
        """The zygote, and with it every process that it forked, ends when its socket closes."""
        self.control.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Spawned:
    """Starts a Python for each submission, where there is no fork to rely on, and one ahead, that it may warm up: no wall."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ahead: _Started | None = None

    def fork(self, *, imports: Sequence[str], twins: Mapping[str, str], device: str = "") -> tuple[int, list[socket.socket]]:
        order = {"imports": list(imports), "twins": dict(twins)}
        started, self.ahead = self.ahead, None
        if started is None or started.order != order or started.process.poll() is not None:
            self._drop(started)
            started = self._start(order)
        self.processes[started.process.pid] = started.process
        with started.server as server:
            sockets = _accepted(server, started)
        self.ahead = self._start(order)
        return started.process.pid, sockets

    def _start(self, order: Mapping[str, Any]) -> _Started:
        server, token = socket.create_server(("127.0.0.1", 0)), secrets.token_hex(16)
        server.settimeout(0.5)
        settings = {**self.settings, **order, "port": server.getsockname()[1], "token": token}
        return _Started(_python("spawned", settings, stdin=subprocess.DEVNULL), server, token, order)

    def _drop(self, started: _Started | None) -> None:
        if started is not None:
            started.server.close()
            self.processes[started.process.pid] = started.process
            self.end(started.process.pid, gone=False)

    def trace(self, pid: int) -> None:
        if hasattr(os, "killpg"):
            self.processes[pid].send_signal(signal.SIGUSR1)

    def end(self, pid: int, *, gone: bool) -> int | None:
        process = self.processes.pop(pid)
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(2.0 if gone else 0.0)
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(pid, 9)
        process.kill()
        process.wait()
        return status

    def close(self) -> None:
        self._drop(self.ahead)
        for pid in list(self.processes):
            self.end(pid, gone=False)


@dataclass(frozen=True)
class _Started:
    """A process that will connect when it is warm, what it connects to, the word it says then, and what it was made with."""

    process: subprocess.Popen[bytes]
    server: socket.socket
    token: str
    order: Mapping[str, Any]


def _accepted(server: socket.socket, started: _Started) -> list[socket.socket]:
    """The three connections of the process that knows the word. Raises RunnerFailed."""
    deadline = time.monotonic() + START_SECONDS
    sockets: list[socket.socket] = []
    while len(sockets) < 3:
        try:
            end = server.accept()[0]
            end.settimeout(10)
            known = secrets.compare_digest(end.recv(64), started.token.encode())
        except OSError:
            if started.process.poll() is not None or time.monotonic() > deadline:
                raise RunnerFailed("a student's process did not start") from None
            continue
        if known:
            end.sendall(b"\0")
            sockets.append(end)
    return sockets


def _python(module: str, settings: Mapping[str, Any], stdin: int) -> subprocess.Popen[bytes]:
    """A fresh interpreter in an environment that tells nothing of this machine's."""
    path = f"del sys.path[0]; sys.path += [p for p in {settings['packages']!r} if p not in sys.path]"
    code = f"import sys; {path}; {_PACKAGE}; from grader.confined.{module} import main; main()"
    kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}  # Windows can't do without
    plots = {"MPLCONFIGDIR": tempfile.gettempdir(), "MPLBACKEND": "agg"}  # matplotlib wants a folder that it thinks it can write
    environment = {
        **plots,
        **dict.fromkeys(_THREADS, "1"),  # a fork after one parallel operation hangs the child
        **{"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0"},
        **{"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"},  # fewer page faults after a fork
        **{"PYTHONDONTWRITEBYTECODE": "1", "MALLOC_ARENA_MAX": "2", "CUDA_VISIBLE_DEVICES": "", **kept},
    }
    return subprocess.Popen(
        [sys.executable, "-s", "-c", code, json.dumps(settings)],
        stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd=os.path.abspath(os.sep), env=environment, start_new_session=True,
    )  # fmt: skip
