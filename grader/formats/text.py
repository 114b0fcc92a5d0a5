"""The report for a terminal, or for a pipe without colour."""

from __future__ import annotations

import io
from fractions import Fraction

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..report import Check, Exercise, Report, Status, number
from .escape import printable

COLOUR: dict[Status, str] = {
    **{"passed": "green", "failed": "red", "crashed": "red", "todo": "yellow"},
    **{"blocked": "yellow", "skipped": "cyan", "broken": "magenta"},
}
BAR = 10  # cells


def text(report: Report, *, colour: bool = False, width: int = 100, brief: bool = False) -> str:
    """A table of the exercises, then for each one in trouble its first cause; `brief` shows only what to do next."""
    console = Console(
        file=io.StringIO(), force_terminal=colour, width=width, highlight=False, color_system="auto" if colour else None
    )
    console.print(_table(report))
    console.print(Text(f"{_points(report.score, report.max_score)} points", style="bold"))
    if not brief and report.isolation != "none":
        console.print(Text(f"isolation: {report.isolation}", style="dim"))
    for note in report.notes:
        console.print(Text(printable(note), style="cyan"))
    said: set[str] = set()
    for exercise in _shown(report, brief):
        message = exercise.trouble.message if exercise.trouble else ""
        if message not in said:  # a file that can't be imported is told once
            _cause(console, exercise, is_next=exercise is report.next)
        said.add(message)
    if report.next is None and report.status == "graded":
        console.print(Text("Every check passes.", style="bold green"))
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def _table(report: Report) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for exercise in report.exercises:
        table.add_row(
            exercise.name,
            Text(_points(exercise.score, exercise.max_score), justify="right"),
            Text(_bar(exercise), style=COLOUR[exercise.status]),
            Text(exercise.status, style=COLOUR[exercise.status]),
        )
    return table


def _shown(report: Report, brief: bool) -> list[Exercise]:
    if brief:
        return [report.next] if report.next else []
    return [
        exercise for exercise in report.exercises if exercise.status in ("failed", "crashed", "broken") or exercise is report.next
    ]


def _cause(console: Console, exercise: Exercise, is_next: bool) -> None:
    troubled = [check for check in exercise.checks if check.status not in ("passed", "skipped")]
    first = next((check for check in troubled if check.status == "broken"), troubled[0])
    console.print(Text("\nNext: " if is_next else "\n", style="bold").append(exercise.name))
    console.print(_indented(_told(first)))
    if len(troubled) > 1 and first.status != "todo":
        console.print(_indented(Text(f"{len(troubled)} of its {len(exercise.checks)} checks do not pass", style="dim")))
    hint = (
        "" if first.follows else first.mistake.hint if first.mistake else exercise.hints[0] if is_next and exercise.hints else ""
    )
    imported = first.trouble is None or first.trouble.kind != "import"  # what is no Python needs no hint on attention
    if hint and imported and first.status not in ("broken", "blocked"):
        console.print(_indented(Text("Hint: ", style="bold").append(hint, style="not bold")))


def _told(check: Check) -> Text:
    told = Text(f"{check.status}: ", style=COLOUR[check.status]).append(printable(check.title), style="default")
    told.append(f"\n{printable(check.message)}", style="default")
    if check.follows:
        told.append(f"\nThis follows from {' and '.join(check.follows)}: mend that first.", style="default")
    elif check.mistake is not None:
        told.append(f"\nWhat happens: {check.mistake.text}", style="default")
    elif check.symptom:
        told.append(f"\nWhat it looks like: {printable(check.symptom)}", style="default")
    if check.trouble is not None and check.trouble.printed:
        told.append(f"\nIt printed: {printable(check.trouble.printed[-500:])}", style="dim")
    return told


def _indented(content: Text) -> Padding:
    return Padding(content, (0, 0, 0, 2))


def _points(score: Fraction, max_score: Fraction) -> str:
    return f"{number(round(score, 2))} of {number(round(max_score, 2))}"


def _bar(exercise: Exercise) -> str:
    full = int(BAR * exercise.score / exercise.max_score) if exercise.max_score else 0
    return "█" * full + "·" * (BAR - full)
