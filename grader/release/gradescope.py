"""Gradescope's autograder: a zip with its two scripts, the course with its hidden checks and mistakes, and the engine.

It is the instructor's alone, so nothing needs to be kept out of it but what it has no use for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from ..course import HERE, Course
from . import Files, ReleaseError

ENGINE = Path(__file__).parent.parent
TEMPLATES = Path(__file__).parent / "templates"
JUNK = (".pyc", ".pyo", ".new")


def files(course: Course) -> Files:
    """`setup.sh`, `run_autograder`, `requirements.txt` and `course/`. Raises ReleaseError."""
    scripts = {path.name: path.read_bytes() for path in sorted((TEMPLATES / "gradescope").iterdir())}
    return {
        **scripts,
        "requirements.txt": requirements(course),
        **{f"course/{name}": data for name, data in private(course).items()},
    }


def private(course: Course) -> Files:
    """All that grading needs of a course: its settings, checks and mistakes, and the engine."""
    folders = {course.visible.parent, course.hidden.parent, course.symptoms.parent, course.solutions / "mistakes"}
    found = {path.relative_to(course.root).as_posix(): path for path in _below(folders)}
    found |= {path.relative_to(ENGINE.parent).as_posix(): path for path in _below([ENGINE])}
    return {HERE: (course.root / HERE).read_bytes(), **{name: found[name].read_bytes() for name in sorted(found)}}


def requirements(course: Course) -> bytes:
    """What pip installs there: the file that the course names, or else its project's dependencies. Raises ReleaseError."""
    if course.requirements is not None:
        try:
            return course.requirements.read_bytes()
        except OSError as error:
            raise ReleaseError(f"{course.requirements} can't be read: {(error.strerror or str(error)).lower()}") from None
    project = tomllib.loads((course.root / HERE).read_text(encoding="utf-8")).get("project", {})
    if not project.get("dependencies"):
        raise ReleaseError(f"{HERE} names no dependencies: write what pip is to install in a file, and its name as requirements")
    return "".join(f"{line}\n" for line in project["dependencies"]).encode()


def _below(folders: Iterable[Path]) -> list[Path]:
    return [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in JUNK and "__pycache__" not in path.parts
    ]
