"""Options of the command that several verbs have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Given(click.Path):
    """A path that is not empty: a shell's unset variable would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As ever."""
        return super().convert(value, param, ctx) if value else self.fail("a path was due, and it is empty", param, ctx)


select = click.option(
    "-k",
    "select",
    metavar="EXPRESSION",
    default="",
    help="Only the exercises whose name matches, e.g. -k 'split_heads or merge_heads'.",
)
_HOW = (
    select,
    click.option("--seed", type=click.IntRange(min=0), help="The seed of the hidden checks' inputs (default: the course's)."),
    click.option(
        "--isolation",
        type=click.Choice(["strong", "process"]),
        help="The least isolation to grade with (default: the strongest there is).",
    ),
    click.option(
        "--gpu",
        type=click.Choice(["auto", "require", "skip"]),
        default="auto",
        show_default=True,
        help="Checks that need a GPU: run them where there is one, insist on one, or leave them out.",
    ),
)


def grading(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how to grade: arguments of `grade.grade_all`."""
    for option in reversed(_HOW):
        command = option(command)
    return command
