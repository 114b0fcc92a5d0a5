"""A template repository for students: the workspace, and a workflow that grades each push. No hidden check is in it."""

from __future__ import annotations

from pathlib import Path

from ..course import Course
from . import Files, students
from .gradescope import ENGINE, requirements

TEMPLATES = Path(__file__).parent / "templates" / "github"


def files(course: Course) -> Files:
    """The workspace of `--for students`, with what GitHub needs. Raises ReleaseError, and BuildError for a faulty solution."""
    workspace = students.files(course)
    verb = ENGINE / "verbs" / "actions.py"
    return {
        **workspace,
        "README.md": workspace["README.md"] + (TEMPLATES / "README.md").read_bytes(),
        ".gitignore": (TEMPLATES / "gitignore").read_bytes(),
        ".github/workflows/grade.yml": (TEMPLATES / "grade.yml").read_bytes(),
        ".github/requirements.txt": requirements(course),
        verb.relative_to(ENGINE.parent).as_posix(): verb.read_bytes(),
    }
