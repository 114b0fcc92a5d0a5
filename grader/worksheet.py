"""A lesson as a notebook in nbgrader's form, made from its stub: text, and below each exercise cells that try and grade it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from .report import number

TRY, GRADE, ANSWER = "try-", "grade-", "answer-"  # an exercise's cells: this and its name is their id, for Jupyter and nbgrader
MISSING = "To try your answers here, install what your course gave you"
SETUP = f"""\
# Run this cell first.
try:
    from grader.notebook import check, points
except ImportError:

    def check(exercise):
        print("{MISSING}")
        return 0.0

    points = check"""
HOW = (
    "In this notebook, run the cell `check(...)` below your code instead: it shows what your code does. "
    "The cell `points(...)` is where your points will stand."
)
_DEMO = 'if __name__ == "__main__":'
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class WorksheetError(Exception):
    """A lesson can't become a notebook; the message says why."""


def worksheet(module: str, stub: str, more: str, points: Mapping[str, Fraction]) -> str:
    """The notebook of a module: the same text for the same stub.

    `points` is what each exercise's function is worth; `more` are cells that only the notebook has, in percent format.
    Raises WorksheetError.
    """
    try:
        import jupytext
        import nbformat
    except ImportError:
        raise WorksheetError("the notebooks need jupytext: pip install -e '.[instructor]'") from None
    intro, *cells = jupytext.reads(stub, fmt="py:percent").cells
    own = jupytext.reads(more, fmt="py:percent").cells if more else []
    for cell in own:
        if cell.cell_type == "code" and not cell.source.startswith(_DEMO):
            raise WorksheetError(f"a code cell of the notebook's own begins with {_DEMO!r}, so that it does not run when graded")
    notebook = nbformat.v4.new_notebook(metadata=KERNEL)  # type: ignore[no-untyped-call]
    notebook.cells = _numbered(_made(module, _intro(intro.source, cells), [*cells, *own], points))
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"  # type: ignore[no-untyped-call]


def _intro(source: str, cells: list[Any]) -> str:
    """The module's docstring as text, below the first heading of the lesson."""
    text = ast.get_docstring(ast.parse(source)) or ""
    if cells and cells[0].cell_type == "markdown":
        heading, _, rest = cells.pop(0).source.partition("\n")
        return f"{heading}\n\n{text}\n\n{HOW}\n{rest}"
    return f"{text}\n\n{HOW}"


def _made(module: str, intro: str, cells: list[Any], points: Mapping[str, Fraction]) -> Iterator[Any]:
    yield _cell("markdown", "", intro)
    yield _cell("code", "setup", SETUP, locked=True)
    for cell in cells:
        if cell.cell_type == "markdown":
            yield _cell("markdown", "", cell.source)
            if question := cell.metadata.get("question"):  # graded by a person: nbgrader alone counts its points
                yield _cell("markdown", question, "YOUR ANSWER HERE", grade=True, solution=True, points=cell.metadata["points"])
            continue
        for function, source in _parts(cell.source, points):
            if function:
                call = f'("{module}.{function}")'
                yield _cell("code", ANSWER + function, source, solution=True)
                yield _cell("code", TRY + function, "check" + call, locked=True)
                yield _cell("code", GRADE + function, "points" + call, grade=True, locked=True, points=number(points[function]))
            else:
                yield _cell("code", "", _guarded(source))


def _parts(source: str, points: Mapping[str, Fraction]) -> Iterator[tuple[str, str]]:
    """A code cell cut so that each exercise has one of its own: its name, or nothing, and the code."""
    lines, start = source.split("\n"), 0
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in points:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            yield "", "\n".join(lines[start:first]).strip("\n")
            yield node.name, "\n".join(lines[first : node.end_lineno])
            start = node.end_lineno or 0
    yield "", "\n".join(lines[start:]).strip("\n")


def _guarded(source: str) -> str:
    """A demonstration that says what is still to do where it meets a stub."""
    if not source.startswith(_DEMO):
        return source
    head, _, body = source.partition("\n")
    body = textwrap.indent(body, "    ")
    return f"{head}\n    try:\n{body}\n    except (NotImplementedError, NameError) as todo:\n        print(todo)"


def _cell(kind: str, name: str, source: str, **marks: Any) -> Any:
    """A cell; `marks` are nbgrader's. A named cell that is not the student's to write can't be edited or deleted."""
    import nbformat

    metadata: dict[str, Any] = {}
    if name:
        unmarked = {"grade": False, "grade_id": name, "locked": False, "schema_version": 3, "solution": False, "task": False}
        metadata["nbgrader"] = {**unmarked, **marks}
        metadata |= {"deletable": False} | ({"editable": False} if marks.get("locked") else {})
    make: Any = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return make(source, id=name, metadata=metadata) if name else make(source, metadata=metadata)


def _numbered(cells: Iterator[Any]) -> list[Any]:
    """The cells that hold something; those without a name are numbered by what their text begins with."""
    kept = [cell for cell in cells if cell.source]
    taken = {cell.metadata.nbgrader.grade_id for cell in kept if "nbgrader" in cell.metadata}
    for cell in kept:
        if "nbgrader" not in cell.metadata:
            words = re.findall(r"[a-z0-9]+", cell.source.split("\n")[0].lower())
            name = base = "-".join(["code" if cell.cell_type == "code" else "text", *words])[:40].rstrip("-")
            count = 1
            while name in taken:
                count += 1
                name = f"{base}-{count}"
            taken.add(name)
            cell.id = name
    return kept
