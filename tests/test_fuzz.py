"""The grader against chance: random submissions for some seconds, and one score by every road."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from classes import submissions
from grading import ROOT, grade_each

SECONDS = 12


def test_random_submissions_break_nothing() -> None:
    """A minute of them, or ten, is a command: `python tests/fuzz.py`."""
    command = [sys.executable, "tests/fuzz.py", "--seconds", str(SECONDS), "--seed", "7", "-k", "numpy_attention or repeat_kv"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "nothing broke" in run.stdout


@pytest.mark.parametrize("number", [1, 5])
def test_the_score_is_the_same_by_every_road(tmp_path: Path, number: int) -> None:
    """pytest in-process, `grader grade` in four formats, and a session that grades others before it."""
    everybody = dict(submissions(6))
    student, files = list(everybody.items())[number]
    folder, select = tmp_path / student, "numpy_attention or repeat_kv"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    report = grade_each(everybody, select=select)[student]
    assert report["max_score"] > 0
    outputs = {}
    for form in ("json", "gradescope", "junit", "csv"):
        outputs[form] = tmp_path / f"report.{form}"
        command = [sys.executable, "-m", "grader", "grade", str(folder), "-k", select, "--format", form, "--output"]
        subprocess.run([*command, str(outputs[form])], cwd=ROOT, check=True, capture_output=True)
    alone = json.loads(outputs["json"].read_text())
    assert alone["exercises"] == report["exercises"]
    assert sum(test["score"] for test in json.loads(outputs["gradescope"].read_text())["tests"]) == pytest.approx(report["score"])
    assert f"{report['score']:g}" in outputs["csv"].read_text().splitlines()[-1].split(",")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/checks",
        f"--submission={folder}",
        "-k",
        select,
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"{report['score']:g} of {report['max_score']:g} points" in run.stdout
