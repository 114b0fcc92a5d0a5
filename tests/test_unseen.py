"""Wrong solutions written without a look at the catalogue: nearly all are told their true cause, and none the answer."""

from __future__ import annotations

from typing import Any

import pytest
from grading import ROOT, grade_each
from unseen import UNSEEN

ENOUGH = 0.9  # of them are told their true cause


def told(report: dict[str, Any], exercise: str) -> str:
    """Everything that the student of an exercise reads."""
    checks = next(item["checks"] for item in report["exercises"] if item["name"] == exercise)
    parts = [
        text
        for check in checks
        if check["status"] in ("failed", "crashed")
        for text in (check["message"], check["symptom"], *(check["mistake"] or {}).values())
    ]
    return " ".join(parts).lower()


@pytest.fixture(scope="module")
def graded() -> dict[str, dict[str, Any]]:
    submissions = {}
    for number, one in enumerate(UNSEEN):
        file = f"{one.exercise.partition('.')[0]}.py"
        right = (ROOT / "solutions" / file).read_text(encoding="utf-8").partition('if __name__ == "__main__"')[0]
        submissions[f"{number:02}"] = {file: right + one.source}  # what is defined last counts
    return grade_each(submissions)


def test_the_true_cause_is_told(graded: dict[str, Any]) -> None:
    said = {number: told(graded[f"{number:02}"], one.exercise) for number, one in enumerate(UNSEEN)}
    assert all(said.values()), "one of them lost no points"
    missed = {one.cause: said[n] for n, one in enumerate(UNSEEN) if not any(word.lower() in said[n] for word in one.words)}
    assert len(missed) <= (1 - ENOUGH) * len(UNSEEN), missed


def test_no_line_of_a_solution_is_shown(graded: dict[str, Any]) -> None:
    for number, one in enumerate(UNSEEN):
        source = (ROOT / "solutions" / f"{one.exercise.partition('.')[0]}.py").read_text(encoding="utf-8")
        regions = [part.split("### END")[0] for part in source.split("### BEGIN SOLUTION")[1:]]
        lines = {line.strip().lower() for region in regions for line in region.splitlines()[1:] if len(line.strip()) > 25}
        own = one.source.lower()
        assert not [line for line in lines if line in told(graded[f"{number:02}"], one.exercise) and line not in own]
