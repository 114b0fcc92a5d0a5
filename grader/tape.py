"""What passed before passes again: a check is a function of the answers that it gets, so the same answers need no second look.

A check asks every submission of a session the same, as long as it gets the same answers. What it asked and got is kept on a
tape when it has passed. Another submission is then asked from the tape: when each of its answers is the same, byte for byte,
the check would end as it did, and need not run. At the first other answer it runs, is handed what was already answered, and
asks on. So a student's process hears the same questions in the same order as without any tape, each of them once.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .confined import link, wire
from .confined.packing import Packed, pack
from .confined.runner import Confined, Forbid, Runner
from .trouble import Trouble

MOST_TAPES, MOST_BYTES = 12, 1 << 20  # of a check, and of a tape
_MARK = secrets.token_hex(8)  # of a hole's name: no student's string begins with it
_HOLE = re.compile(rf'"{_MARK}(\w+)"'.encode())
_NUMBER = re.compile(rb"0|[1-9]\d{0,15}")


@dataclass(frozen=True)
class Template:
    """A frame's head with holes where numbers stand that differ between processes, and its body."""

    pieces: tuple[bytes, ...]  # text, hole, text, hole, text
    body: bytes

    def filled(self, numbers: Mapping[bytes, bytes]) -> bytes:
        """The whole frame with these numbers."""
        head = b"".join(numbers[piece] if at % 2 else piece for at, piece in enumerate(self.pieces))
        return wire.PREFIX.pack(len(head), len(self.body)) + head + self.body

    def read(self, head: bytes, ticket: bytes) -> dict[bytes, bytes] | None:
        """The numbers in the holes of a head that is the same but for them; None when it is another."""
        found, at = {}, 0
        for place, piece in enumerate(self.pieces):
            text: bytes | None = piece
            if place % 2:
                number = _NUMBER.match(head, at)
                text = ticket if piece == b"ticket" else number[0] if number else None
            if text is None or not head.startswith(text, at):
                return None
            at += len(text)
            if place % 2:
                found[piece] = text
        return found if at == len(head) else None


@dataclass(frozen=True)
class Heard:
    """A question that was put to a process with so many seconds left, and its answer as it came; or what went wrong."""

    frame: bytes
    ticket: str
    label: str
    module: str
    left: float
    reply: tuple[bytes, bytes] | Trouble


@dataclass(frozen=True)
class Step:
    """A question and the answer that it got."""

    ask: Template
    answer: Template
    label: str
    module: str  # of an object's method: its class
    of_object: bool
    weight: int  # as `Confined.taken` counts


Tape = tuple[Step, ...]


class Tapes:
    """The tapes of a session's checks, by their ids."""

    def __init__(self) -> None:
        self.heard: dict[str, list[Sequence[Heard]]] = {}  # no tape yet: a last submission's are never asked for
        self.kept: dict[str, list[Tape]] = {}

    def of(self, check: str) -> list[Tape]:
        kept = self.kept.setdefault(check, [])
        kept += filter(None, map(_tape, self.heard.pop(check, ())))
        return kept

    def keep(self, check: str, heard: Sequence[Heard] | None) -> None:
        """Keep what was heard by a check that has passed. The first ways to pass are the most common: later ones are not kept."""
        waiting = self.heard.setdefault(check, [])
        if heard and len(self.kept.get(check, waiting)) < MOST_TAPES and sum(len(one.frame) for one in heard) < MOST_BYTES:
            waiting.append(heard)


