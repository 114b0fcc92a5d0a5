"""`grader release`."""

from __future__ import annotations

from pathlib import Path

import click

from ..course import Course
from ..release import AUDIENCES, ReleaseError
from ..status import UNREADABLE, stop


@click.command()
@click.argument("destination", type=click.Path(path_type=Path))
@click.option("--for", "audience", type=click.Choice(AUDIENCES), required=True, help="Who gets it.")
@click.pass_obj
def release(course: Course, destination: Path, audience: str) -> None:
    """Make what others need, in DESTINATION: a new folder, or a .zip."""
    from .. import release as releasing
    from ..build import BuildError

    try:
        releasing.refuse_taken(destination)  # making the files takes a minute
        click.echo("making the files: this may take a minute ...", err=True)
        files = releasing.release(course, audience)
        releasing.write(files, destination)
    except (ReleaseError, BuildError) as error:
        stop(UNREADABLE, str(error))
    except OSError as error:
        stop(UNREADABLE, f"{destination} can't be written: {error.strerror}")
    click.echo(f"wrote {len(files)} files: {destination}")
