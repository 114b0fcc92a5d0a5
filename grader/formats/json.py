"""The report as JSON, as the contract writes it: the same submission, seed and grader give the same bytes."""

from __future__ import annotations

import json as _json
from dataclasses import asdict
from typing import Any

from ..report import Check, Exercise, Report, number
from .escape import printable


def json(report: Report) -> str:
    """One object, indented, in UTF-8."""
    return _json.dumps(as_data(report), indent=2, ensure_ascii=False) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """The report as plain data, for one line of a journal as well as for a page."""
    return {
        "score": number(report.score),
        "max_score": number(report.max_score),
        "status": report.status,
        "submission": printable(report.submission),
        "isolation": report.isolation,
        "seed": report.seed,
        "notes": [printable(note) for note in report.notes],
        "exercises": [_exercise(exercise) for exercise in report.exercises],
    }


def _exercise(exercise: Exercise) -> dict[str, Any]:
    return {
        "name": exercise.name,
        "score": number(exercise.score),
        "max_score": number(exercise.max_score),
        "status": exercise.status,
        "checks": [_check(check) for check in exercise.checks],
    }


def _check(check: Check) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": check.id,
        "title": printable(check.title),
        "points": number(check.points),
        "earned": number(check.earned),
        "status": check.status,
        "hidden": check.hidden,
        "message": printable(check.message),
        "mistake": asdict(check.mistake) if check.mistake else None,
        "symptom": printable(check.symptom),
        "follows": list(check.follows),
    }
    if check.status == "crashed" and check.trouble is not None:
        data["trace"] = [
            {key: printable(value) if isinstance(value, str) else value for key, value in asdict(frame).items()}
            for frame in check.trouble.frames
        ]
        data["printed"] = printable(check.trouble.printed)
    return data
