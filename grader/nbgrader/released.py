"""What was released stays as it was: the stubs when an assignment is made, and the course's own cells when it comes back."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearSolutions,
    DeduplicateIds,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
)

from ..course import Course, find_course
from ..worksheet import ANSWER, KERNEL

Pair = tuple[Any, Any]
_TAG = re.compile(r"<(?=[A-Za-z/!?])|(?<=\\)(?=href|require|def|newcommand|let)|(?<=javascript)(?=:)", re.IGNORECASE)


@functools.cache
def course() -> Course:
    """The course whose notebooks these are: that of the current folder, or the installed one."""
    return find_course(Path.cwd())


def is_ours(resources: Mapping[str, Any]) -> bool:
    """Whether nbgrader is at work on a notebook of the course."""
    return resources["nbgrader"]["notebook"] in course().modules


def _but_for_ours(stock: Any) -> Any:
    """A preprocessor of nbgrader's that has nothing left to do for the course's notebooks: `Restore` has done it."""

    def preprocess(self: Any, nb: Any, resources: Any) -> Pair:
        result: Pair = (nb, resources) if is_ours(resources) else stock.preprocess(self, nb, resources)
        return result

    return type(stock.__name__, (stock,), {"preprocess": preprocess})


Deduplicate, Kernelspec, Overwrite, Check = map(
    _but_for_ours, (DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata)
)


class KeepStubs(ClearSolutions):  # type: ignore[misc]
    """Clears solutions as nbgrader does, but for the course's answer cells, which hold none."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> Pair:
        ours = is_ours(resources) and cell.metadata.get("nbgrader", {}).get("grade_id", "").startswith(ANSWER)
        return (cell, resources) if ours else super().preprocess_cell(cell, resources, cell_index)


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """Keeps of a student's notebook what they wrote, as harmless text, with the marks of the released cells and nothing else.

    Graded cells that are gone come back, a cell that is there twice counts once, and no script reaches a page.
    """

    def preprocess(self, nb: Any, resources: Any) -> Pair:
        if is_ours(resources):
            where = resources["nbgrader"]
            with Gradebook(where["db_url"]) as gradebook:
                notebook = gradebook.find_notebook(where["notebook"], where["assignment"])
                texts = {cell.name: (cell.cell_type, cell.source) for cell in notebook.source_cells}
                _restore(nb, _marks(notebook), texts)
        return nb, resources


def _marks(notebook: Any) -> dict[str, dict[str, Any]]:
    """nbgrader's metadata of each released cell, by its name."""
    points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    marks = {}
    for cell in notebook.source_cells:
        name = cell.name
        kind = {"grade": name in points, "solution": name in solutions, "locked": cell.locked, "task": False}
        known = {"grade_id": name, "schema_version": 3, "cell_type": cell.cell_type, "checksum": cell.checksum}
        marks[name] = {**kind, **known, **({"points": points[name]} if name in points else {})}
    return marks


def _restore(nb: Any, marks: dict[str, dict[str, Any]], texts: dict[str, tuple[str, str]]) -> None:
    nb.metadata = nbformat.from_dict(KERNEL)  # type: ignore[no-untyped-call]
    missing = dict(marks)
    nb.cells = [_harmless(cell) for cell in nb.cells]
    for cell in reversed(nb.cells):
        told = cell.metadata.get("nbgrader")
        name = str(told.get("grade_id")) if isinstance(told, dict) else ""
        known = name in missing and cell.cell_type == texts[name][0]
        cell.metadata = nbformat.from_dict({"nbgrader": missing.pop(name)} if known else {})  # type: ignore[no-untyped-call]
        if known and marks[name]["locked"]:
            cell.source = texts[name][1]
    for name, mark in missing.items():
        if mark["grade"]:
            nb.cells.append(_new(*texts[name], {"nbgrader": mark}))
    for number, cell in enumerate(nb.cells):
        cell.id = f"cell-{number}"
    nb.nbformat_minor = max(nb.nbformat_minor, 5)


def _harmless(cell: Any) -> Any:
    """A cell that runs nothing in a page: text has no tags, and a raw cell, which is copied as it stands, becomes text."""
    if cell.cell_type == "code":
        return cell
    return _new("markdown", _TAG.sub(lambda found: f"{found[0]} ", cell.source), cell.metadata)


def _new(kind: str, source: str, metadata: Any) -> Any:
    make: Any = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return make(source, metadata=metadata)
