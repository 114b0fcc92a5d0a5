"""From the calls of an exercise's checks to the mistake behind them: the one whose answers equal the student's on every call."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .mistakes import Variant, pairs, singles
from .recording import Call, Seen, replay
from .report import Mistake

SECONDS = 0.15  # for one exercise; a diagnosis that takes longer says nothing


class Catalogue:
    """The recipes and mistakes of a course. Their answers are kept: the same call is never replayed twice on the same variant."""

    def __init__(self, recipes: Mapping[str, Callable[..., Any]]) -> None:
        self.recipes = recipes
        self._singles: dict[str, list[Variant]] = {}
        self._pairs: dict[str, list[Variant]] = {}
        self._seen: dict[tuple[str, str, bytes], Seen] = {}

    def singles(self, exercise: str) -> list[Variant]:
        """The variants of an exercise with one mistake."""
        if exercise not in self._singles:
            self._singles[exercise] = list(singles(self.recipes[exercise], exercise.partition(".")[0]))
        return self._singles[exercise]

    def pairs(self, exercise: str) -> list[Variant]:
        """The variants of an exercise with two."""
        if exercise not in self._pairs:
            self._pairs[exercise] = list(pairs(self.recipes[exercise], exercise.partition(".")[0]))
        return self._pairs[exercise]

    def seen(self, exercise: str, name: str, target: Callable[..., Any], call: Call) -> Seen:
        """What `target` gives on `call`."""
        key = (exercise, name, call.digest)
        if key not in self._seen:
            self._seen[key] = replay(call, target)
        return self._seen[key]

    def diagnose(self, exercise: str, calls: list[Call]) -> tuple[Mistake, ...]:
        """The mistakes in the student's code, when one variant explains every call; nothing when none or no single one does.

        Calls whose right answer is random, such as dropout in training, tell nothing and are left out.
        """
        if exercise not in self.recipes:
            return ()
        recipe = self.recipes[exercise]
        steady = [call for call in calls if self.seen(exercise, "", recipe, call).matches(replay(call, recipe))]
        wrong = [call for call in steady if not self.seen(exercise, "", recipe, call).matches(call.seen)]
        if not wrong:
            return ()
        ordered = [wrong[0], wrong[-1], *steady]
        deadline = time.monotonic() + SECONDS
        for variants in (self.singles, self.pairs):
            found = next(self._explaining(exercise, variants(exercise), ordered, deadline), None)
            if found is not None:
                return found.mistakes
        return ()

    def _explaining(self, exercise: str, variants: Iterable[Variant], calls: list[Call], deadline: float) -> Iterator[Variant]:
        for variant in itertools.takewhile(lambda _: time.monotonic() < deadline, variants):
            if all(self.seen(exercise, variant.name, variant.call, call).matches(call.seen) for call in calls):
                yield variant


def load_catalogue(folder: Path) -> Catalogue | None:
    """The catalogue in a course's folder of mistakes; None where there is none, as in a student's workspace."""
    path = folder / "__init__.py"
    if not path.is_file():
        return None
    module = _package("grader_course_mistakes", path)
    return Catalogue(module.EXERCISES)


def _package(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
