"""`grader build`."""

from __future__ import annotations

import click

from ..course import Course
from ..status import BELOW, stop


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when a file is stale.")
@click.pass_obj
def build(course: Course, check: bool) -> None:
    """Make the exercises from the solutions."""
    from .. import build as building

    try:
        built = building.build(course)
    except building.BuildError as error:
        stop(BELOW, str(error))
    if check:
        sentences = building.stale(course, built)
        if sentences:
            stop(BELOW, "\n".join([*sentences, "run: grader build"]))
        return
    for path in building.write(built):
        click.echo(f"wrote {path.relative_to(course.root)}")
