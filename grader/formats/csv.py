"""Scores as CSV: one report, and the gradebooks of a class. A name that a spreadsheet would take for a formula is defused."""

from __future__ import annotations

import csv as _csv
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..report import Report
from .json import as_data

if TYPE_CHECKING:
    from .classpage import Class


def csv(report: Report) -> str:
    """A head and one row."""
    data = as_data(report)
    names = [exercise["name"] for exercise in data["exercises"]]
    scores = [exercise["score"] for exercise in data["exercises"]]
    row = [data["submission"], *scores, data["score"], data["max_score"], data["status"]]
    return table([["submission", *names, "score", "max_score", "status"], row])


def gradebooks(page: Class, ids: Mapping[str, str]) -> dict[str, str]:
    """gradebook.csv, and what Canvas and Moodle import, by file name. `ids` are the platform's numbers of the students."""
    students = page.students
    full = ([s.name, *s.scores(page.exercises), s.score, s.max_score, s.status, "; ".join(s.notes)] for s in students)
    canvas = ([s.name, ids[s.name], "" if ids[s.name] else s.name, "", s.score] for s in students)
    moodle = (
        [f"Participant {ids[s.name]}" if ids[s.name] else "", "" if ids[s.name] else s.name, s.name, s.score] for s in students
    )
    return {
        "gradebook.csv": table([["student", *page.exercises, "score", "max_score", "status", "notes"], *full]),
        "canvas.csv": table([["Student", "ID", "SIS Login ID", "Section", page.title], *canvas]),
        "moodle.csv": table([["Identifier", "Username", "Full name", "Grade"], *moodle]),
    }


def table(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV."""
    file = io.StringIO()
    writer = _csv.writer(file, lineterminator="\r\n")
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return file.getvalue()


def _harmless(cell: object) -> object:
    return (
        f"'{cell}"
        if isinstance(cell, str) and cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
        else cell
    )