class Taped(Confined):
    """A confined submission that can be asked from tapes, and keeps what its process said to the check that runs."""

    def __init__(self, runner: Runner, modules: Mapping[str, bytes], forbid: Forbid, called: Collection[str]) -> None:
        super().__init__(runner, modules, forbid, called)
        self.ahead: deque[Heard] = deque()  # was heard already, and is handed to the check that asks for it
        self.heard: list[Heard] | None = None  # by the check that runs; None when a tape can't be made of it

    def begin_check(self, ahead: Sequence[Heard]) -> None:
        """A check runs now. What was heard for it already is not asked again."""
        self.ahead = deque(ahead)
        self.heard = None if any(isinstance(one.reply, Trouble) for one in ahead) else list(ahead)

    def follow(self, tapes: Sequence[Tape], exercise: str) -> tuple[bool, list[Heard]]:
        """Ask from tapes. Says whether every answer was that of a tape, and what was heard."""
        heard: list[Heard] = []
        numbers: dict[bytes, bytes] = {}
        self.begin(exercise)
        self.begin_check(())
        while tapes and len(heard) < len(tapes[0]):  # whoever got the same answers asks the same next
            step = tapes[0][len(heard)]
            try:
                left = self.ready(exercise, step.module, (self.generation, 0) if step.of_object else None)
            except Exception:  # the check will be told
                return False, heard
            ticket, start = secrets.token_hex(8), time.monotonic()
            numbers[b"ticket"] = b'"%s"' % ticket.encode()
            reader = _Reader([tape[len(heard)] for tape in tapes], ticket)
            frame, seconds = step.ask.filled(numbers), min(left, self.limits.call_seconds)
            reply = self.converse(frame, ticket, step.label, seconds, step.module, reader.read)
            self.spent[exercise] += time.monotonic() - start
            if reader.found is not None:
                self.taken += step.weight
            numbers |= {b"%s%d" % (name, len(heard)): number for name, number in (reader.found or {}).items()}
            raw = reply if isinstance(reply, Trouble) else reader.raw
            heard.append(Heard(frame, ticket, step.label, step.module, left, raw))
            tapes = [tape for tape, same in zip(tapes, reader.same, strict=True) if same]
        return bool(tapes), heard

    def astray(self) -> None:
        """The check asks something else than it did: it hangs on more than its answers, and is no longer followed."""
        self.ahead.clear()
        self.heard = None

    def ready(self, exercise: str, module: str, thing: tuple[int, int] | None) -> float:
        return self.ahead[0].left if self.ahead else super().ready(exercise, module, thing)

    def _exchange(
        self, message: Mapping[str, Any], label: str, seconds: float, read: link.Read = wire.unpack
    ) -> tuple[Packed, wire.Unpacked] | Trouble:
        if self.ahead:
            one = self.ahead.popleft()
            packed = pack({**message, "ticket": one.ticket}, strided=True)
            if packed.frame == one.frame:
                return one.reply if isinstance(one.reply, Trouble) else (packed, wire.unpack(*one.reply, device=self.device))
            self.astray()
        reader = _Reader((), "")
        result = super()._exchange(message, label, seconds, reader.read)
        if isinstance(result, Trouble):
            self.heard = None
        elif self.heard is not None and message["op"] != "import":
            ticket = result[1].message["ticket"]
            self.heard.append(Heard(result[0].frame, ticket, label, message["module"], seconds, reader.raw))
        return result


class _Reader:
    """Reads an answer: in full, unless it is that of a step."""

    def __init__(self, steps: Sequence[Step], ticket: str) -> None:
        self.steps, self.ticket = steps, ticket
        self.same = [False for _ in steps]
        self.found: dict[bytes, bytes] | None = None
        self.raw = b"", b""

    def read(self, head: bytes, body: bytes, *, device: str = "") -> wire.Unpacked:
        self.raw = head, body
        for place, step in enumerate(self.steps):
            found = step.answer.read(head, b'"%s"' % self.ticket.encode()) if step.answer.body == body else None
            if found is not None:
                self.same[place], self.found = True, found
        if self.found is None:
            return wire.unpack(head, body, device=device)
        return wire.Unpacked({"ticket": self.ticket, "ok": True}, [], [], [])


def _tape(heard: Sequence[Heard]) -> Tape | None:
    """The steps of what a check heard; None when it asked of an object that it has not made itself."""
    places: dict[tuple[str, int], str] = {}  # of the numbers of objects and results, by what they were
    steps = []
    for at, one in enumerate(heard):
        assert not isinstance(one.reply, Trouble)
        size, _ = wire.PREFIX.unpack(one.frame[: wire.PREFIX.size])
        sent, body = one.frame[wire.PREFIX.size :][:size], one.frame[wire.PREFIX.size + size :]
        question, answer = json.loads(sent), json.loads(one.reply[0])
        asked, told = question["v"]["d"], answer["v"]["d"]
        if _json(question) != sent or _json(answer) != one.reply[0]:
            return None
        of_object = type(asked.get("object")) is int
        asked["ticket"] = told["ticket"] = _hole("ticket")
        for name in ("object", "token") if asked["op"] != "gradient" else ("token",):  # that is of a result, not of an object
            if type(asked.get(name)) is int:
                if (name, asked[name]) not in places:
                    return None
                asked[name] = places[name, asked[name]]
        made = told["object"]["d"] if told.get("object") else {}
        for name, owner, key in (("object", made, "id"), ("token", told, "token")):
            if type(owner.get(key)) is int:
                places[name, owner[key]] = _hole(f"{name}{at}")
                owner[key] = _hole(name)
        ask, reply = _template(question, body), _template(answer, one.reply[1])
        weight = 16 * sum(math.prod(entry[2]) for entry in answer["a"])
        steps.append(Step(ask, reply, one.label, one.module, of_object, weight))
    return tuple(steps)


def _template(data: Any, body: bytes) -> Template:
    return Template(tuple(_HOLE.split(_json(data))), body)


def _hole(name: str) -> str:
    return _MARK + name


def _json(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
