"""`grader hint`."""

from __future__ import annotations

from difflib import get_close_matches

import click

from ..course import Course
from ..status import UNREADABLE, stop


@click.command()
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
    """Give a hint for an EXERCISE.

    Such as numpy_attention.softmax, or softmax alone where only one has that name.
    """
    named = [item for item in course.exercises if item.function == exercise]
    found = named[0] if len(named) == 1 else course.exercise(exercise)
    if found is None:
        wanted, functions = exercise.rpartition(".")[2], {item.function for item in course.exercises}
        alike = [wanted] if wanted in functions else get_close_matches(wanted, functions, 2)
        near = [item.name for item in course.exercises if item.function in alike]
        stop(
            UNREADABLE,
            f"there is no exercise {exercise}; "
            + (
                f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(item.name for item in course.exercises)}"
            ),
        )
    click.echo(found.hints[min(step, len(found.hints)) - 1])
    if step < len(found.hints):
        click.echo(f"(the next step: grader hint {found.name} --step {step + 1})")
