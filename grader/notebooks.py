"""A student's notebook as one module whose cells run one by one: what breaks in a cell costs that cell, as in Jupyter."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MARK = re.compile(r"^# %% cell (\d+)\n", re.MULTILINE)
_RUNS_ITS_CELL = ("%%time", "%%timeit", "%%capture", "%%prun")
_SHELL = re.compile(r"^(\s*)(?:(\w[\w, ]*=\s*)[!%].*|[!%?].*|[\w.]+\?{1,2})$")  # `!ls`, `%cd x`, `?f`, `f?`, `files = !ls`
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # what a parser says of text that is no Python


@dataclass(frozen=True)
class Cell:
    """A code cell. `file` is what tracebacks call it; lines are counted within it."""

    file: str
    text: str

    @property
    def name(self) -> str:
        """`cell 5`."""
        return self.file.partition(" ")[2]

    def defines(self, name: str) -> bool:
        """Whether it means to define this function or class; it need not be Python."""
        return re.search(rf"^(?:async )?(?:def|class) +{re.escape(name)}\b", self.text, re.MULTILINE) is not None


def notebook_source(data: bytes) -> bytes:
    """The code cells of a notebook, each under its number, without magics, shell lines and the cells that are the course's own.

    Raises ValueError for what is no notebook.
    """
    try:
        code = [cell for cell in json.loads(data)["cells"] if cell["cell_type"] == "code"]
        texts = [(number, "".join(cell["source"])) for number, cell in enumerate(code, 1) if not _locked(cell)]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("no notebook") from error
    return "".join(f"# %% cell {number}\n{_plain(text)}\n" for number, text in texts).encode("utf-8", "replace")


def cells(module: str, source: bytes) -> tuple[Cell, ...]:
    """The cells of a module that came as a notebook; none for a plain file."""
    if not source.startswith(b"# %% cell "):
        return ()
    _, *parts = _MARK.split(source.decode("utf-8", "replace"))
    return tuple(Cell(f"{module}.ipynb cell {number}", text) for number, text in zip(parts[::2], parts[1::2], strict=True))


def parse(source: bytes) -> ast.Module:
    """The syntax tree of a module, without the cells that are no Python. Raises what `ast.parse` does for a plain file."""
    parts = cells("", source)
    if not parts:
        return ast.parse(source)
    return ast.Module([node for cell in parts if (tree := _tree(cell.text)) is not None for node in tree.body], [])


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except UNREADABLE:
        return None


def _locked(cell: Mapping[str, Any]) -> bool:
    """Whether nbgrader would put the course's own text back into this cell, so that nobody sees what else stands in it."""
    marks = cell.get("metadata", {}).get("nbgrader", {})
    return not marks.get("solution") and bool(marks.get("locked") or marks.get("grade"))


def _plain(text: str) -> str:
    """A cell without what only IPython understands, and with as many lines."""
    if text.startswith("%%"):
        first, _, rest = text.partition("\n")
        text = f"# {first}\n{rest}" if first.startswith(_RUNS_ITS_CELL) else re.sub("^", "# ", text, flags=re.MULTILINE)
    return text if _tree(text) is not None else "\n".join(_python(text.split("\n")))


def _python(lines: list[str]) -> Iterator[str]:
    for line in lines:
        found = _SHELL.match(line)
        if line.lstrip().startswith("%time "):
            yield line.replace("%time ", "", 1)
        elif found:
            yield f"{found[1]}{found[2]}None  # {line}" if found[2] else f"{found[1]}pass  # {line.lstrip()}"
        else:
            yield line
