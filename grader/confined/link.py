"""Starting students' processes, and exchanging frames with them in a given time. What a frame says is not read here."""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from . import wire

START_SECONDS = 120.0  # a cold import of PyTorch from a slow disk
TRACE_SECONDS = 0.3
HEARS_SECONDS = 0.05  # how soon a call hears that nobody waits for it
MAX_TRACE = 1 << 16
_LINE = re.compile(r'File "([^"]+)", line (\d{1,9}) in ')


class RunnerFailed(Exception):
    """The runner itself failed: never the student's fault."""


class Unavailable(RunnerFailed):
    """What was asked for, such as a GPU, can't be had here; the message says what is missing."""


class IsolationUnavailable(Unavailable):
    """The isolation that was asked for can't be had here."""


class Read(Protocol):
    """What makes a message of a frame's head and body. Raises WireError."""

    def __call__(self, head: bytes, body: bytes, *, device: str = "") -> wire.Unpacked: ...


class Gone(Exception):
    """The student's process hung up."""


class TimedOut(Exception):
    """No answer came in time."""


class Malformed(Exception):
    """What came is no answer to what was asked."""


class Source(Protocol):
    """Where students' processes come from."""

    def fork(self, *, imports: Sequence[str], twins: Mapping[str, str], device: str = "") -> tuple[int, list[socket.socket]]:
        """A new process that has these twins, and our ends of its sockets: frames, what it prints, what faulthandler writes.

        It has imported `imports`, as far as they are installed, and opened `device`, if that is not "".
        """

    def trace(self, pid: int) -> None:
        """Ask a process to write down the line that it is at."""

    def end(self, pid: int, *, gone: bool) -> int | None:
        """Kill a process and what it left behind. Its exit code or minus its signal, if it ended by itself."""

    def close(self) -> None:
        """End everything that was started."""


class Link:
    """The line to one student's process."""

    def __init__(
        self, source: Source, *, imports: Sequence[str], twins: Mapping[str, str], device: str, printed: int, flood: int
    ) -> None:
        self.source, self.device, self.printed, self.flood = source, device, printed, flood
        self.pid, self.sockets = source.fork(imports=imports, twins=twins, device=device)
        self.frames, self.prints, self.traces = self.sockets
        self.tail, self.trace, self.total, self.writes = bytearray(), bytearray(), 0, False
        self.selector = selectors.DefaultSelector()
        for end in self.sockets:
            end.setblocking(False)
            self.selector.register(end, selectors.EVENT_READ)

    def exchange(
        self, request: bytes, seconds: float, limit: int, stopped: Callable[[], bool] = lambda: False, read: Read = wire.unpack
    ) -> wire.Unpacked:
        """Send a request, wait for one frame. Raises Gone, Malformed or, also when `stopped`, TimedOut."""
        deadline = time.monotonic() + seconds
        self.tail.clear()
        self.total = 0
        waiting, inbox, due, head = memoryview(request), bytearray(), wire.PREFIX.size, 0
        try:
            while not head or len(inbox) < due:
                waiting = waiting[self._send(waiting) :]
                self._watch(writes=bool(waiting))
                left = deadline - time.monotonic()
                if left <= 0 or stopped():
                    raise TimedOut
                ready = {key.fileobj: mask for key, mask in self.selector.select(min(left, HEARS_SECONDS))}
                self._drain(set(ready))  # what was printed before an answer is there with it
                if ready.get(self.frames, 0) & selectors.EVENT_READ:
                    inbox += self._receive(min(due - len(inbox), 1 << 20) if head else 1 << 16)
                if not head and len(inbox) >= due:
                    head, body = wire.sizes(bytes(inbox[:due]), limit)
                    due += head + body
            if waiting or len(inbox) > due:
                raise Malformed("an answer came before its question was over, or two to one question")
            head_bytes, body_bytes = bytes(inbox[wire.PREFIX.size :][:head]), bytes(inbox[wire.PREFIX.size + head :])
            return read(head_bytes, body_bytes, device=self.device)
        except wire.WireError as error:
            raise Malformed(str(error)) from None

    def _watch(self, *, writes: bool) -> None:
        """Be told of answers, and if it `writes`, when more of the question can be sent."""
        if writes != self.writes:
            self.writes = writes
            self.selector.modify(self.frames, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0))

    def lines(self, files: Collection[str], *, alive: bool) -> list[tuple[str, int]]:
        """The places in the student's own code that faulthandler named, innermost first; it is asked if the process lives."""
        if alive:
            self.source.trace(self.pid)
        deadline, before = time.monotonic() + TRACE_SECONDS, -1
        while True:
            with contextlib.suppress(Malformed):
                self._drain({self.traces})
            found = [(file, int(line)) for file, line in _LINE.findall(self.trace.decode("utf-8", "replace")) if file in files]
            if not alive or (found and len(self.trace) == before) or time.monotonic() > deadline:
                return found
            before = len(self.trace)
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
            return self.frames.send(data) if data else 0
        except BlockingIOError:
            return 0
        except OSError:
            raise Gone from None

    def _receive(self, size: int) -> bytes:
        try:
            data = self.frames.recv(size)
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
