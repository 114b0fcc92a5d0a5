"""`nbgrader autograde` by the confined runner: score and report of an exercise on its grade cell, a comment on its answer."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from ..report import Exercise, Report, number
from ..submission import Submission, collect
from ..workers import Order, grader_digest, report_of
from ..worksheet import ANSWER, GRADE
from .released import Pair, course, is_ours
from .words import comment, told_exercise

DATA = "grader"  # the metadata of a grade cell that the export reads
_last: list[tuple[Submission, Order, Report]] = []  # a student's notebooks come one after another, and are graded together


class CannotGrade(Exception):
    """The score would not be what was promised; the message says why. nbgrader then stores none."""


class Grade(NbGraderPreprocessor):  # type: ignore[misc]
    """Takes the place of `Execute`. No code of the student's runs here, and no output of theirs stays."""

    def preprocess(self, nb: Any, resources: Any) -> Pair:
        if not is_ours(resources):
            result: Pair = Execute(parent=self.parent).preprocess(nb, resources)
            return result
        where = resources["nbgrader"]
        directory = self.parent.parent.coursedir  # of the converter that this exporter works for
        folder = directory.format_path(directory.submitted_directory, where["student"], where["assignment"])
        graded = _by_name(_report(where["student"], Path(folder)))
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                if is_grade(cell) and not is_solution(cell):
                    _write(cell, graded, where["notebook"])
        resources[DATA] = graded
        return nb, resources


class Comment(NbGraderPreprocessor):  # type: ignore[misc]
    """Says below each answer, in the course's words alone, what to look at; after `SaveAutoGrades`, which clears comments."""

    def preprocess(self, nb: Any, resources: Any) -> Pair:
        where = resources["nbgrader"]
        if is_ours(resources):
            with Gradebook(where["db_url"]) as gradebook:
                for exercise in resources[DATA].values():
                    module, _, function = exercise.name.rpartition(".")
                    if module == where["notebook"]:
                        with contextlib.suppress(MissingEntry):
                            place = (ANSWER + function, where["notebook"], where["assignment"], where["student"])
                            gradebook.find_comment(*place).auto_comment = comment(exercise)
                gradebook.db.commit()
        return nb, resources


def _report(student: str, folder: Path) -> Report:
    """The report of all notebooks of the course in a folder, as `grader grade FOLDER` gives it."""
    paths = {module: folder / f"{module}.ipynb" for module in course().modules}
    submission = collect(student, {module: path for module, path in paths.items() if path.exists()})
    order = Order(str(course().root), grader_digest(course()), course().seed, gpu="skip")  # the gradebook's total is fixed
    if not _last or _last[0][:2] != (submission, order):
        _last[:] = [(submission, order, report_of(submission, order))]
    return _last[0][2]


def _by_name(report: Report) -> dict[str, Exercise]:
    return {exercise.name: exercise for exercise in report.exercises}


def _write(cell: Any, graded: dict[str, Exercise], notebook: str) -> None:
    """Put the report and, as a plain float, the score on a grade cell. Raises CannotGrade."""
    exercise = graded.get(f"{notebook}.{cell.metadata.nbgrader['grade_id'].removeprefix(GRADE)}")
    if exercise is None:
        raise CannotGrade(f"the course has no exercise for the cell {cell.metadata.nbgrader['grade_id']} of {notebook}")
    points = cell.metadata.nbgrader["points"]
    on_gpu = [check for check in exercise.checks if check.status == "skipped" and check.message.startswith("needs a GPU")]
    left_out = [check for check in exercise.checks if not check.counts and check not in on_gpu]
    if left_out:
        raise CannotGrade(f"{exercise.name} can't be graded here: {left_out[0].title}: {left_out[0].message}")
    if float(exercise.max_score) != points:
        due = number(exercise.max_score)
        raise CannotGrade(f"{exercise.name} is worth {due} points, {points} in what was released: generate the assignment anew")
    stream = nbformat.v4.new_output("stream", name="stdout", text=told_exercise(exercise) + "\n")  # type: ignore[no-untyped-call]
    score = nbformat.v4.new_output(  # type: ignore[no-untyped-call]
        "execute_result", data={"text/plain": repr(float(exercise.score))}, execution_count=1
    )
    cell.outputs, cell.execution_count = [stream, score], 1
    mistakes = sorted({check.mistake.name for check in exercise.checks if check.mistake is not None})
    cell.metadata[DATA] = {"exercise": exercise.name, "status": exercise.status, "mistakes": mistakes}
