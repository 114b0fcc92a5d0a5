"""Starting students' processes, and exchanging frames with them in a given time. What a frame says is not read here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from . import wire

ROOT = str(Path(__file__).resolve().parent.parent)
START_SECONDS = 120.0  # a cold import of PyTorch from a slow disk
TRACE_SECONDS = 0.3
MAX_TRACE = 1 << 16
_LINE = re.compile(r'File "([^"]+)", line (\d{1,9}) in ')
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class RunnerFailed(Exception):
    """The runner itself failed: never the student's fault."""


class Gone(Exception):
    """The student's process hung up."""


class TimedOut(Exception):
    """No answer came in time."""


class Malformed(Exception):
    """What came is no answer to what was asked."""


class Source(Protocol):
    """Where students' processes come from."""

    def fork(self, *, torch: bool, twins: Mapping[str, str]) -> tuple[int, list[socket.socket]]:
        """A new process that has these twins, and our ends of its sockets: frames, what it prints, what faulthandler writes."""

    def trace(self, pid: int) -> None:
        """Ask a process to write down the line that it is at."""

    def end(self, pid: int, *, gone: bool) -> int | None:
        """Kill a process and what it left behind. Its exit code or minus its signal, if it ended by itself."""

    def close(self) -> None:
        """End everything that was started."""


class Link:
    """The line to one student's process."""

    def __init__(self, source: Source, *, torch: bool, twins: Mapping[str, str], printed: int, flood: int) -> None:
        self.source, self.printed, self.flood = source, printed, flood
        self.pid, self.sockets = source.fork(torch=torch, twins=twins)
        self.frames, self.prints, self.traces = self.sockets
        self.tail, self.trace, self.total = bytearray(), bytearray(), 0
        self.selector = selectors.DefaultSelector()
        for end in self.sockets:
            end.setblocking(False)
            self.selector.register(end, selectors.EVENT_READ)

    def exchange(self, request: bytes, seconds: float, limit: int) -> wire.Unpacked:
        """Send a request, wait for one frame. Raises Gone, TimedOut or Malformed."""
        deadline = time.monotonic() + seconds
        self.tail.clear()
        self.total = 0
        if self._receive(1, socket.MSG_PEEK):
            raise Malformed("an answer came before anything was asked")
        waiting, inbox, due, head = memoryview(request), bytearray(), wire.PREFIX.size, 0
        try:
            while len(inbox) < due:
                writes = selectors.EVENT_WRITE if waiting else 0
                self.selector.modify(self.frames, selectors.EVENT_READ | writes)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut
                ready = {key.fileobj: mask for key, mask in self.selector.select(left)}
                self._drain(set(ready))
                if ready.get(self.frames, 0) & selectors.EVENT_WRITE:
                    waiting = waiting[self._send(waiting) :]
                if ready.get(self.frames, 0) & selectors.EVENT_READ:
                    inbox += self._receive(min(due - len(inbox), 1 << 20))
                if not head and len(inbox) == due:
                    head, body = wire.sizes(bytes(inbox), limit)
                    due += head + body
            if waiting:
                raise Malformed("an answer came before the question was over")
            self._drain({self.prints, self.traces})
            return wire.unpack(bytes(inbox[wire.PREFIX.size :][:head]), bytes(inbox[wire.PREFIX.size + head :]))
        except wire.WireError as error:
            raise Malformed(str(error)) from None

    def line(self, files: set[str], *, alive: bool) -> int | None:
        """The line of the student's own code that faulthandler named; it is asked if the process lives."""
        if alive:
            self.source.trace(self.pid)
        deadline = time.monotonic() + TRACE_SECONDS
        while True:
            self._drain({self.traces})
            for name, line in _LINE.findall(self.trace.decode("utf-8", "replace")):
                if name in files:
                    return int(line)
            if not alive or time.monotonic() > deadline:
                return None
            time.sleep(0.005)

    def text(self) -> str:
        """The end of what the student's code printed during the last exchange."""
        with contextlib.suppress(Malformed):
            self._drain({self.prints})
        return self.tail.decode("utf-8", "replace")

    def close(self, *, gone: bool = False) -> int | None:
        """End the process, as Source.end does."""
        self.selector.close()
        try:
            return self.source.end(self.pid, gone=gone)
        finally:
            for end in self.sockets:
                end.close()

    def _send(self, data: memoryview) -> int:
        try:
            return self.frames.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise Gone from None

    def _receive(self, size: int, flags: int = 0) -> bytes:
        try:
            data = self.frames.recv(size, flags)
        except BlockingIOError:
            return b""
        except OSError:
            raise Gone from None
        if not data:
            raise Gone
        return data

    def _drain(self, ready: set[Any]) -> None:
        """Take what was printed, so that printing never waits, and keep the end of it."""
        for end, kept, size in ((self.prints, self.tail, self.printed), (self.traces, self.trace, MAX_TRACE)):
            while end in ready:
                try:
                    data = end.recv(1 << 16)
                except OSError:
                    break
                if not data:  # closed by the student's code: nothing more will come
                    with contextlib.suppress(KeyError):
                        self.selector.unregister(end)
                    break
                kept += data
                del kept[:-size]
                self.total += len(data)
                if self.total > self.flood:
                    raise Malformed(f"it printed more than {self.flood >> 20} MiB")


