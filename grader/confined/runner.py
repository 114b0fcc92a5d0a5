"""The grader's side of the wall: it asks students' processes, keeps their time, and believes nothing that they say."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..course import Limits
from ..notebooks import cells
from ..source import heavy_imports
from ..trouble import Kind, Trouble, raise_as
from . import gpu as gpus
from . import link, lockdown, sources, twins, wire
from .chance import SEED
from .link import IsolationUnavailable, RunnerFailed, Unavailable
from .packing import Packed, is_tensor, pack, put_back
from .remote import Answer, RemoteModule
from .told import died, endless, import_trouble, malformed, missing, own_frames, used_up

__all__ = ["Confined", "IsolationUnavailable", "Runner", "RunnerFailed", "Unavailable"]

_LEVELS = {"strong": lockdown.ALL, "process": lockdown.ALL - {"landlock", "seccomp"}}
Forbid = Mapping[str, Sequence[str]]  # by exercise, the names that it must not call
MAX_FATAL = 5  # cells of a submission that may end their process before the module is given up


class Runner:
    """Owns what students' processes come from, and opens submissions one after another. A context manager."""

    def __init__(
        self,
        limits: Limits,
        *,
        isolation: str | None = None,
        gpu: str = "skip",
        stopped: Callable[[], bool] = lambda: False,
        preload: Sequence[str] = ("numpy", "torch"),
        switches: frozenset[str] | None = None,
        abi: int | None = None,
        zygote: bool = sys.platform.startswith("linux"),
    ) -> None:
        """`isolation` is "strong", "process" or None, the strongest there is; `gpu` as in `gpu.wanted`.

        A call ends as if its time were up when `stopped` says that nobody waits for it. The last three are for tests.
        """
        missing = lockdown.missing() if zygote else "there is no zygote"
        if isolation == "strong" and missing:
            raise IsolationUnavailable(f"strong isolation can't be had on this machine: {missing}")
        self.limits, self.stopped = limits, stopped
        self.isolation = isolation or ("process" if missing else "strong")
        self._device = gpus.wanted(gpu) if zygote else ("", "there is no zygote")
        settings = {
            **{"device": self._device[0], "visible": os.environ.get("CUDA_VISIBLE_DEVICES")},
            **{"preload": list(preload), "packages": lockdown.packages(), "limits": dataclasses.asdict(limits)},
            **{"switches": sorted(_LEVELS[self.isolation] if switches is None else switches), "abi": abi},
        }
        self.twins: dict[str, str] = {}  # what students' processes are forked with, and the files that make it
        self.source: link.Source = sources.Warm(settings) if zygote else sources.Spawned(settings)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    @functools.cached_property
    def gpu(self) -> tuple[str, str]:
        """The device that students' processes can open, tried out behind the wall; or "", and why there is none."""
        return gpus.tried(self, *self._device)

    def open(self, modules: Mapping[str, bytes], forbid: Forbid | None = None) -> Confined:
        """A submission's exercise files, by module name."""
        return Confined(self, modules, forbid or {}, modules)


