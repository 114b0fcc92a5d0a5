"""`grader show`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..course import Course
from ..status import BELOW, BROKEN, UNREADABLE, stop

SUFFIXES = (".png", ".svg", ".pdf")


@click.command()
@click.argument("exercise")
@click.option(
    "--submission", type=click.Path(path_type=Path), help="Whose code: a folder, file or notebook (default: the course's own)."
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Draw into this .png, .svg or .pdf file.")
@click.pass_obj
def show(course: Course, exercise: str, submission: Path | None, output: Path | None) -> None:
    """Draw what your code gives for an EXERCISE.

    On the lesson's example, beside what is due. `!` marks where they differ.
    """
    from ..submission import SubmissionError, read_submission

    if output is not None and output.suffix not in SUFFIXES:
        stop(UNREADABLE, f"{output} is no picture: write a name that ends in {', '.join(SUFFIXES)}")
    try:
        files = read_submission(submission or course.submission, course.modules)
    except SubmissionError as error:
        stop(UNREADABLE, str(error))
    from ..confined.runner import RunnerFailed
    from ..formats.escape import printable
    from ..pictures import NoPicture, drawers, figure, in_text, pictures

    sys.path.insert(0, str(course.visible.parent.parent))  # pictures import what the checks import
    known = list(drawers(course))
    named = [name for name in known if exercise in (name, name.rpartition(".")[2])]
    if len(named) != 1:
        stop(UNREADABLE, f"there {_are(named)} of {exercise}; name one of {', '.join(named or known)}")
    try:
        drawn = pictures(files, course, named[0])
    except NoPicture as error:
        stop(BELOW, f"{named[0]} has nothing to show: {printable(str(error))}")
    except RunnerFailed as error:
        stop(BROKEN, f"the grader broke, not the submission: {error}")
    if output is not None:
        _save(figure(drawn), output)
        return
    from rich.console import Console

    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    Console(highlight=False).print(in_text(drawn))


def _are(named: list[str]) -> str:
    return "are pictures of more than one exercise by the name" if named else "is no picture"


def _save(made: object, output: Path) -> None:
    from matplotlib.figure import Figure

    assert isinstance(made, Figure)
    try:
        made.savefig(output, dpi=120)
    except OSError as error:
        stop(UNREADABLE, f"{output} can't be written: {error.strerror}")
    click.echo(f"wrote {output}")
