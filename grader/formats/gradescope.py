"""The report as Gradescope's results.json. One test that is not `visible` hides the total from students, so few should be."""

from __future__ import annotations

import json
from typing import Any

from ..report import Check, Report, number
from .escape import printable
from .words import fitting, for_students, heading, told

MOST = 1_000_000  # bytes; the platform names no limit
LATER = ("hidden", "after_due_date", "after_published")  # what it can keep back by itself, until then


def gradescope(report: Report) -> str:
    """A test a check, numbered as the exercises stand in the lesson."""
    shown = report if report.show_hidden in LATER else for_students(report)
    return fitting(lambda limit: json.dumps(_results(shown, limit), indent=2, ensure_ascii=False) + "\n", MOST)


def _results(report: Report, limit: int) -> dict[str, Any]:
    return {
        "score": number(report.score),
        "output": heading(report),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            _test(check, f"{place}.{part}", report.show_hidden, limit)
            for place, exercise in enumerate(report.exercises, 1)
            for part, check in enumerate(exercise.checks, 1)
        ],
        "extra_data": {
            **{"max_score": number(report.max_score), "status": report.status},
            **{"isolation": report.isolation, "seed": report.seed},
        },
    }


def _test(check: Check, place: str, show_hidden: str, limit: int) -> dict[str, Any]:
    """A check as a test; one that does not count has no points, and neither passed nor failed."""
    verdict = {"status": "passed" if check.status == "passed" else "failed"} if check.counts else {}
    words = told(check, limit)
    return {
        "name": f"{check.exercise}: {printable(check.title)}",
        "number": place,
        "score": number(check.earned),
        "max_score": number(check.points) if check.counts else 0,
        **verdict,
        "output": f"{check.status}: {words}" if words else check.status,
        "output_format": "text",
        "tags": [check.exercise, check.status],
        "visibility": show_hidden if check.hidden and show_hidden in LATER else "visible",
        "extra_data": {"id": check.id, "hidden": check.hidden, "mistake": check.mistake.name if check.mistake else None},
    }
