"""What a student reads of a check, as plain text for a format to escape, and what the course keeps back of its hidden checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..report import Check, Report, number
from .escape import MAX_SHOWN, printable

FRAMES = 5  # the last lines on the way to an error
WITHHELD = "This check is hidden: what it asked and what came is not shown."
LIMITS = (MAX_SHOWN, 500, 100, 0)


def told(check: Check, limit: int = MAX_SHOWN) -> str:
    """Why a check did not pass and what leads on; whatever a student's code said is cut to `limit` characters, 0 for nothing."""
    if not limit:
        return ""
    lines = [printable(check.message, limit)] if check.message else []
    if check.follows:
        lines.append(f"This follows from {' and '.join(check.follows)}: mend that first.")
    elif check.mistake is not None:
        lines += [f"What happens: {check.mistake.text}", f"Hint: {check.mistake.hint}"]
    elif check.symptom:
        lines.append(f"What it looks like: {printable(check.symptom, limit)}")
    if check.trouble is not None and check.status == "crashed":
        for frame in check.trouble.frames[-FRAMES:]:
            lines.append(printable(f"{frame.file}, line {frame.line}, in {frame.function}: {frame.code}", limit))
        if check.trouble.printed:
            lines.append(f"It printed: {printable(check.trouble.printed[-limit:].rstrip(), limit)}")
    return "\n".join(lines)


def heading(report: Report) -> str:
    """The score, what can't be counted, and what to do next: a line each."""
    lines = [f"{number(report.score)} of {number(report.max_score)} points"]
    if report.status == "broken":
        lines.append("The grader broke in some checks: that is no fault of yours, and their points are left out.")
    elif report.next is not None:
        lines.append(f"Next: {report.next.name}")
    lines += [f"left out: {number(points)} points, {printable(why)}" for why, points in report.left_out.items()]
    return "\n".join([*lines, *(printable(note) for note in report.notes)])


def for_students(report: Report) -> Report:
    """The report without what the course keeps back of hidden checks: what was asked and came, or their titles too."""
    if report.show_hidden == "visible":
        return report
    kept = _untold if report.show_hidden == "titles" else _unnamed
    exercises = (
        replace(item, checks=tuple(kept(check, place) if check.hidden else check for place, check in enumerate(item.checks, 1)))
        for item in report.exercises
    )
    return replace(report, exercises=tuple(exercises))


def _untold(check: Check, place: int) -> Check:
    """A known mistake or a symptom is in the course's words; everything else may hold the numbers of a hidden input."""
    told = "" if check.status == "passed" else check.message if check.status in ("todo", "blocked", "skipped") else WITHHELD
    return replace(check, message=told, trouble=None)


def _unnamed(check: Check, place: int) -> Check:
    check = replace(_untold(check, place), id=f"{check.exercise}/hidden/{place}", title=f"hidden check {place}")
    return replace(check, mistake=None, symptom="", follows=())


def fitting(make: Callable[[int], str], most: int) -> str:
    """What `make` gives for the largest limit on a student's words with which it has at most `most` bytes."""
    text = ""
    for limit in LIMITS:
        text = make(limit)
        if len(text.encode()) <= most:
            break
    return text
