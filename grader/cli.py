"""The command `grader`: a thin skin over functions that live elsewhere."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click

from . import __version__
from .course import Course, CourseError, find_course
from .formats import FORMATS

GRADED, BELOW, UNREADABLE, BROKEN, INTERRUPTED = 0, 1, 2, 3, 130  # exit statuses


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option(
    "--course",
    "start",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="The course's folder (default: here).",
)
@click.pass_context
def main(context: click.Context, start: Path) -> None:
    """Checks exercises on multi-head attention and reports the scores."""
    try:
        context.obj = find_course(start.resolve())
    except CourseError as error:
        _stop(UNREADABLE, str(error))


@main.command()
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
    from .submission import SubmissionError, read_submission

    try:
        files = read_submission(submission, course.modules)
    except SubmissionError as error:
        _stop(UNREADABLE, str(error))
    from .grade import GraderFailed, NothingMatches, grade
    from .runner import RunnerFailed

    try:
        report = grade(files, course, select=select, seed=seed, isolation=isolation)
    except NothingMatches as error:
        _stop(UNREADABLE, str(error))
    except (GraderFailed, RunnerFailed) as error:
        _stop(BROKEN, f"the grader broke, not the submission: {error}")
    _show(_rendered(report, format_name, output), output)
    if report.status == "broken":
        _stop(BROKEN, "the grader broke in some checks; their points are left out. See the report")
    if fail_under is not None and report.percent < fail_under:
        sys.exit(BELOW)


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when a file is stale.")
@click.pass_obj
def build(course: Course, check: bool) -> None:
    """Make the exercises from the solutions."""
    from . import build as building

    try:
        built = building.build(course)
    except building.BuildError as error:
        _stop(BELOW, str(error))
    if check:
        sentences = building.stale(course, built)
        if sentences:
            _stop(BELOW, "\n".join([*sentences, "run: grader build"]))
        return
    for path in building.write(built):
        click.echo(f"wrote {path.relative_to(course.root)}")


@main.command()
@click.argument("exercise")
@click.option(
    "--step",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="How far up the ladder, from a question to a near-answer.",
)
@click.pass_obj
def hint(course: Course, exercise: str, step: int) -> None:
    """A hint for EXERCISE, such as numpy_attention.softmax."""
    found = course.exercise(exercise)
    if found is None:
        wanted, functions = exercise.rpartition(".")[2], {item.function for item in course.exercises}
        alike = [wanted] if wanted in functions else get_close_matches(wanted, functions, 2)
        near = [item.name for item in course.exercises if item.function in alike]
        _stop(
            UNREADABLE,
            f"there is no exercise {exercise}; "
            + (
                f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(item.name for item in course.exercises)}"
            ),
        )
    click.echo(found.hints[min(step, len(found.hints)) - 1])
    if step < len(found.hints):
        click.echo(f"(the next step: grader hint {exercise} --step {step + 1})")


@main.command("class")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Where the results go; what is there already is not graded again.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=None, help="How many to grade at a time (default: one a processor)."
)
@click.option("--dask", "address", default="", metavar="ADDRESS", help="Grade on the Dask cluster of this scheduler.")
@click.option("-k", "select", metavar="EXPRESSION", default="", help="Only the exercises whose name matches.")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the hidden checks' inputs (default: the course's).")
@click.option("--isolation", type=click.Choice(["strong", "process"]), help="The least isolation to grade with.")
@click.pass_obj
def class_(course: Course, /, folder: Path, out: Path, **settings: Any) -> None:
    """Grade everybody in FOLDER: a folder, zip or notebook a student, nbgrader's submitted/, or an export of a platform."""
    from .classroom import grade_class
    from .grade import GraderFailed
    from .progress import Progress
    from .submission import SubmissionError
    from .workers import ClassError

    try:
        with Progress() as progress:
            sentences = grade_class(folder, out, course, progress.tell, **settings)
    except (ClassError, SubmissionError) as error:
        _stop(UNREADABLE, str(error))
    except GraderFailed as error:
        _stop(BROKEN, f"the grader broke, not a submission: {error}")
    except KeyboardInterrupt:
        _stop(INTERRUPTED, "stopped. Nothing is lost: run the same command again, and it goes on from here")
    for sentence in [*sentences, f"graded {progress.total}: see {out / 'class.html'}"]:
        click.echo(sentence)
    if progress.broken:
        _stop(BROKEN, f"the grader broke in the submissions of {progress.broken}; class.html names them")


def _rendered(report: object, format_name: str, output: Path | None) -> str:
    from .formats import render
    from .formats.text import text
    from .report import Report

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
        _stop(UNREADABLE, f"{output} can't be written: {error.strerror}")


def _stop(status: int, sentence: str) -> NoReturn:
    click.echo(f"grader: {sentence}", err=True)
    sys.exit(status)
