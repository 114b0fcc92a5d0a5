"""What can go wrong inside a student's code, as records that both worlds share: pytest in-process and the confined process."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

Kind = Literal["raised", "missing", "import", "exited", "timeout", "memory", "killed", "malformed", "rule"]


@dataclass(frozen=True)
class Frame:
    """One line of the student's own code on the way to an error, with the shapes of the arrays that it names."""

    file: str
    line: int
    function: str
    code: str
    shapes: str = ""

    @property
    def place(self) -> str:
        """`line 3`, or `cell 5, line 3` of a notebook."""
        return place(self.file, self.line)


@dataclass(frozen=True)
class Trouble:
    """An error of the student's code: what was raised (or why the process ended), where, and the end of what it printed."""

    kind: Kind
    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    printed: str = ""


def shapes_at(code: str, names: Mapping[str, Any]) -> str:
    """What a line of code uses of `names`: shapes of arrays, whole numbers, None: `q (2, 3, 4, 5), num_heads 4, mask None`."""
    used = {name: _shown(names[name]) for name in re.findall(r"[^\W\d]\w*", code) if name in names}
    return ", ".join(f"{name} {text}" for name, text in used.items() if text)[:200]


def _shown(value: Any) -> str:
    if type(value).__name__ in ("ndarray", "Tensor"):
        return str(tuple(value.shape))
    return str(value) if value is None or (type(value) is int and abs(value) < 10**9) else ""


def place(file: str, line: int) -> str:
    """Where a line stands in the student's own file. A notebook's cell is a file of its own: `lesson.ipynb cell 5`."""
    cell = file.partition(" ")[2]
    return f"{cell}, line {line}" if cell else f"line {line}"


class Stopped(Exception):
    """The student's code did not come back: it exited, ran too long, used too much memory, or broke the protocol."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


@dataclass(frozen=True)
class Opaque:
    """An answer that is no plain data: only its type's name and its printed form crossed over."""

    type_name: str
    text: str


def raise_as(trouble: Trouble) -> NoReturn:
    """Raise the built-in exception that `trouble` names (Stopped for any other), carrying `trouble` along."""
    kind = getattr(builtins, trouble.type, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise Stopped(trouble)
    try:
        error = kind(trouble.message)
    except TypeError:  # UnicodeDecodeError and its kin want more than a message
        raise Stopped(trouble) from None
    error.trouble = trouble  # type: ignore[attr-defined]
    raise error
