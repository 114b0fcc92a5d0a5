"""`nbgrader export`: a row a student and assignment, with the points of every exercise and the mistakes that were named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from ..formats.csv import table
from ..worksheet import GRADE
from .grading import DATA

_BEFORE = ("assignment", "student_id", "last_name", "first_name", "email", "timestamp")
_AFTER = ("raw_score", "late_submission_penalty", "score", "max_score", "to_grade_by_hand", "mistakes")


class ByExercise(ExportPlugin):  # type: ignore[misc]
    """CSV in UTF-8. A cell's column is named `notebook.exercise`; who handed nothing in has 0, as in nbgrader's own export."""

    def export(self, gradebook: Gradebook) -> None:
        rows = [
            self._row(gradebook, assignment, student)
            for assignment in gradebook.assignments
            for student in gradebook.students
            if assignment.name in (self.assignment or [assignment.name]) and student.id in (self.student or [student.id])
        ]
        cells = dict.fromkeys(name for row in rows for name in row if name not in (*_BEFORE, *_AFTER))
        head = [*_BEFORE, *cells, *_AFTER]
        path = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", path)
        path.write_text(table([head, *([row.get(name, "") for name in head] for row in rows)]), encoding="utf-8", newline="")

    def _row(self, gradebook: Gradebook, assignment: Any, student: Any) -> dict[str, Any]:
        who = {name: getattr(student, name) or "" for name in ("last_name", "first_name", "email")}
        row = {"assignment": assignment.name, "student_id": student.id, **who, "max_score": assignment.max_score}
        try:
            found = gradebook.find_submission(assignment.name, student.id)
        except MissingEntry:
            return {**row, "raw_score": 0.0, "score": 0.0}
        penalty = found.late_submission_penalty or 0.0
        row |= {"timestamp": found.timestamp or "", "raw_score": found.score, "late_submission_penalty": penalty}
        row |= {"score": max(0.0, found.score - penalty), "to_grade_by_hand": int(found.needs_manual_grade)}
        row["mistakes"] = " ".join(self._mistakes(assignment.name, student.id))
        for notebook in found.notebooks:
            row |= {f"{notebook.name}.{grade.name.removeprefix(GRADE)}": grade.score for grade in notebook.grades}
        return row

    def _mistakes(self, assignment: str, student: str) -> list[str]:
        """`exercise:mistake` for each that was named, from the notebooks that autograde wrote."""
        directory = self.parent.coursedir
        folder = Path(directory.format_path(directory.autograded_directory, student, assignment))
        marks = [
            cell["metadata"][DATA]
            for path in sorted(folder.glob("*.ipynb"))
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if DATA in cell["metadata"]
        ]
        return [f"{mark['exercise']}:{name}" for mark in marks for name in mark["mistakes"]]
