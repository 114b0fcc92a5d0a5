"""Grading many small submissions in one real process, as an instructor's machine would: for tests that compare scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import json, sys
from pathlib import Path
from grader.course import find_course
from grader.formats.json import as_data
from grader.grade import grade_all
from grader.submission import read_submission

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
course = find_course(Path.cwd())
submissions = (read_submission(path, course.modules) for path in sorted(folder.iterdir()))
grade_all(submissions, course, lambda submission, report: print("REPORT", json.dumps(as_data(report)), flush=True), **settings)
"""


def grade_each(
    submissions: Mapping[str, Mapping[str, str | bytes]], *, before: str = "", **settings: Any
) -> dict[str, dict[str, Any]]:
    """The reports of submissions (file contents by file name, by student), by student. The code `before` is run first."""
    with tempfile.TemporaryDirectory() as folder:
        for student, files in submissions.items():
            for name, content in files.items():
                path = Path(folder) / student / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        arguments = [sys.executable, "-c", before + SCRIPT, folder, json.dumps(settings)]
        run = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ))
    reports = [json.loads(line.removeprefix("REPORT ")) for line in run.stdout.splitlines() if line.startswith("REPORT ")]
    assert run.returncode == 0, run.stderr
    assert len(reports) == len(submissions), run.stdout + run.stderr
    return {report["submission"]: report for report in reports}


def scores(report: Mapping[str, Any]) -> dict[str, float]:
    """The points lost by exercise, where any were lost."""
    lost = {exercise["name"]: exercise["max_score"] - exercise["score"] for exercise in report["exercises"]}
    return {name: points for name, points in lost.items() if points}


def replaced(source: str, *changes: tuple[str, str]) -> str:
    """`source` with each text replaced, and an error where one is not there: a test that changes nothing tests nothing."""
    for old, new in changes:
        assert old in source, f"{old!r} is not in the source"
        source = source.replace(old, new)
    return source