class Confined:
    """One submission behind the wall. Its process starts when it is first needed, and anew after it was lost."""

    def __init__(self, runner: Runner, modules: Mapping[str, bytes], forbid: Forbid, called: Collection[str]) -> None:
        """`called` are the modules that will be asked."""
        self.runner, self.modules, self.forbid, self.limits = runner, modules, forbid, runner.limits
        self.heavy = sorted(set().union(*(heavy_imports(modules[name]) for name in called if name in modules)))
        self.cells = {name: cells(name, source) for name, source in modules.items()}
        self.files = {f"{name}.py": source for name, source in modules.items()}  # and cells, as tracebacks call them
        self.files |= {cell.file: cell.text.encode() for group in self.cells.values() for cell in group}
        self.link: link.Link | None = None
        self.generation = 0  # how many processes there have been: an object lives and dies with its own
        self.imported, self.twins = set[str](), set[str]()
        self.failed: dict[str, Trouble] = {}  # by file, or a notebook's cell
        self.fatal: set[str] = set()  # cells that ended the process
        self.spent = defaultdict[str, float](float)  # seconds
        self.exercise, self.device, self.backlog, self.taken = "", "", b"", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RunnerFailed):  # told when it mattered, or the next submission's to tell
            self._end()

    def begin(self, exercise: str, device: str = "") -> None:
        """What is called from now on is paid from this exercise's time, in a process that has opened `device`, if any."""
        if device != self.device:
            self._end()
            self.imported.clear()  # for reasons of ours: nobody has lost it
        self.exercise, self.device = exercise, device

    def module(self, name: str, exercise: str = "") -> RemoteModule:
        """The student's module: its attributes are their functions and classes."""
        return RemoteModule(self, name, exercise)

    def call(self, module: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], exercise: str, **to: Any) -> Answer:
        """Call a function of `module`, or a method of a thing (see `ask`). Raises what the student's code raised."""
        torch, thing = sys.modules.get("torch"), to.pop("thing", None)
        grad = torch is None or torch.is_grad_enabled()  # the same whether or not another check has loaded torch
        forbid = [] if thing else list(self.forbid.get(f"{module}.{name}", ()))
        needed = twins.among((*args, *kwargs.values()))
        if not needed.keys() <= self.twins and not thing:  # they are made before the fork
            self.runner.twins |= needed
            self._end()
            self.imported.clear()
        how = {"grad": grad, "forbid": forbid, "seed": SEED.get()}
        message = {"op": "call", "name": name, "args": args, "kwargs": dict(kwargs), **how, **to}
        label = f"{module}.{name}" if thing else name
        sent, reply = self.ask(message, label, exercise, module, thing)
        wanted, given = (
            [array for array in arrays if grad and is_tensor(array) and array.requires_grad]
            for arrays in (sent.arrays, reply.arrays)
        )
        with self.checking(label):
            put_back(sent.arrays, reply.message["changed"])
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
        left = self.ready(exercise := exercise or self.exercise, module, thing)
        start = time.monotonic()
        request = {**message, "module": module, "object": thing and thing[1]}
        result = self._exchange(request, label, min(left, self.limits.call_seconds))
        self.spent[exercise] += time.monotonic() - start
        if isinstance(result, Trouble):
            if result.kind == "timeout" and left < self.limits.call_seconds:
                due = used_up(exercise.rpartition(".")[2], self.limits.exercise_seconds)
                result = dataclasses.replace(result, message=due.message)
            raise_as(result)
        return result

    def ready(self, exercise: str, module: str, thing: tuple[int, int] | None) -> float:
        """The seconds that an exercise has left to ask in. Raises what stands in the way of asking."""
        start, lost = time.monotonic(), self.link is None and module in self.imported
        if self.runner.stopped():
            raise_as(Trouble("timeout", "TimeLimit", "nobody waits for this any more"))
        if thing is None:
            self._need(module)
            self.spent[exercise] += time.monotonic() - start if lost else 0.0  # who loses a process pays for the next
        elif self.link is None or thing[0] != self.generation:
            raise_as(Trouble("killed", "Stopped", f"the process that held this {module} has ended"))
        if (left := self.limits.exercise_seconds - self.spent[exercise]) <= 0:
            raise_as(used_up(exercise.rpartition(".")[2], self.limits.exercise_seconds))
        return left

    @contextlib.contextmanager
    def checking(self, label: str) -> Iterator[None]:
        """A lie in an answer that is looked at in this block ends the process that told it."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            trouble = malformed(label, str(error))
        else:
            return
        self._end()
        raise_as(trouble)

    def _exchange(
        self, message: Mapping[str, Any], label: str, seconds: float, read: link.Read = wire.unpack
    ) -> tuple[Packed, wire.Unpacked] | Trouble:
        """One question and its answer; or why there is none, and then the process has ended."""
        ticket = secrets.token_hex(8)
        try:
            packed = pack({**message, "ticket": ticket}, strided=True)
        except wire.WireError as error:
            raise RunnerFailed(f"a check passes what can't be sent: {error}") from None
        reply = self.converse(packed.frame, ticket, label, seconds, message["module"], read)
        return reply if isinstance(reply, Trouble) else (packed, reply)

    def converse(
        self, frame: bytes, ticket: str, label: str, seconds: float, module: str, read: link.Read = wire.unpack
    ) -> wire.Unpacked | Trouble:
        """One frame and its answer; or why there is none, and then the process has ended."""
        process = self.start()
        backlog, self.backlog, limit = self.backlog, b"", self.limits.reply_mb << 20
        try:
            reply = process.exchange(backlog + frame, seconds, limit, self.runner.stopped, read)
            if reply.message.get("ticket") != ticket:
                raise link.Malformed("it answers another question")
            self.taken += 16 * sum(math.prod(getattr(array, "shape", ())) for array in reply.arrays)
            if self.taken > limit:  # checks keep answers, and compute with them
                raise link.Malformed(f"the answers of all calls are more than {self.limits.reply_mb} MiB")
        except link.TimedOut:
            where = endless(process.lines(self.files, alive=True), self.files)
            trouble = Trouble("timeout", "TimeLimit", f"{label} ran longer than {seconds:g} s{where}")
        except link.Malformed as error:
            trouble = malformed(label, str(error))
        except link.Gone:
            at, printed = process.lines(self.files, alive=False), process.text()
            return dataclasses.replace(died(label, self._end(gone=True), at, self.limits.cpu_seconds), printed=printed)
        else:
            if reply.message.get("ok") is True:
                return reply
            return self._told(reply.message, label, process.text(), module)
        printed = process.text()
        self._end()
        return dataclasses.replace(trouble, printed=printed)

    def start(self) -> link.Link:
        """The submission's process, which has told that it is locked before the student's code could speak."""
        if self.link is None:
            self.twins = set(self.runner.twins)
            most = {"printed": self.limits.printed_kb << 10, "flood": self.limits.reply_mb << 20}
            self.link = link.Link(self.runner.source, imports=self.heavy, twins=self.runner.twins, device=self.device, **most)
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
        """Have a module imported. Why it, or a cell of it, could not be is kept, and told each time."""
        file = f"{module}.py"
        while file not in self.failed:
            self.start()
            if module in self.imported:
                return
            self._import(module, file)
        raise_as(self.failed[file])

    def _import(self, module: str, file: str) -> None:
        """Import a module, in the case of a notebook cell by cell, until all is done or the process has ended."""
        deadline = time.monotonic() + self.limits.import_seconds
        for number, part in enumerate([cell.file for cell in self.cells[module]] or [file]):
            if part in self.fatal:
                continue
            request = {"op": "import", "module": module, "cell": number if self.cells[module] else None}
            left = math.ceil(deadline - time.monotonic())
            result = self._exchange(request, part, left) if left > 0 else used_up(part, self.limits.import_seconds)
            if isinstance(result, Trouble):
                self.failed[part] = import_trouble(part, result)
            if self.link is None:  # all again, without this cell
                self.fatal.add(part)
                if len(self.fatal) > MAX_FATAL:
                    self.failed[file] = self.failed[part]
                return
        self.imported.add(module)

    def _told(self, message: Mapping[str, Any], label: str, printed: str, module: str) -> Trouble:
        """What the process says went wrong in the student's code. It may lie: all of it is text to show."""
        kind, name, text, own = (str(message.get(key, ""))[:2000] for key in ("kind", "type", "text", "own"))
        frames = tuple(own_frames(message.get("frames"), self.files))
        known: dict[str, tuple[Kind, str, str]] = {
            "raised": ("raised", name, text if own in ("", name) else f"{own}: {text}"),
            "rule": ("rule", "RuntimeError", text),
            "exited": ("exited", "Stopped", f"{label} ended the process ({own}{text and ': '}{text})"),
            "memory": ("memory", "Stopped", f"{label} needed more than the {self.limits.memory_mb:,} MiB of memory"),
        }
        if kind == "missing":
            broken = [self.failed[cell.file] for cell in self.cells[module] if cell.file in self.failed and cell.defines(label)]
            return broken[-1] if broken else missing(module, label)
        if kind not in known:
            return dataclasses.replace(malformed(label, text), printed=printed)
        return Trouble(*known[kind], frames, printed)

    def _end(self, *, gone: bool = False) -> int | None:
        process, self.link = self.link, None
        return process.close(gone=gone) if process else None
