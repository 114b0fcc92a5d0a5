"""`grader grade`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..course import Course
from ..formats import FORMATS
from ..options import Given, grading
from ..status import BELOW, BROKEN, UNREADABLE, stop

if TYPE_CHECKING:
    from ..report import Report

Shown = tuple[str, Path | None]  # a format, and where it goes: a file or the terminal


class Paired(click.Command):
    """A command that remembers the order of its --format and --output."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """As ever."""
        context.meta["order"] = [word.partition("=")[0] for word in args if word.startswith(("--format", "--output"))]
        return super().parse_args(context, args)


@click.command(cls=Paired)
@click.argument("submission", type=Given(path_type=Path))
@click.option(
    "--format", "formats", type=click.Choice(FORMATS), multiple=True, help="May be given several times.  [default: text]"
)
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    multiple=True,
    help="Write the --format before it here instead of on the terminal.",
)
@click.option("--as-they-come", is_flag=True, help="Write each --output again after every check, should the time run out.")
@grading
@click.option("--fail-under", type=click.FloatRange(0, 100), metavar="PERCENT", help="Exit with 1 below this score.")
@click.pass_obj
def grade(
    course: Course, /, submission: Path, formats: tuple[str, ...], outputs: tuple[Path, ...], as_they_come: bool,
    fail_under: float | None, **settings: Any,
) -> None:  # fmt: skip
    """Grade one SUBMISSION.

    SUBMISSION is a folder with the exercise files, one such file, or a notebook.
    """
    shown = paired(click.get_current_context().meta["order"], formats, outputs)
    if as_they_come:
        settings["so_far"] = lambda report: _show(report(), [(name, path) for name, path in shown if path is not None])
    report = graded(course, submission, **settings)
    _show(report, shown)
    finish(report, fail_under)


def graded(course: Course, submission: Path, **settings: Any) -> Report:
    """The report of a submission; `settings` are those of `grade.grade_all`. Stops with a sentence when there can be none."""
    from ..submission import SubmissionError, read_submission

    try:
        files = read_submission(submission, course.modules)
    except SubmissionError as error:
        stop(UNREADABLE, str(error))
    from ..confined.runner import RunnerFailed, Unavailable
    from ..grade import GraderFailed, NothingMatches, grade

    try:
        return grade(files, course, **settings)
    except NothingMatches as error:
        stop(UNREADABLE, str(error))
    except Unavailable as error:
        stop(BROKEN, str(error))
    except (GraderFailed, RunnerFailed) as error:
        stop(BROKEN, f"the grader broke, not the submission: {error}")


def finish(report: Report, fail_under: float | None = None) -> None:
    """Exit with the status that the report asks for."""
    if report.status == "broken":
        stop(BROKEN, "the grader broke in some checks; their points are left out. See the report")
    if fail_under is not None and report.percent < fail_under:
        sys.exit(BELOW)


def paired(order: Sequence[str], formats: Sequence[str], outputs: Sequence[Path]) -> list[Shown]:
    """Each format with where it goes: an --output belongs to the --format before it, or to the first one when none is before it.

    Raises click.UsageError when an --output has no --format, or two formats would go to the terminal.
    """
    pairs: list[tuple[str, list[Path]]] = []
    early: list[Path] = []
    names, paths = iter(formats), iter(outputs)
    for flag in order:
        if flag == "--format":
            pairs.append((next(names), early if not pairs else []))
        else:
            (pairs[-1][1] if pairs else early).append(next(paths))
    pairs = pairs or [("text", early)]
    if any(len(places) > 1 for _, places in pairs):
        raise click.UsageError("each --output needs a --format of its own before it")
    if sum(not places for _, places in pairs) > 1:
        raise click.UsageError("only one --format can go to the terminal: write an --output behind each of the others")
    return [(name, places[0] if places else None) for name, places in pairs]


def _show(report: Report, shown: Sequence[Shown]) -> None:
    for name, output in shown:
        text = _rendered(report, name, output)
        if output is None:
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
            click.echo(text, nl=False)
        else:
            _write(text.encode(), output)


def _rendered(report: Report, name: str, output: Path | None) -> str:
    from ..formats import render
    from ..formats.text import text

    if name != "text":
        return render(name, report)
    terminal = output is None and sys.stdout.isatty()
    return text(report, colour=terminal, width=click.get_current_context().terminal_width or (_columns() if terminal else 100))


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _write(data: bytes, output: Path) -> None:
    """Write a file at once or not at all; a pipe or a device is written into."""
    try:
        if output.exists() and not output.is_file():
            output.write_bytes(data)
            return
        new = output.resolve().with_name(f".{output.name}.new")
        new.write_bytes(data)
        os.replace(new, output.resolve())
    except OSError as error:
        stop(UNREADABLE, f"{output} can't be written: {error.strerror}")