class Warm:
    """Forks from a zygote: executed afresh with an environment of its own, and started again if it dies."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
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
                raise RunnerFailed(f"the zygote could not start: {failed}")
            self.ready = True
        try:
            socket.send_fds(self.control, [json.dumps({"op": op, **order}).encode()], descriptors)
        except OSError:
            raise RunnerFailed("the zygote is gone") from None
        return self._answer()

    def fork(self, *, torch: bool, twins: Mapping[str, str]) -> tuple[int, list[socket.socket]]:
        if self.process.poll() is not None:
            self.close()
            self._start()
        with contextlib.ExitStack() as inner_ends, contextlib.ExitStack() as outer_ends:
            pairs = [socket.socketpair() for _ in range(3)]
            for outer, inner in pairs:
                outer_ends.enter_context(outer)
                inner_ends.enter_context(inner)
            pid = self._ask("fork", [inner.fileno() for _, inner in pairs], torch=torch, twins=twins)["pid"]
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
    """Starts a Python for each submission, where there is no fork to rely on: slow, and no wall."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def fork(self, *, torch: bool, twins: Mapping[str, str]) -> tuple[int, list[socket.socket]]:
        token = secrets.token_hex(16)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.5)
            deadline = time.monotonic() + START_SECONDS
            settings = {**self.settings, "torch": torch, "twins": twins, "port": server.getsockname()[1], "token": token}
            process = _python("spawned", settings, stdin=subprocess.DEVNULL)
            self.processes[process.pid] = process
            sockets: list[socket.socket] = []
            while len(sockets) < 3:
                try:
                    end = server.accept()[0]
                    end.settimeout(10)
                    known = secrets.compare_digest(end.recv(64), token.encode())
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RunnerFailed("a student's process did not start") from None
                    continue
                if known:
                    end.sendall(b"\0")
                    sockets.append(end)
        return process.pid, sockets

    def trace(self, pid: int) -> None:
        if hasattr(os, "killpg"):
            import signal

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
        for pid in list(self.processes):
            self.end(pid, gone=False)


def _python(module: str, settings: Mapping[str, Any], stdin: int) -> subprocess.Popen[bytes]:
    """A fresh interpreter in an environment that tells nothing of this machine's."""
    path = f"sys.path[0] = {ROOT!r}; sys.path += [p for p in {settings['packages']!r} if p not in sys.path]"
    code = f"import sys; {path}; from grader.{module} import main; main()"
    kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}  # Windows can't do without
    environment = {
        **dict.fromkeys(_THREADS, "1"),  # a fork after one parallel operation hangs the child
        **{"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0"},
        **{"PYTHONDONTWRITEBYTECODE": "1", "MALLOC_ARENA_MAX": "2", "CUDA_VISIBLE_DEVICES": "", **kept},
    }
    return subprocess.Popen(
        [sys.executable, "-s", "-c", code, json.dumps(settings)],
        stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd=os.path.abspath(os.sep), env=environment, start_new_session=True,
    )  # fmt: skip
