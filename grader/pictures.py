"""Matrices that a student's code gives beside those that are due, drawn in a terminal, in a notebook, or in a file.

A course draws what it likes: `pictures.py` beside its visible checks holds `PICTURES`, which has a function for each
exercise with pictures. It is handed the student's module and yields `Picture`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.columns import Columns
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .confined.runner import Runner, RunnerFailed
from .course import Course
from .diagnosis.diagnose import load
from .judge import judge
from .student import enforce, unavailable
from .submission import Submission
from .trouble import raise_as

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "pictures.py"
LOW, HIGH = (68, 1, 84), (253, 231, 37)  # matplotlib's viridis, at its ends
WRONG = "#d62728"


class NoPicture(Exception):
    """The student's code gives nothing to draw; the message says what it did."""


@dataclass(frozen=True)
class Picture:
    """A matrix that came and the one that was due, of the same shape. Numbers further apart than `slack` differ."""

    title: str
    got: NDArray[Any]
    due: NDArray[Any]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    slack: float = 6e-4  # due numbers may be written with three decimals

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which numbers are not those due."""
        alike: NDArray[np.bool_] = np.isclose(self.got, self.due, rtol=0, atol=self.slack, equal_nan=True)
        return ~alike

    @property
    def summary(self) -> str:
        """The title, and how much is wrong."""
        count = int(self.wrong.sum())
        return f"{self.title}: " + (f"{count} of {self.wrong.size} numbers differ" if count else "as due")


def drawers(course: Course) -> Mapping[str, Callable[[Any], Iterable[Picture]]]:
    """What the course can draw, by the exercise's name."""
    path = course.visible / FILE
    found: Mapping[str, Any] = load("grader_course_pictures", path).PICTURES if path.is_file() else {}
    return {exercise.name: found[exercise.name] for exercise in course.exercises if exercise.name in found}


def pictures(submission: Submission, course: Course, exercise: str) -> list[Picture]:
    """The pictures of an exercise, from the student's code in its confined process.

    Raises NoPicture for what the student's code did instead, RunnerFailed, and KeyError for an exercise that has none.
    """
    draw, module = drawers(course)[exercise], exercise.partition(".")[0]
    with Runner(course.limits, preload=("numpy",)) as runner, runner.open(submission.sources) as confined:
        try:
            if trouble := unavailable(submission, module):
                raise_as(trouble)
            enforce(submission, course.rules, exercise)
            confined.begin(exercise)
            return list(draw(confined.module(module, exercise)))
        except (Exception, pytest.skip.Exception) as error:
            verdict = judge(error, exercise, course, {})
            if verdict.status == "broken":
                raise RunnerFailed(verdict.message) from error
            raise NoPicture(verdict.message) from None


def in_text(drawn: Sequence[Picture]) -> Group:
    """The pictures for rich: coloured blocks of numbers in a terminal, numbers alone in a pipe. `!` marks a difference."""
    parts: list[Any] = []
    for picture in drawn:
        low, high = _range(picture)
        sides = [("yours", picture.got, picture.wrong), ("due", picture.due, np.zeros_like(picture.wrong))]
        tables = [_table(picture, name, values, marked, low, high) for name, values, marked in sides]
        style = WRONG if picture.wrong.any() else "green"
        parts += [Text(picture.summary, style=f"bold {style}"), Columns(tables, padding=(0, 4)), Text()]
    return Group(*parts)


def figure(drawn: Sequence[Picture]) -> Figure:
    """The same as a matplotlib figure: a row a picture, with what came, what was due, and where they differ."""
    from matplotlib.figure import Figure

    heights = [1.0 + 0.35 * min(len(picture.due), 6) for picture in drawn]
    made = Figure(figsize=(10, sum(heights)), layout="constrained")
    axes = made.subplots(len(drawn), 3, squeeze=False, gridspec_kw={"height_ratios": heights})
    for picture, (got, due, apart) in zip(drawn, axes, strict=True):
        low, high = _range(picture)
        for axis, name, values in ((got, "yours", picture.got), (due, "due", picture.due)):
            _heatmap(axis, picture, f"{picture.title}: {name}", values, {"vmin": low, "vmax": high, "cmap": "viridis"})
        with np.errstate(invalid="ignore"):
            away = np.where(picture.wrong, picture.got - picture.due, 0.0)
        most = float(np.abs(away[np.isfinite(away)]).max(initial=0.0)) or 1.0
        _heatmap(apart, picture, "yours - due", away, {"vmin": -most, "vmax": most, "cmap": "coolwarm"})
        for axis in (got, apart):
            _mark(axis, picture.wrong)
    return made


def _range(picture: Picture) -> tuple[float, float]:
    numbers = np.concatenate([np.ravel(picture.got), np.ravel(picture.due)]).astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)


def _table(picture: Picture, name: str, values: NDArray[Any], marked: NDArray[Any], low: float, high: float) -> Table:
    table = Table(box=None, padding=0, title=name, title_style="italic", show_header=bool(picture.columns), header_style="dim")
    rows = list(picture.rows) or [""] * len(values)
    whole = bool(np.array_equal(picture.got, np.round(picture.got)) and np.array_equal(picture.due, np.round(picture.due)))
    if picture.rows:
        table.add_column("")
    for at in range(values.shape[1]):
        table.add_column(f"{picture.columns[at]} " if picture.columns else "", justify="right", no_wrap=True)
    for row, numbers, marks in zip(rows, values, marked, strict=True):
        cells = [_cell(float(number), bool(mark), whole, low, high) for number, mark in zip(numbers, marks, strict=True)]
        table.add_row(*([Text(f"{row} ", style="dim")] if picture.rows else []), *cells)
    return table


def _cell(number: float, marked: bool, whole: bool, low: float, high: float) -> Text:
    share = min(1.0, max(0.0, (number - low) / (high - low))) if high > low and np.isfinite(number) else 0.0
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(LOW, HIGH, strict=True))
    ink = "black" if share > 0.5 else "white"
    text = f"{number:.0f}" if whole else f"{number:.3f}" if abs(number) < 10 else f"{number:.3g}"
    return Text(
        f" {text:>5}{'!' if marked else ' '}", style=f"bold {WRONG} on white" if marked else f"{ink} on rgb({red},{green},{blue})"
    )


def _heatmap(axis: Any, picture: Picture, title: str, values: NDArray[Any], how: Mapping[str, Any]) -> None:
    axis.imshow(np.asarray(values, dtype=np.float64), aspect="auto", **how)
    axis.set_title(title, fontsize=9)
    axis.set_xticks(
        range(values.shape[1]), picture.columns or [""] * values.shape[1], fontsize=7, rotation=45 if picture.columns else 0
    )
    axis.set_yticks(range(values.shape[0]), picture.rows or [""] * values.shape[0], fontsize=7)
    axis.tick_params(length=0)
    if values.size <= 64:
        for (row, column), number in np.ndenumerate(values):
            axis.text(
                column,
                row,
                f"{number:.3f}".rstrip("0").rstrip("."),
                ha="center",
                va="center",
                fontsize=7,
                color="white",
                path_effects=_outline(),
            )


def _outline() -> list[Any]:
    from matplotlib import patheffects

    return [patheffects.withStroke(linewidth=1.5, foreground="black")]


def _mark(axis: Any, wrong: NDArray[np.bool_]) -> None:
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(wrong):
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=WRONG, linewidth=2))
