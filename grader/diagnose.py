"""From the calls of an exercise's checks to the mistake behind them: the one whose answers equal the student's on every call."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .mistakes import Variant, pairs, singles
from .recording import Call, Seen, replay
from .report import Mistake


class Catalogue:
    """The recipes and mistakes of a course. Their answers are kept: the same call is never replayed twice on the same variant."""

    def __init__(self, recipes: Mapping[str, Callable[..., Any]]) -> None:
        self.recipes = recipes
        self._singles: dict[str, list[Variant]] = {}
        self._pairs: dict[str, list[Variant]] = {}
        self._seen: dict[tuple[str, str, bytes], Seen] = {}
        self.named: set[str] = set()  # mistakes of the same student's other exercises: preferred where several explain all

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
        """The mistakes in the student's code, when one variant explains every call; nothing when none does.

        Calls whose right answer is random, such as dropout in training, tell nothing and are left out.
        """
        recipe = self.recipes.get(exercise)
        if recipe is None:
            return ()
        steady = [call for call in calls if self.steady(exercise, "", recipe, call)]
        wrong = [call for call in steady if not self.seen(exercise, "", recipe, call).matches(call.seen, strict=False)]
        if not wrong:
            return ()
        calls = [*wrong, *(call for call in steady if call not in wrong)]
        pairs = [] if inspect.isclass(recipe) else self.pairs(exercise)
        for random, variants in ((False, self.singles(exercise)), (False, pairs), (True, self.singles(exercise))):
            found = [v for v in variants if all(self.explains(exercise, v, call, call in wrong, random) for call in calls)]
            if found:
                return min(found, key=lambda variant: [mistake.name not in self.named for mistake in variant.mistakes]).mistakes
        return ()

    def explains(self, exercise: str, variant: Variant, call: Call, wrong: bool, random: bool) -> bool:
        """Whether the variant gives what the student's code gave; a random one explains any wrong answer of its form."""
        seen = self.seen(exercise, variant.name, variant.call, call)
        if seen.matches(call.seen, strict=wrong):
            return True
        return random and wrong and seen.form == call.seen.form and not self.steady(exercise, variant.name, variant.call, call)

    def steady(self, exercise: str, name: str, target: Callable[..., Any], call: Call) -> bool:
        """Whether `target` gives the same answer to the same call twice."""
        key = (exercise, f"{name} again", call.digest)
        if key not in self._seen:
            self._seen[key] = replay(call, target)
        return self._seen[key].matches(self.seen(exercise, name, target, call))


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
