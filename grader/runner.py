"""The grader's side of the wall: it asks students' processes, keeps their time, and believes nothing that they say."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import link, lockdown, sources, twins, wire
from .course import Limits
from .link import RunnerFailed
from .packing import Packed, extent, is_tensor, pack
from .remote import Answer, RemoteModule
from .trouble import Frame, Kind, Trouble, raise_as

__all__ = ["Confined", "IsolationUnavailable", "Runner", "RunnerFailed"]

_LEVELS = {"strong": lockdown.ALL, "process": lockdown.ALL - {"landlock", "seccomp"}}
_SIGNALS = {"SIGSEGV": "segmentation fault", "SIGABRT": "abort", "SIGFPE": "arithmetic error"}


class IsolationUnavailable(Exception):
    """The isolation that was asked for can't be had here; the message says what is missing."""


class Runner:
    """Owns what students' processes come from, and opens submissions one after another. A context manager."""

    def __init__(
        self,
        limits: Limits,
        *,
        isolation: str | None = None,
        preload: Sequence[str] = ("numpy", "torch", "torch._dynamo"),
        switches: frozenset[str] | None = None,
        abi: int | None = None,
        zygote: bool = sys.platform.startswith("linux"),
    ) -> None:
        """`isolation` is "strong", "process" or None, the strongest there is. The last three are for tests."""
        missing = lockdown.missing() if zygote else "there is no zygote"
        if isolation == "strong" and missing:
            raise IsolationUnavailable(f"strong isolation can't be had on this machine: {missing}")
        self.limits = limits
        self.isolation = isolation or ("process" if missing else "strong")
        settings = {
            **{"preload": list(preload), "packages": lockdown.packages(), "limits": dataclasses.asdict(limits)},
            **{"switches": sorted(_LEVELS[self.isolation] if switches is None else switches), "abi": abi},
        }
        self.twins: dict[str, str] = {}  # what students' processes are forked with, and the files that make it
        self.source: link.Source = sources.Warm(settings) if zygote else sources.Spawned(settings)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def open(self, modules: Mapping[str, bytes], forbid: Mapping[str, Sequence[str]] | None = None) -> Confined:
        """A submission's exercise files, by module name. `forbid` names what an exercise must not call."""
        return Confined(self, modules, forbid or {})


