"""The report as Markdown, such as the summary of a GitHub job. Whatever came from a student stands in a fence of its own."""

from __future__ import annotations

import re

from ..report import Exercise, Report, number
from .escape import printable
from .words import fitting, for_students, heading, told

MOST = 1_000_000  # bytes: GitHub refuses a summary of more than 1 MiB
BAR = 10  # cells
_MARKUP = re.compile(r"[!#$&*+./:<>?@\[\\\]^_`{|}~-]")


def markdown(report: Report) -> str:
    """A table of the exercises, then each one's checks and what was wrong."""
    shown = for_students(report)
    return fitting(lambda limit: _page(shown, limit), MOST)


def _page(report: Report, limit: int) -> str:
    score, *rest = heading(report).split("\n")
    lines = [f"# {plain(printable(report.submission))}", "", f"**{plain(score)}**", ""]
    lines += [line for sentence in rest for line in (plain(sentence), "")]
    lines += ["| exercise | points | | status |", "|---|---:|---|---|"]
    for item in report.exercises:
        points = f"{number(item.score)} of {number(item.max_score)}"
        lines.append(f"| `{item.name}` | {points} | {_bar(item)} | {item.status} |")
    for item in report.exercises:
        lines += ["", *_exercise(item, item is report.next, limit)]
    return "\n".join([*lines, ""])


def _exercise(item: Exercise, is_next: bool, limit: int) -> list[str]:
    passed = sum(check.status == "passed" for check in item.checks)
    lines = [
        "<details open>" if is_next else "<details>",
        f"<summary>{item.name}: {passed} of {len(item.checks)} checks pass</summary>",
        "",
    ]
    said: set[str] = set()
    for check in item.checks:
        lines.append(f"- {check.status}, {number(check.earned)} of {number(check.points)}: {plain(printable(check.title))}")
        words = [line for line in told(check, limit).split("\n") if line and line not in said]
        if words:  # what several checks have in common is told once
            lines += ["", *(f"  {line}" for line in fenced(words)), ""]
        said.update(words)
    return [*lines, "", "</details>"]


def plain(text: str) -> str:
    """`text` as one line of Markdown that means nothing but itself."""
    return _MARKUP.sub(lambda match: f"\\{match[0]}", " ".join(text.split()))


def fenced(lines: list[str]) -> list[str]:
    """The lines in a fence that is longer than any in them."""
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return [f"{fence}text", *lines, fence]


def _bar(item: Exercise) -> str:
    full = int(BAR * item.score / item.max_score) if item.max_score else 0
    return "█" * full + "·" * (BAR - full)
