"""A course as its pyproject.toml describes it: the exercises in lesson order, their hints, the checks, the limits and rules."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from .report import Shown

HERE = "pyproject.toml"


class CourseError(Exception):
    """The course's own description is wrong; the message says where."""


@dataclass(frozen=True)
class Limits:
    """What a student's code may use. Seconds of wall time unless the name says cpu; sizes in MiB or KiB as the names say."""

    call_seconds: float = 10.0
    exercise_seconds: float = 20.0
    import_seconds: float = 10.0
    cpu_seconds: int = 120
    memory_mb: int = 2048
    reply_mb: int = 64
    printed_kb: int = 16
    threads: int = 16
    files: int = 64


@dataclass(frozen=True)
class Exercise:
    """A function or class to write. `hints` is a ladder, from a question to a near-answer."""

    module: str
    function: str
    hints: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.module}.{self.function}"


@dataclass(frozen=True)
class Rule:
    """Names that an exercise's code must not reach, or must."""

    forbid: tuple[str, ...] = ()
    require: tuple[str, ...] = ()


@dataclass(frozen=True)
class Course:
    """Where everything of a course is, and what it asks. Paths are absolute."""

    root: Path
    title: str
    submission: Path
    solutions: Path
    stubs: Path
    visible: Path
    hidden: Path
    symptoms: Path
    seed: int
    exercises: tuple[Exercise, ...]
    limits: Limits = field(default_factory=Limits)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    celebration: str = ""  # what a student reads when every check passes
    show_hidden: Shown = "titles"  # what students see of hidden checks on a platform
    requirements: Path | None = None  # for pip on a platform's machine, in place of the project's dependencies

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(exercise.module for exercise in self.exercises))

    @property
    def checks(self) -> tuple[Path, ...]:
        """The folders of checks that are here: a student's workspace has no hidden one."""
        return tuple(path for path in (self.visible, self.hidden) if path.is_dir())

    def exercise(self, name: str) -> Exercise | None:
        return next((exercise for exercise in self.exercises if exercise.name == name), None)


def find_course(start: Path) -> Course:
    """The course of `start` or of a folder above it, else the one that this package was installed from.

    Raises CourseError when there is none, or when its description is wrong.
    """
    for folder in (start, *start.parents, Path(__file__).resolve().parent.parent):
        course = read_course(folder / HERE)
        if course is not None:
            return course
    raise CourseError(f"{start} is not inside a course: no {HERE} with a [tool.grader] table here or above")


def read_course(path: Path) -> Course | None:
    """The course that the pyproject.toml at `path` describes; None when it describes none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    if "[tool.grader" not in text:
        return None
    try:
        table = tomllib.loads(text).get("tool", {}).get("grader")
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path}: {error}") from None
    if table is None:
        return None
    try:
        return _course(path.resolve().parent, table)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CourseError(f"{path}: [tool.grader]: {error!r} is missing or malformed") from None


def _course(root: Path, table: Mapping[str, Any]) -> Course:
    exercises = tuple(
        Exercise(module, function, tuple(hints))
        for module, functions in table["exercises"].items()
        for function, hints in functions.items()
    )
    rules = {name: Rule(**{key: tuple(names) for key, names in rule.items()}) for name, rule in table.get("rules", {}).items()}
    unknown = rules.keys() - {exercise.name for exercise in exercises}
    if unknown:
        raise ValueError(f"rules for unknown exercises: {', '.join(sorted(unknown))}")
    show_hidden = table.get("show_hidden", "titles")
    if show_hidden not in get_args(Shown):
        raise ValueError(f"show_hidden is {show_hidden!r}; there are {', '.join(get_args(Shown))}")
    return Course(
        root=root,
        title=table["title"],
        submission=root / table.get("submission", "."),
        solutions=root / table.get("solutions", "solutions"),
        stubs=root / table.get("stubs", "exercises"),
        visible=root / table.get("visible", "tests/checks/visible"),
        hidden=root / table.get("hidden", "tests/checks/hidden"),
        symptoms=root / table.get("symptoms", "tests/checks/symptoms/__init__.py"),
        seed=int(table.get("seed", 0)),
        exercises=exercises,
        limits=_limits(table.get("limits", {})),
        rules=rules,
        celebration=table.get("celebration", "").strip(),
        show_hidden=show_hidden,
        requirements=root / table["requirements"] if "requirements" in table else None,
    )


def _limits(table: Mapping[str, Any]) -> Limits:
    known = {item.name for item in fields(Limits)}
    unknown = table.keys() - known
    if unknown:
        raise ValueError(f"unknown limit {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return Limits(**table)
