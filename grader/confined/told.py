"""What a student's process says, and how it ended, as troubles. It may lie: all of it is text to show."""

from __future__ import annotations

import ast
import dataclasses
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..source import loop_around
from ..trouble import Frame, Trouble, place

_SIGNALS = {"SIGSEGV": "segmentation fault", "SIGABRT": "abort", "SIGFPE": "arithmetic error"}


def import_trouble(file: str, trouble: Trouble) -> Trouble:
    """The trouble of a file, or a notebook's cell, that could not be run; a syntax error has its line and code in the message."""
    last, run = trouble.frames[-1] if trouble.frames else None, "run" if " " in file else "imported"
    if trouble.kind != "raised":
        text = f"{file} could not be {run}: {trouble.message.replace(file, 'it', 1)}"
    elif trouble.type in ("SyntaxError", "IndentationError", "TabError") and last:
        text = f"{last.file} line {last.line} is no Python ({trouble.message}): {last.code}"
    else:
        place = f" in {last.place}" if last else ""
        text = f"{file} could not be {run}: {trouble.type}{place}: {trouble.message}"
    return dataclasses.replace(trouble, kind="import", message=text)


def missing(module: str, function: str) -> Trouble:
    """The trouble of a function that the student's module does not define."""
    return Trouble("missing", "AttributeError", f"{module} has no {function}: it is still to do")


def own_frames(told: Any, files: Collection[str]) -> Iterator[Frame]:
    """Those of the frames that are well formed and in the student's own files."""
    for item in told[:50] if isinstance(told, list) else ():
        if isinstance(item, list) and list(map(type, item)) == [str, int, str, str, str] and item[0] in files:
            yield Frame(item[0], item[1], *(text[:200] for text in item[2:]))


def malformed(label: str, why: str) -> Trouble:
    """The trouble of an answer that breaks the protocol."""
    return Trouble("malformed", "Stopped", f"what {label} gave back can't be taken: {why or 'it is no answer'}")


def endless(at: Sequence[tuple[str, int]], files: Mapping[str, bytes]) -> str:
    """Where code ran that did not end: its loop, which is the same whenever it is looked at, or else the line.

    `at` are the places on the way there, innermost first. A `while` may have no end; a `for` is told where there is none.
    """
    for kinds in ((ast.While,), (ast.While, ast.For)):
        for file, line in reversed(at):
            if (loop := loop_around(files[file], line, kinds)) is not None:
                return f" ({place(file, loop)})"
    return f" ({place(*at[0])})" if at else ""


def used_up(name: str, seconds: float) -> Trouble:
    """The trouble of what has no time left."""
    return Trouble("timeout", "TimeLimit", f"{name or 'the submission'} used up its {seconds:g} s")


def died(label: str, status: int | None, at: Sequence[tuple[str, int]], cpu_seconds: int) -> Trouble:
    """The trouble of a process that is gone, `at` these places: its exit code, or minus its signal."""
    if status is None or status >= 0:
        how = "" if status is None else f" (exit status {status})"
        return Trouble("exited", "Stopped", f"{label} ended the process{how}")
    if -status == getattr(signal, "SIGXCPU", 0):
        return Trouble("timeout", "TimeLimit", f"{label} used up {cpu_seconds} s of processor time")
    name = next((known.name for known in signal.Signals if known == -status), f"signal {-status}")
    how = ", ".join([_SIGNALS.get(name, name), *(place(*where) for where in at[:1])])
    return Trouble("killed", "Stopped", f"{label} crashed the interpreter ({how})")
