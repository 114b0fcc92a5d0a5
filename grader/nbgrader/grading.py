"""`nbgrader autograde` by the confined runner: score and report of an exercise on its grade cell, a comment on its answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.preprocessors import Execute, NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution

from ..classes.workers import Order, grader_digest, report_of
from ..report import Exercise, Report, number
from ..submission import Submission, collect
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
        folders = (directory.source_directory, "."), (directory.submitted_directory, where["student"])
        source, submitted = (Path(directory.format_path(*folder, where["assignment"])) for folder in folders)
        graded = _by_name(_report(where["student"], source, submitted))
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                if is_grade(cell) and not is_solution(cell):
                    _write(cell, graded, where["notebook"])
        resources[DATA] = graded
        return nb, resources


class Save(SaveAutoGrades):  # type: ignore[misc]
    """Stores scores as nbgrader reads them from the cells and, for each answer, in the course's words alone, what to look at."""

    def preprocess(self, nb: Any, resources: Any) -> Pair:
        if not is_ours(resources):
            result: Pair = super().preprocess(nb, resources)
            return result
        where = resources["nbgrader"]
        with Gradebook(where["db_url"]) as gradebook:
            stored = gradebook.find_submission_notebook(where["notebook"], where["assignment"], where["student"])
            grades = {grade.name: grade for grade in stored.grades}
            comments = {comment.name: comment for comment in stored.comments}
            for cell in nb.cells:
                if is_grade(cell):
                    grade = grades[cell.metadata.nbgrader["grade_id"]]
                    grade.auto_score, _ = determine_grade(cell, self.log)
                    grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
            for cell in nb.cells:
                if is_solution(cell):
                    told = comments[cell.metadata.nbgrader["grade_id"]]
                    told.auto_comment = _comment(cell, resources[DATA], where["notebook"])
            gradebook.db.commit()
        return nb, resources


def _comment(cell: Any, graded: Mapping[str, Exercise], notebook: str) -> str | None:
    marks = cell.metadata.nbgrader
    exercise = graded.get(f"{notebook}.{marks['grade_id'].removeprefix(ANSWER)}")
    if exercise is not None:
        return comment(exercise)
    return "No response." if marks["checksum"] == compute_checksum(cell) else None


def _report(student: str, source: Path, submitted: Path) -> Report:
    """The report of the notebooks in a folder, as `grader grade FOLDER` gives it, on the modules that the assignment has."""
    modules = [module for module in course().modules if (source / f"{module}.ipynb").exists()]
    paths = {module: submitted / f"{module}.ipynb" for module in modules}
    submission = collect(student, {module: path for module, path in paths.items() if path.exists()})
    select = " or ".join(f"{module}." for module in modules)
    how = {"select": select, "gpu": "skip"}  # without a GPU anywhere: the gradebook's total is fixed
    order = Order(str(course().root), grader_digest(course()), course().seed, **how)
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
