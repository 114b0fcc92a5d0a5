"""`grader grade`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..course import Course
from ..formats import FORMATS
from ..status import BELOW, BROKEN, UNREADABLE, stop


@click.command()
@click.argument("submission", type=click.Path(path_type=Path))
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the report here instead of on the terminal.",
)
@click.option(
    "-k",
    "select",
    metavar="EXPRESSION",
    default="",
    help="Only the exercises whose name matches, e.g. -k 'split_heads or merge_heads'.",
)
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the hidden checks' inputs (default: the course's).")
@click.option(
    "--isolation",
    type=click.Choice(["strong", "process"]),
    help="The least isolation to grade with (default: the strongest there is).",
)
@click.option("--fail-under", type=click.FloatRange(0, 100), metavar="PERCENT", help="Exit with 1 below this score.")
@click.pass_obj
def grade(
    course: Course, submission: Path, format_name: str, output: Path | None, select: str,
    seed: int | None, isolation: str | None, fail_under: float | None,
) -> None:  # fmt: skip
    """Grade SUBMISSION: a folder with the exercise files, one such file, or a notebook."""
    from ..submission import SubmissionError, read_submission

    try:
        files = read_submission(submission, course.modules)
    except SubmissionError as error:
        stop(UNREADABLE, str(error))
    from ..grade import GraderFailed, NothingMatches, grade
    from ..runner import RunnerFailed

    try:
        report = grade(files, course, select=select, seed=seed, isolation=isolation)
    except NothingMatches as error:
        stop(UNREADABLE, str(error))
    except (GraderFailed, RunnerFailed) as error:
        stop(BROKEN, f"the grader broke, not the submission: {error}")
    _show(_rendered(report, format_name, output), output)
    if report.status == "broken":
        stop(BROKEN, "the grader broke in some checks; their points are left out. See the report")
    if fail_under is not None and report.percent < fail_under:
        sys.exit(BELOW)


def _rendered(report: object, format_name: str, output: Path | None) -> str:
    from ..formats import render
    from ..formats.text import text
    from ..report import Report

    assert isinstance(report, Report)
    if format_name != "text":
        return render(format_name, report)
    terminal = output is None and sys.stdout.isatty()
    return text(report, colour=terminal, width=click.get_current_context().terminal_width or (_columns() if terminal else 100))


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _show(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        click.echo(text, nl=False)
        return
    try:
        output.write_bytes(text.encode())
    except OSError as error:
        stop(UNREADABLE, f"{output} can't be written: {error.strerror}")
