"""`grader class`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..course import Course
from ..options import Given, grading
from ..status import BROKEN, INTERRUPTED, UNREADABLE, stop


@click.command("class")
@click.argument("folder", type=Given(path_type=Path))
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
@grading
@click.pass_obj
def class_(course: Course, /, folder: Path, out: Path, **settings: Any) -> None:
    """Grade everybody in FOLDER.

    FOLDER holds a folder, file, zip or notebook a student, nbgrader's submitted/, or an unpacked export of Canvas, Moodle or
    Gradescope.
    """
    from ..classes.classroom import grade_class
    from ..classes.progress import Progress
    from ..classes.workers import ClassError
    from ..grade import GraderFailed
    from ..submission import SubmissionError

    try:
        with Progress() as progress:
            sentences = grade_class(folder, out, course, progress.tell, **settings)
    except (ClassError, SubmissionError) as error:
        stop(UNREADABLE, str(error))
    except GraderFailed as error:
        stop(BROKEN, f"the grader broke, not a submission: {error}")
    except KeyboardInterrupt:
        stop(INTERRUPTED, "stopped. Nothing is lost: run the same command again, and it goes on from here")
    for sentence in [*sentences, f"graded {progress.total}: see {out / 'class.html'}"]:
        click.echo(sentence)
    if progress.broken:
        stop(BROKEN, f"the grader broke in the submissions of {progress.broken}; class.html names them")
