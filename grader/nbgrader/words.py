"""What a student reads of a graded exercise. Hidden checks are counted, and told by the mistake that they found."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from html import escape

from ..formats.escape import printable
from ..formats.inline import SIGNS
from ..formats.words import told
from ..report import Check, Exercise, number

WIDTH = 100  # a feedback page cuts longer lines off


def told_exercise(exercise: Exercise) -> str:
    """The points, a line for each visible check, the number of hidden ones that pass, and the first cause."""
    lines = [f"{number(exercise.score)} of {number(exercise.max_score)} points"]
    lines += [f"{SIGNS[check.status]} {printable(check.title)}: {check.status}" for check in exercise.checks if not check.hidden]
    hidden = [check for check in exercise.checks if check.hidden and check.counts]
    if hidden:
        lines.append(f"{sum(check.status == 'passed' for check in hidden)} of {len(hidden)} hidden checks pass")
    if exercise.trouble is not None:
        lines += ["", told(_without_inputs(exercise.trouble))]
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in "\n".join(lines).split("\n"))


def comment(exercise: Exercise) -> str:
    """Markdown in the course's words alone: nothing that the student's code said."""
    check = exercise.trouble
    if check is None:
        return "Every check passes."
    if check.status in ("todo", "blocked"):
        return _plain("Still to do." if check.status == "todo" else "It waits for another exercise, which is still to do.")
    if check.follows:
        return _plain(f"This follows from {' and '.join(check.follows)}: mend that first.")
    if check.mistake is not None:
        return _plain(f"{check.mistake.text} {check.mistake.hint}")
    what = "A hidden check does not pass." if check.hidden else f"Not so yet: {check.title}."
    return _plain(f"{what} The report is below." + (f" A hint: {exercise.hints[0]}" if exercise.hints else ""))


def _without_inputs(check: Check) -> Check:
    """A hidden check without what was asked and what came: both may hold its inputs."""
    if not check.hidden:
        return check
    what = f"A hidden check: {check.status}"
    if check.trouble is not None and check.status == "crashed":
        last = check.trouble.frames[-1:]
        what += f" ({printable(check.trouble.type)}{''.join(f' in {printable(frame.place)}' for frame in last)})"
    return replace(check, message=what, trouble=None)


def _plain(text: str) -> str:
    """Text as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_$\[\]#])", r"\\\1", escape(text, quote=False))
