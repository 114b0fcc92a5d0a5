"""For GitHub: the results that Classroom's reporter reads, and commands that put a student's errors beside their lines.

That reporter tells a runner's score twice: as the sum of its tests' scores, and as `max_score` times the share that passed.
Both are right where all tests of a runner are worth the same, so `runners` makes one of each such group.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ..report import Check, Report
from .escape import printable
from .words import fitting, for_students, told

MOST = 90_000  # bytes of JSON: Linux takes 128 KiB in one environment variable, and base64 makes three bytes four
ALL = 600_000  # bytes of JSON in all runners
GRID = 1024  # scores are multiples of 1/1024, which JavaScript adds without a rest
Place = tuple[str, int]  # a file and a line in it


def github(report: Report) -> str:
    """The whole report as the result of one runner: a line of base64."""
    return f"{_result(for_students(report).checks, MOST)}\n"


def runners(report: Report) -> dict[str, str]:
    """Results in base64 by runner: the checks of a module that are worth the same points."""
    groups: dict[str, list[Check]] = {}
    for check in for_students(report).checks:
        if check.status != "skipped":
            groups.setdefault(f"{check.exercise.partition('.')[0]}_{str(check.points).replace('/', '_')}", []).append(check)
    most = min(MOST, ALL // max(1, len(groups)))
    return {name: _result(groups[name], most) for name in sorted(groups)}


def _result(checks: Sequence[Check], most: int) -> str:
    text = fitting(lambda limit: json.dumps(_data(checks, limit), ensure_ascii=False), most)
    return base64.b64encode(text.encode()).decode()


def _data(checks: Sequence[Check], limit: int) -> dict[str, Any]:
    counted = [check for check in checks if check.counts]
    broken = any(check.status == "broken" for check in checks)
    tests = [_test(check, score, limit) for check, score in zip(counted, _scores(counted), strict=True)]
    nothing = {"name": "nothing could be checked", "status": "error" if broken else "pass", "score": 0, "line_no": 0}
    return {
        "version": 1,
        "status": "error" if broken else "pass" if all(check.earned for check in counted) else "fail",
        "max_score": _rounded(sum((check.points for check in counted), Fraction(0))),
        "tests": tests or [nothing],  # the reporter divides by their number
    }


def _test(check: Check, score: float, limit: int) -> dict[str, Any]:
    frames = check.trouble.frames[-1:] if check.trouble else ()
    return {
        "name": _harmless(f"{check.exercise}: {printable(check.title)}"),
        "status": {"passed": "pass", "crashed": "error"}.get(check.status, "fail"),
        "score": score,
        "message": _harmless(f"{check.status}: {told(check, limit)}"),
        "test_code": "",
        "filename": frames[0].file if frames else "",
        "line_no": frames[0].line if frames else 0,
        "duration": 0,
    }


def _scores(checks: Sequence[Check]) -> Iterator[float]:
    """What each check earned, rounded so that any first few of them add up to their own sum, rounded."""
    total = Fraction(0)
    for check in checks:
        before, total = total, total + check.earned
        yield _rounded(total) - _rounded(before)


def _rounded(points: Fraction) -> float:
    value = round(points * GRID) / GRID
    return int(value) if value == int(value) else value


def _harmless(text: str) -> str:
    """`text` in which no line is a command: the reporter prints it, and GitHub obeys what is printed."""
    return re.sub(r":(?=:)|#(?=#\[)", "\\g<0>\u200b", text)


def commands(report: Report, definitions: Mapping[str, Place]) -> str:
    """A workflow command for each exercise that went wrong: an error at the student's own line, or where it is defined."""
    files = {file.rpartition("/")[2]: file for file, _ in definitions.values()}
    said: dict[tuple[str, str], str] = {}  # a file that can't be imported is told once
    for exercise in for_students(report).exercises:
        check = exercise.trouble
        if check is None or check.status not in ("failed", "crashed"):
            continue
        frames = [frame for frame in (check.trouble.frames if check.trouble else ()) if frame.file in files]
        place = (files[frames[-1].file], frames[-1].line) if frames else definitions.get(exercise.name)
        where = f"file={_property(place[0])},line={place[1]}," if place else ""
        said.setdefault((where, _value(told(check, 500))), _property(f"{exercise.name}: {printable(check.title)}"))
    return "".join(f"::error {where}title={title}::{words}\n" for (where, words), title in said.items())


def _value(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _value(text).replace(":", "%3A").replace(",", "%2C")
