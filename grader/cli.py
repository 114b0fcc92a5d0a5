"""The command `grader`: its verbs are the files of verbs/, each imported when it is called."""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from pkgutil import iter_modules

import click

from . import __version__, verbs
from .course import CourseError, find_course
from .status import UNREADABLE, stop


class Verbs(click.Group):
    """A group of commands that are found by the names of their files, so that a folder without one lacks that verb."""

    def list_commands(self, context: click.Context) -> list[str]:
        """The names of all verbs."""
        return sorted(module.name.rstrip("_") for module in iter_modules(verbs.__path__))

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of this name, or None."""
        if name not in self.list_commands(context):
            return None
        module = f"{name}_" if iskeyword(name) else name
        command: click.Command = getattr(import_module(f"{verbs.__name__}.{module}"), module)
        return command


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
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
        stop(UNREADABLE, str(error))
