"""The report as PrairieLearn's results.json: at most 1 MB, with a score between 0 and 1."""

from __future__ import annotations

import json
from typing import Any

from ..report import Check, Report, number
from .escape import printable
from .words import fitting, for_students, heading, told

MOST = 1_000_000  # bytes


def prairielearn(report: Report) -> str:
    """A test a check. Where the grader broke, or nothing could be counted, the attempt is not gradable and costs nothing."""
    shown = for_students(report)
    return fitting(lambda limit: json.dumps(_results(shown, limit), indent=2, ensure_ascii=False) + "\n", MOST)


def _results(report: Report, limit: int) -> dict[str, Any]:
    results: dict[str, Any] = {
        "gradable": report.status == "graded" and report.max_score > 0,
        "score": float(report.score / report.max_score) if report.max_score else 0.0,
        "message": heading(report),
        "tests": [_test(check, limit) for check in report.checks],  # each has points: one without would switch them off for all
    }
    if not results["gradable"]:
        results["format_errors"] = [heading(report)]
    return results


def _test(check: Check, limit: int) -> dict[str, Any]:
    return {
        "name": f"{check.exercise}: {printable(check.title)}",
        "description": check.id,
        "points": number(check.earned),
        "max_points": number(check.points) if check.counts else 0,
        "message": check.status,
        "output": told(check, limit),
    }