class Confined:
    """One submission behind the wall. Its process starts when it is first needed, and anew after it was lost."""

    def __init__(self, runner: Runner, modules: Mapping[str, bytes], forbid: Mapping[str, Sequence[str]]) -> None:
        self.runner, self.modules, self.forbid, self.limits = runner, modules, forbid, runner.limits
        self.files = {f"{name}.py" for name in modules}
        self.link: link.Link | None = None
        self.generation = 0  # how many processes there have been: an object lives and dies with its own
        self.imported: set[str] = set()
        self.twins: set[str] = set()
        self.failed: dict[str, Trouble] = {}
        self.spent: dict[str, float] = {}
        self.exercise, self.backlog, self.taken = "", b"", 0

    def __enter__(self) -> Confined:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RunnerFailed):  # told when it mattered, or the next submission's to tell
            self._end()

    def begin(self, exercise: str) -> None:
        """What is called from now on is paid from this exercise's time."""
        self.exercise = exercise

    def module(self, name: str, exercise: str = "") -> RemoteModule:
        """The student's module: its attributes are their functions and classes."""
        return RemoteModule(self, name, exercise)

    def call(self, module: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], exercise: str, **to: Any) -> Answer:
        """Call a function of `module`, or a method of a thing (see `ask`). Raises what the student's code raised."""
        torch, thing = sys.modules.get("torch"), to.get("thing")
        grad = torch is not None and torch.is_grad_enabled()
        forbid = [] if thing else list(self.forbid.get(f"{module}.{name}", ()))
        needed = twins.among((*args, *kwargs.values()))
        if not needed.keys() <= self.twins and not thing:  # they are made before the fork
            self.runner.twins |= needed
            self._end()
        message = {"op": "call", "name": name, "args": args, "kwargs": dict(kwargs), "grad": grad, "forbid": forbid, **to}
        label = f"{module}.{name}" if thing else name
        sent, reply = self.ask(message, label, exercise, module, thing)
        wanted, given = (
            [array for array in arrays if grad and is_tensor(array) and array.requires_grad]
            for arrays in (sent.arrays, reply.arrays)
        )
        with self.checking(label):
            _apply(sent.arrays, reply.message["changed"])
            for item, mode in zip(sent.twins, reply.message["modes"], strict=True):
                item.train(mode is True)
            value, made, token = (reply.message[key] for key in ("value", "object", "token"))
        return Answer(value, made, self.generation, token, given, wanted)

    def ask(
        self, message: Mapping[str, Any], label: str, exercise: str, module: str, thing: tuple[int, int] | None
    ) -> tuple[Packed, wire.Unpacked]:
        """Ask for something of `module`, or of a thing: the number of a process, and of an object in it.

        Keeps the exercise's time. Raises what went wrong in the student's process.
        """
        exercise = exercise or self.exercise
        if thing is None:
            self._need(module)
        elif self.link is None or thing[0] != self.generation:
            raise_as(Trouble("killed", "Stopped", f"the process that held this {module} has ended"))
        left = self.limits.exercise_seconds - self.spent.get(exercise, 0.0)
        if left <= 0:
            raise_as(self._used_up(exercise))
        start = time.monotonic()
        request = {**message, "module": module, "object": None if thing is None else thing[1]}
        result = self._exchange(request, label, min(left, self.limits.call_seconds))
        self.spent[exercise] = self.spent.get(exercise, 0.0) + time.monotonic() - start
        if isinstance(result, Trouble):
            if result.kind == "timeout" and left < self.limits.call_seconds:
                result = dataclasses.replace(result, message=self._used_up(exercise).message)
            raise_as(result)
        return result

    @contextlib.contextmanager
    def checking(self, label: str) -> Iterator[None]:
        """A lie in an answer that is looked at in this block ends the process that told it."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            trouble = _malformed(label, str(error))
        else:
            return
        self._end()
        raise_as(trouble)

    def _exchange(self, message: Mapping[str, Any], label: str, seconds: float) -> tuple[Packed, wire.Unpacked] | Trouble:
        """One question and its answer; or why there is none, and then the process has ended."""
        process, ticket = self._process(), secrets.token_hex(8)
        try:
            packed = pack({**message, "ticket": ticket}, strided=True)
        except wire.WireError as error:
            raise RunnerFailed(f"a check passes what can't be sent: {error}") from None
        backlog, self.backlog = self.backlog, b""
        try:
            reply = process.exchange(backlog + packed.frame, seconds, self.limits.reply_mb << 20)
            if reply.message.get("ticket") != ticket:
                raise link.Malformed("it answers another question")
            self.taken += 16 * sum(math.prod(getattr(array, "shape", ())) for array in reply.arrays)
            if self.taken > self.limits.reply_mb << 20:  # checks keep answers, and compute with them
                raise link.Malformed(f"the answers of all calls are more than {self.limits.reply_mb} MiB")
        except link.TimedOut:
            place = _place(process.line(self.files, alive=True))
            trouble = Trouble("timeout", "TimeLimit", f"{label} ran longer than {seconds:g} s{place}")
        except link.Malformed as error:
            trouble = _malformed(label, str(error))
        except link.Gone:
            line, printed = process.line(self.files, alive=False), process.text()
            return dataclasses.replace(self._died(label, self._end(gone=True), line), printed=printed)
        else:
            if reply.message.get("ok") is True:
                return packed, reply
            return self._told(reply.message, label, process.text(), message["module"])
        printed = process.text()
        self._end()
        return dataclasses.replace(trouble, printed=printed)

    def _process(self) -> link.Link:
        """The submission's process, which has told that it is locked before the student's code could speak."""
        if self.link is None:
            torch = any(b"torch" in source for source in self.modules.values())
            printed, flood = self.limits.printed_kb << 10, self.limits.reply_mb << 20
            self.twins = set(self.runner.twins)
            self.link = link.Link(self.runner.source, torch=torch, twins=self.runner.twins, printed=printed, flood=flood)
            self.generation += 1
            self.imported.clear()
            try:
                hello = self.link.exchange(b"", link.START_SECONDS, 1 << 16).message
            except (link.Gone, link.TimedOut, link.Malformed) as error:
                hello = {"why": f"it did not start ({type(error).__name__})"}
            if hello.get("ready") is not True:
                self._end()
                raise RunnerFailed(f"a student's process could not be locked: {hello.get('why')}")
            files = {name: np.frombuffer(source, np.uint8) for name, source in self.modules.items()}
            self.backlog = pack({"sources": files}, strided=True).frame
        return self.link

    def _need(self, module: str) -> None:
        """Have a module imported. Why it could not be is kept, and told each time."""
        self._process()
        if module not in self.imported and module not in self.failed:
            request = {"op": "import", "module": module}
            result = self._exchange(request, f"{module}.py", self.limits.import_seconds)
            if isinstance(result, Trouble):
                self.failed[module] = _import_trouble(module, result)
            self.imported.add(module)
        if module in self.failed:
            raise_as(self.failed[module])

    def _told(self, message: Mapping[str, Any], label: str, printed: str, module: str) -> Trouble:
        """What the process says went wrong in the student's code. It may lie: all of it is text to show."""
        kind, name, text, own = (str(message.get(key, ""))[:2000] for key in ("kind", "type", "text", "own"))
        frames = tuple(_frames(message.get("frames"), self.files))
        known: dict[str, tuple[Kind, str, str]] = {
            "raised": ("raised", name, text if own in ("", name) else f"{own}: {text}"),
            "rule": ("rule", "RuntimeError", text),
            "missing": ("missing", "AttributeError", f"{module}.py has no {label}: it is still to do"),
            "exited": ("exited", "Stopped", f"{label} ended the process ({own}{text and ': '}{text})"),
            "memory": ("memory", "Stopped", f"{label} needed more than the {self.limits.memory_mb:,} MiB of memory"),
        }
        if kind not in known:
            return dataclasses.replace(_malformed(label, text), printed=printed)
        return Trouble(*known[kind], frames, printed)

    def _died(self, label: str, status: int | None, line: int | None) -> Trouble:
        if status is None or status >= 0:
            how = "" if status is None else f" (exit status {status})"
            return Trouble("exited", "Stopped", f"{label} ended the process{how}")
        if -status == getattr(signal, "SIGXCPU", 0):
            return Trouble("timeout", "TimeLimit", f"{label} used up {self.limits.cpu_seconds} s of processor time")
        name = signal.Signals(-status).name
        how = f"{_SIGNALS.get(name, name)}{_place(line, ', ', '')}"
        return Trouble("killed", "Stopped", f"{label} crashed the interpreter ({how})")

    def _used_up(self, exercise: str) -> Trouble:
        name, seconds = exercise.rpartition(".")[2] or "the submission", self.limits.exercise_seconds
        return Trouble("timeout", "TimeLimit", f"{name} used up its {seconds:g} s")

    def _end(self, *, gone: bool = False) -> int | None:
        process, self.link = self.link, None
        return process.close(gone=gone) if process else None


