"""`grader actions`."""

from __future__ import annotations

import ast
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import click

from ..course import Course
from .grade import finish, graded


@click.command()
@click.argument("submission", type=click.Path(path_type=Path))
@click.option("--junit", "junit_file", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML here.")
@click.pass_obj
def actions(course: Course, /, submission: Path, junit_file: Path | None) -> None:
    """Grade SUBMISSION in a GitHub workflow.

    It makes a summary, errors beside the lines, and results for Classroom's reporter.
    """
    report = graded(course, submission)
    from ..formats.github import commands, github, runners
    from ..formats.junit import junit
    from ..formats.markdown import markdown
    from ..formats.text import text
    from ..formats.words import for_students

    quiet = secrets.token_hex(16)  # until it comes, what is printed commands nothing
    shown = f"::stop-commands::{quiet}\n{text(for_students(report))}::{quiet}::\n"
    click.echo(shown + commands(report, dict(_definitions(course, submission))), nl=False)
    results = runners(report)
    _append("GITHUB_STEP_SUMMARY", markdown(report))
    _append("GITHUB_ENV", "".join(f"{name.upper()}_RESULTS={result}\n" for name, result in results.items()))
    _append("GITHUB_OUTPUT", f"runners={','.join(results)}\nresult={github(report)}")
    if junit_file is not None:
        junit_file.write_text(junit(report), encoding="utf-8")
    finish(report)


def _definitions(course: Course, submission: Path) -> Iterator[tuple[str, tuple[str, int]]]:
    """Where each exercise is defined: its file, from here, and the line."""
    from ..submission import read_submission

    files = read_submission(submission, course.modules)
    for module, path in files.paths.items():
        try:
            tree = ast.parse(files.sources.get(module, b"") if path.suffix == ".py" else b"")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        lines = {node.name: node.lineno for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for exercise in course.exercises:
            if exercise.module == module:
                yield exercise.name, (path.as_posix(), lines.get(exercise.function, 1))


def _append(variable: str, text: str) -> None:
    """Add to a file that GitHub names; elsewhere there is none."""
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
