"""What a workspace is given in the place of code: what is due to its checks, and what known mistakes answer to them."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..checks import Checks
from ..confined.chance import seeded
from ..course import Course
from ..diagnosis.diagnose import Catalogue, load_catalogue
from ..diagnosis.mistakes import Variant
from ..diagnosis.recording import Call
from ..diagnosis.stored import store
from ..grade import run_checks
from ..pictures import drawers
from ..report import Mistake
from ..student import InProcess, StudentModule
from ..submission import Submission, read_submission
from . import ReleaseError, lookup

ROUNDS = 20  # submissions with a mistake in every exercise: enough that little of what symptoms ask is new


def recorded(course: Course) -> tuple[str, str]:
    """The table of dues and the table of mistakes, as JSON, from runs of the visible checks on the solutions and the mistakes.

    Both are empty for a course without oracle or catalogue. Raises ReleaseError when a check does not pass on the solutions.
    """
    course = replace(course, hidden=course.visible / "nothing")
    catalogue = load_catalogue(course.solutions / "mistakes")
    oracle = _oracle(course)
    answers: dict[str, Any] = {}
    with _kept(oracle, answers):
        calls = _calls(course, catalogue)
        if catalogue is not None:
            _ask(course, catalogue.recipes)
    with seeded(0):  # some mistakes draw matrices that no check sets
        mistakes = store(catalogue, calls) if catalogue is not None else ""
    return _table(oracle, answers), mistakes


def _oracle(course: Course) -> ModuleType:
    """The course's oracle as its checks import it; an empty one where there is none."""
    path = oracle_file(course)
    if not path.is_file():
        return ModuleType("oracle")
    sys.path.insert(0, str(path.parent.parent))
    try:
        return importlib.import_module(f"{path.parent.name}.{path.stem}")
    finally:
        sys.path.remove(str(path.parent.parent))


def oracle_file(course: Course) -> Path:
    """Where a course's oracle stands, if it has one: a module whose functions give what is due."""
    return course.visible.parent / "oracle.py"


def _calls(course: Course, catalogue: Catalogue | None) -> dict[str, list[Call]]:
    """The calls that the visible checks make of the solutions, by exercise."""
    checks = Checks(course, course.seed, catalogue)

    @contextmanager
    def origin(submission: Submission) -> Iterator[InProcess]:
        inside = InProcess(submission)
        try:
            yield inside
        finally:
            inside.close()

    def draw(_: Submission) -> None:
        for exercise, pictures in drawers(course).items():  # they ask the oracle too
            list(pictures(checks.origin.module(exercise.partition(".")[0], exercise)))

    run_checks(checks, [read_submission(course.solutions, course.modules)], origin, draw)
    for id, verdict in checks.verdicts.items():
        if verdict.status == "skipped":
            raise ReleaseError(f"what {id} expects can't be stored, for it can't run here: {verdict.message}")
        if verdict.status != "passed":
            raise ReleaseError(f"{id} does not pass on the solutions: {verdict.message}")
    return dict(checks.calls)


class _Nameless(Catalogue):
    """Recognises nothing, so that the course's symptoms are asked."""

    def diagnose(self, exercise: str, calls: list[Call]) -> tuple[Mistake, ...]:
        return ()

    def follows(self, exercise: str, calls: list[Call], own: Mapping[str, Callable[..., Any]]) -> bool:
        return False


def _ask(course: Course, recipes: Mapping[str, Callable[..., Any]]) -> None:
    """Let the course's symptoms look at wrong answers, for the sake of what they then ask the oracle."""
    catalogue = _Nameless(lambda: recipes)
    checks = Checks(course, course.seed, catalogue)
    files = {str(path): path.name for path in (course.solutions / "mistakes").glob("*.py")}
    mixed = {name: sorted(catalogue.singles(name), key=_shuffled) for name in recipes}

    @contextmanager
    def origin(submission: Submission) -> Iterator[Any]:
        number = int(submission.name)
        wrong = {name: variants[number % len(variants)].call for name, variants in mixed.items() if variants}
        yield SimpleNamespace(module=functools.partial(_module, wrong), files=files)

    submissions = (Submission(str(number), {}) for number in range(ROUNDS))

    def look(_: Submission) -> None:
        checks.report("none")

    run_checks(checks, submissions, origin, look)


def _module(functions: Mapping[str, Callable[..., Any]], module: str, *_: str) -> StudentModule:
    made = StudentModule(module)
    vars(made).update({name.rpartition(".")[2]: call for name, call in functions.items() if name.startswith(f"{module}.")})
    return made


def _shuffled(variant: Variant) -> bytes:
    return hashlib.sha256(variant.name.encode()).digest()


@contextmanager
def _kept(oracle: ModuleType, answers: dict[str, Any]) -> Iterator[None]:
    """While it lasts, `answers` keeps what the oracle's functions give to others, by the key of the call."""
    own = _functions(oracle)
    depth = 0

    def listening(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            key = "" if depth else lookup.key(name, args, kwargs)  # what it asks itself is nobody's question
            depth += 1
            try:
                answer = function(*args, **kwargs)
            finally:
                depth -= 1
            if key:
                answers[key] = lookup.packed(answer)
            return answer

        return asked

    vars(oracle).update({name: listening(name, function) for name, function in own.items()})
    try:
        yield
    finally:
        vars(oracle).update(own)


def _functions(oracle: ModuleType) -> dict[str, Callable[..., Any]]:
    own = {name: thing for name, thing in vars(oracle).items() if getattr(thing, "__module__", "") == oracle.__name__}
    return {name: thing for name, thing in own.items() if callable(thing) and not name.startswith("_")}


def _table(oracle: ModuleType, answers: Mapping[str, Any]) -> str:
    """The answers, each different one once."""
    places: dict[str, int] = {}
    dues = {key: places.setdefault(json.dumps(value), len(places)) for key, value in sorted(answers.items())}
    data = {
        "numpy": np.__version__,
        "functions": sorted(_functions(oracle)),
        "dues": dues,
        "values": [json.loads(text) for text in places],
    }
    return json.dumps(data, separators=(",", ":"))
