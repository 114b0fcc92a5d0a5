"""From the calls of an exercise's checks to the mistake behind them: the one whose answers equal the student's on every call."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from .mistakes import Variant, grafted, pairs, singles
from .recording import Call, replay
from .report import Mistake, together
from .seen import Seen, leaves

MOST_KEPT = 300_000  # answers, so that a long class stays small
FEW = 300  # so many pairs are all tried


class Catalogue:
    """The recipes and mistakes of a course. Their answers are kept: the same call is never replayed twice on the same variant."""

    def __init__(self, load: Callable[[], Mapping[str, Callable[..., Any]]]) -> None:
        self._load = load
        self._singles: dict[str, list[Variant]] = {}
        self._pairs: dict[str, list[Variant]] = {}
        self._seen: dict[tuple[str, str, bytes], Seen] = {}
        self.named: set[str] = set()  # mistakes of the same student's other exercises: preferred where several explain all

    @functools.cached_property
    def recipes(self) -> Mapping[str, Callable[..., Any]]:
        """The right versions by exercise, loaded when the first one is asked for."""
        return self._load()

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
        if len(self._seen) > MOST_KEPT:
            self._seen.clear()
        if key not in self._seen:
            self._seen[key] = replay(call, target)
        return self._seen[key]

    def diagnose(self, exercise: str, calls: list[Call]) -> tuple[Mistake, ...]:
        """The mistakes in the student's code, when one variant explains every call; nothing when none does.

        Calls whose right answer is random, such as dropout in training, tell nothing and are left out.
        """
        steady, wrong = self.judged(exercise, calls)
        if not wrong:
            return ()
        calls = [*wrong, *(call for call in steady if call not in wrong)]
        singles, pairs = self.singles(exercise), self.likely_pairs(exercise, wrong)
        for random, variants in ((False, singles), (False, pairs), (True, singles)):
            found = [v for v in variants if all(self.explains(exercise, v, call, call in wrong, random) for call in calls)]
            if found:
                return self.chosen(found, crashed=all(call.seen.error for call in wrong))
        return ()

    def judged(self, exercise: str, calls: list[Call]) -> tuple[list[Call], list[Call]]:
        """The calls whose right answer is known, and those of them that the student's code got wrong."""
        recipe = self.recipes.get(exercise)
        if recipe is None:
            return [], []
        steady = [call for call in calls if self.steady(exercise, "", recipe, call)]
        return steady, [call for call in steady if not call.seen.fulfils(self.seen(exercise, "", recipe, call))]

    def likely_pairs(self, exercise: str, wrong: list[Call]) -> Iterator[Variant]:
        """The pairs worth a try, judged by their parts on the wrong call with the fewest arguments, where least can be hidden.

        A mistake that does not show there leaves the other one alone: then that one must explain the call.
        """
        recipe, call = self.recipes[exercise], min(wrong, key=lambda call: len(leaves((call.args, dict(call.kwargs)))))
        if inspect.isclass(recipe):
            return  # a layer has thousands, and is better told by the exercises that it is made of
        seen = {variant.name: self.seen(exercise, variant.name, variant.call, call) for variant in self.singles(exercise)}
        shown = {name for name, it in seen.items() if not it.matches(self.seen(exercise, "", recipe, call))}
        explain = {name for name, it in seen.items() if it.matches(call.seen)}
        pairs = self.pairs(exercise)
        likely = [pair for pair in pairs if self._likely({mistake.name for mistake in pair.mistakes}, shown, explain)]
        yield from likely
        if len(pairs) <= FEW:
            yield from (pair for pair in pairs if pair not in likely)

    @staticmethod
    def _likely(names: set[str], shown: set[str], explain: set[str]) -> bool:
        return names <= shown or bool(names & explain and not (names - explain) & shown)

    def chosen(self, found: list[Variant], crashed: bool) -> tuple[Mistake, ...]:
        """Of variants that no call tells apart: what other exercises have shown; else two at most, and none for a mere crash."""
        distinct = list({variant.name: variant.mistakes for variant in found}.values())
        known = [mistakes for mistakes in distinct if all(mistake.name in self.named for mistake in mistakes)]
        if known or len(distinct) == 1:
            return (known or distinct)[0]
        if crashed or len(distinct) > 2:
            return ()
        first, second = (together(mistakes) for mistakes in distinct)
        return (replace(first, text=f"{first.text} Or, which looks the same here: {second.text}"),)

    def explains(self, exercise: str, variant: Variant, call: Call, wrong: bool, random: bool) -> bool:
        """Whether the variant gives what the student's code gave; a random one explains any wrong answer of its form."""
        seen = self.seen(exercise, variant.name, variant.call, call)
        if not wrong or seen.matches(call.seen):
            return call.seen.fulfils(seen)
        return random and seen.form == call.seen.form and not self.steady(exercise, variant.name, variant.call, call)

    def follows(self, exercise: str, calls: list[Call], own: Mapping[str, Callable[..., Any]]) -> bool:
        """Whether the exercise, put together from the student's `own` other functions, fails just as the student's does."""
        recipe = self.recipes.get(exercise)
        if recipe is None:
            return False
        built = grafted(recipe, {self.recipes[name]: function for name, function in own.items() if name in self.recipes})
        steady = [call for call in calls if self.steady(exercise, "", recipe, call)]
        return built is not recipe and all(replay(call, built).matches(call.seen) for call in steady)

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
    return Catalogue(lambda: load("grader_course_mistakes", path).EXERCISES)


def load(name: str, path: Path) -> ModuleType:
    """A module or package of the course, from its file."""
    spec = importlib.util.spec_from_file_location(
        name, path, submodule_search_locations=[str(path.parent)] if path.stem == "__init__" else None
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