def _import_trouble(module: str, trouble: Trouble) -> Trouble:
    """The trouble of a module that could not be imported; a syntax error has its line and code in the message."""
    last = trouble.frames[-1] if trouble.frames else None
    if trouble.kind != "raised":
        text = f"{module}.py could not be imported: {trouble.message.replace(f'{module}.py', 'it', 1)}"
    elif trouble.type in ("SyntaxError", "IndentationError", "TabError") and last:
        text = f"{last.file} line {last.line} is no Python ({trouble.message}): {last.code}"
    else:
        place = f" in line {last.line}" if last else ""
        text = f"{module}.py could not be imported: {trouble.type}{place}: {trouble.message}"
    return dataclasses.replace(trouble, kind="import", message=text)


def _apply(arrays: Sequence[Any], changed: Any) -> None:
    """Let arguments that were changed in place come back changed. Raises TypeError or ValueError for a lie."""
    for index, data in changed:
        if type(index) is not int or not 0 <= index < len(arrays) or type(data) is not np.ndarray:
            raise TypeError("it changed something else")
        memory = extent(arrays[index])
        if data.dtype != np.uint8 or data.shape != memory.shape:
            raise ValueError("it changed the size of an argument")
        if str(arrays[index].dtype).endswith("bool") and data.max(initial=0) > 1:
            raise ValueError("a boolean is neither true nor false")
        memory[:] = data


def _frames(told: Any, files: set[str]) -> Iterator[Frame]:
    for item in told[:50] if isinstance(told, list) else ():
        if isinstance(item, list) and list(map(type, item)) == [str, int, str, str, str] and item[0] in files:
            yield Frame(item[0], item[1], *(text[:200] for text in item[2:]))


def _malformed(label: str, why: str) -> Trouble:
    return Trouble("malformed", "Stopped", f"what {label} gave back can't be taken: {why or 'it is no answer'}")


def _place(line: int | None, before: str = " (", after: str = ")") -> str:
    return "" if line is None else f"{before}line {line}{after}"
