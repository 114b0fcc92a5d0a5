"""The report for a terminal, or for a pipe without colour."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
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
_COMMAND = re.compile(r"(?m)^\s*:(?=:)|##(?=\[)")  # what a job's log on GitHub would obey; a space makes text of it


def text(
    report: Report,
    *,
    colour: bool = False,
    width: int = 100,
    brief: bool = False,
    step: int = 0,
    ask: str = "",
    end: str = "",
    whole: bool = True,
) -> str:
    """A table of the exercises, then for each one in trouble its first cause; `brief` shows only what to do next.

    `step` asks for a step of the next exercise's ladder of hints, `ask` is how to ask for one, and `end` what is said when
    all is done, where the `whole` course ran.
    """
    console = Console(
        file=io.StringIO(), force_terminal=colour, width=width, highlight=False, color_system="auto" if colour else None
    )
    console.print(_table(report))
    console.print(Text(f"{points_of(report.score, report.max_score)} points", style="bold"))
    if not brief and report.isolation != "none":
        console.print(Text(f"isolation: {report.isolation}", style="dim"))
    for note in report.notes:
        console.print(Text(printable(note), style="cyan"))
    for why, points in report.left_out.items():
        console.print(Text(f"left out: {number(round(points, 2))} points, {printable(why)}", style="cyan"))
    said: set[str] = set()
    for exercise in _shown(report, brief):
        message = exercise.trouble.message if exercise.trouble else ""
        if message not in said:  # a file that can't be imported is told once
            _cause(console, exercise, is_next=exercise is report.next)
            for hint in _hints(exercise, is_next=exercise is report.next, step=step, ask=ask):
                console.print(_indented(hint))
        said.add(message)
    if report.next is None and report.status == "graded":
        console.print(Text("Every check passes." if whole else "Every check that ran passes.", style="bold green"))
        console.print(Text(f"\n{end}\n" if whole and end else "", style="green"), end="")
    file = console.file
    assert isinstance(file, io.StringIO)
    return _COMMAND.sub(lambda match: f"{match[0]} ", "\n".join(line.rstrip() for line in file.getvalue().split("\n")))


def _table(report: Report) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for exercise in report.exercises:
        table.add_row(
            exercise.name,
            Text(points_of(exercise.score, exercise.max_score), justify="right"),
            Text(bar(exercise), style=COLOUR[exercise.status]),
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
    troubled, first = _trouble(exercise)
    console.print(Text("\nNext: " if is_next else "\n", style="bold").append(exercise.name))
    console.print(_indented(told(first)))
    if len(troubled) > 1 and first.status != "todo":
        console.print(_indented(Text(f"{len(troubled)} of its {len(exercise.checks)} checks do not pass", style="dim")))


def _trouble(exercise: Exercise) -> tuple[list[Check], Check]:
    """The checks that do not pass, and the one to tell of."""
    troubled = [check for check in exercise.checks if check.status not in ("passed", "skipped")]
    return troubled, next((check for check in troubled if check.status == "broken"), troubled[0])


def _hints(exercise: Exercise, is_next: bool, step: int, ask: str) -> Iterator[Text]:
    """The mistake's own hint and, for the next exercise, the step of its ladder that was asked for, or else the first."""
    first, ladder = _trouble(exercise)[1], exercise.hints if is_next else ()
    imported = first.trouble is None or first.trouble.kind != "import"  # what is no Python needs no hint on attention
    if first.follows or not imported or first.status in ("broken", "blocked"):
        return
    if first.mistake:
        yield Text("Hint: ", style="bold").append(first.mistake.hint, style="not bold")
    shown = min(step or (not first.mistake), len(ladder))
    if shown:
        name = f"Hint {shown} of {len(ladder)}: " if step else "Hint: "
        yield Text(name, style="bold").append(ladder[shown - 1], style="not bold")
    if ask and shown < len(ladder):
        yield Text(f"({'the next step' if shown else 'more'}: {ask}{f'={shown + 1}' * (shown > 0)})", style="dim")


def told(check: Check) -> Text:
    """What there is to say of a check that did not pass: the mistake before the guess."""
    text = Text(f"{check.status}: ", style=COLOUR[check.status]).append(printable(check.title), style="default")
    text.append(f"\n{printable(check.message)}", style="default")
    if check.follows:
        text.append(f"\nThis follows from {' and '.join(check.follows)}: mend that first.", style="default")
    elif check.mistake is not None:
        text.append(f"\nWhat happens: {check.mistake.text}", style="default")
    elif check.symptom:
        text.append(f"\nWhat it looks like: {printable(check.symptom)}", style="default")
    if check.trouble is not None and check.trouble.printed:
        text.append(f"\nIt printed: {printable(check.trouble.printed[-500:].rstrip())}", style="dim")
    return text


def _indented(content: Text) -> Padding:
    return Padding(content, (0, 0, 0, 2))


def points_of(score: Fraction, max_score: Fraction) -> str:
    """A score in words, rounded."""
    return f"{number(round(score, 2))} of {number(round(max_score, 2))}"


def bar(exercise: Exercise) -> str:
    """An exercise's share of its points as a bar of ten."""
    full = int(BAR * exercise.score / exercise.max_score) if exercise.max_score else 0
    return "█" * full + "·" * (BAR - full)
