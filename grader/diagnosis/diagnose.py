"""From the calls of an exercise's checks to the mistake behind them: the one whose answers equal the student's on every call."""

from __future__ import annotations

import functools
import gc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..report import Mistake, together
from .mistakes import Variant, grafted, pairs, singles, whole
from .recording import ATTRIBUTES, Call, replay, replayed
from .seen import Part, Seen, numbers_in, textures

MOST_KEPT = 300_000  # answers, so that a long class stays small
MOST_NUMBERS = 8192  # in a call: a check's own have few, a cache that a student's code gave may have millions
MOST_GROWTH = 4  # times the numbers of the question that the answer of a student's function may have, to be a part of a recipe
WORTH_KEEPING = 3  # replays of a call in which right parts have not answered yet, before their answers are kept
MOST_PAIRS = 200  # are tried in one diagnosis: a count, and no clock, so that the same code is always told the same


class Catalogue:
    """The recipes and mistakes of a course. Their answers are kept: the same call is never replayed twice on the same variant."""

    def __init__(self, load: Callable[[], Mapping[str, Callable[..., Any]]]) -> None:
        self._load = load
        self._singles: dict[str, list[Variant]] = {}
        self._pairs: dict[str, list[Variant]] = {}
        self._seen: dict[tuple[str, str, bytes, bool], Seen] = {}
        self._tried: set[tuple[str, str]] = set()
        self.named: set[str] = set()  # mistakes of the same student's other exercises: preferred where several explain all

    @functools.cached_property
    def recipes(self) -> Mapping[str, Callable[..., Any]]:
        """The right versions by exercise, loaded when the first one is asked for."""
        loaded = self._load()
        gc.freeze()  # torch has a million objects: looking through them for garbage takes longer than a diagnosis
        return loaded

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

    def seen(self, exercise: str, name: str, target: Callable[..., Any], call: Call, back: bool = True) -> Seen:
        """What `target` gives on `call`; without `back` the gradients may be missing, which is quicker."""
        if _remembers(target):
            return replay(call, target, back=back)  # it depends on earlier calls too
        back = back and call.cost[0]
        key = (exercise, name, call.digest, back)
        if len(self._seen) > MOST_KEPT:
            self._seen.clear()
            self._tried.clear()
        if key not in self._seen:
            self._tried.add(key[:2])
            self._seen[key] = self._replayed(exercise, name, target, call, back)
        return self._seen[key]

    def _replayed(self, exercise: str, name: str, target: Any, call: Call, back: bool) -> Seen:
        due: Any = whole(self.recipes[exercise])
        if name and inspect.isclass(target) and not call.method and target.__init__ is due.__init__:
            return self.seen(exercise, "", due, call, back)
        kept = call.kept
        if kept and name and kept.opened:
            kept.missed += 1
            if kept.missed < WORTH_KEEPING:
                kept = None
            else:
                replay(call, due, back=False, shared=True, kept=kept)
        return replay(call, target if name else due, back=back, shared=True, kept=kept)

    def diagnose(self, exercise: str, calls: list[Call]) -> tuple[Mistake, ...]:
        """The mistakes in the student's code, when one variant explains every call; nothing when none does.

        Of calls whose right answer is random, such as dropout in training, only one that equals a variant's to the last
        digit tells anything: they decide where nothing else is wrong, or where several variants explain the rest.
        """
        steady, wrong, loose = self.judged(exercise, calls)
        wrong = sorted(wrong or loose, key=lambda call: call.cost)
        if not wrong:
            return ()
        calls = [*wrong, *sorted((call for call in steady if call not in wrong), key=lambda call: call.cost)]
        singles = self.singles(exercise)
        known = [variant for variant in singles if variant.name in self.named]  # then no other is looked for
        for variants in (known, singles, self.likely_pairs(exercise, wrong)):
            if found := [variant for variant in variants if self._explains_all(exercise, variant, calls, wrong)]:
                surer = [v for v in found if all(self.explains(exercise, v, call, True) for call in loose)]
                return self.chosen(surer or found, crashed=all(call.seen.error for call in wrong))
        return ()

    def judged(self, exercise: str, calls: list[Call]) -> tuple[list[Call], list[Call], list[Call]]:
        """The calls with one right answer, those of them that the student's code got wrong, and calls that differ by chance."""
        recipe = self.recipes.get(exercise)
        if recipe is None:
            return [], [], []
        steady, wrong, loose = list[Call](), list[Call](), list[Call]()
        for call in calls:
            right = self.gives(exercise, "", recipe, call, wrong=False)
            (steady if right or self.steady(exercise, recipe, call) else loose).append(call)
            if not right and steady and steady[-1] is call:
                wrong.append(call)
        return steady, wrong, loose

    def likely_pairs(self, exercise: str, wrong: list[Call]) -> Iterator[Variant]:
        """The pairs worth a try, the likeliest first, judged by their parts on the wrong call with the least to it."""
        recipe, call = self.recipes[exercise], wrong[0]
        if inspect.isclass(recipe) or not self.pairs(exercise):
            return  # a layer has thousands, and is better told by the exercises that it is made of
        due = self.seen(exercise, "", recipe, call, False)
        right, got = _traits_of(due, replayed(call, recipe)), _traits_of(call.seen, call.answer)
        seen = [(v.call, self.seen(exercise, v.name, v.call, call, False)) for v in self.singles(exercise)]
        traits = [right if it.matches(due, False) else _traits_of(it, replayed(call, target)) for target, it in seen]
        pairs = self.pairs(exercise)
        places = {variant.name: place for place, variant in enumerate(self.singles(exercise))}
        halves = [[places[mistake.name] for mistake in pair.mistakes] for pair in pairs]
        first, second = np.array(halves, int).reshape(-1, 2).T
        order = likeliest(_unlike([*traits, got], right), _unlike([*traits, right], got), first, second)
        yield from (pairs[place] for place in order[:MOST_PAIRS])

    def _explains_all(self, exercise: str, variant: Variant, calls: list[Call], wrong: list[Call]) -> bool:
        """Whether the variant explains all calls: those first whose answers are kept, for a replay costs a thousand looks.

        A call that it does not explain is moved to the front: others will fail there as well.
        """
        if (exercise, variant.name) in self._tried and any(
            self._contradicts(exercise, variant, call, call in wrong) for call in calls
        ):
            return False
        for place, call in enumerate(calls):
            if not self.explains(exercise, variant, call, call in wrong):
                calls.insert(0, calls.pop(place))
                return False
        return True

    def _contradicts(self, exercise: str, variant: Variant, call: Call, wrong: bool) -> bool:
        """Whether it is known without a replay that the variant gives something else than the student's code gave."""
        seen = self._seen.get((exercise, variant.name, call.digest, False))
        return seen is not None and not _agrees(seen, call, wrong, back=False)

    def explains(self, exercise: str, variant: Variant, call: Call, wrong: bool) -> bool:
        """Whether the variant gives what the student's code gave: a wrong answer to the last digit, a right one as well."""
        return self.gives(exercise, variant.name, variant.call, call, wrong)

    def gives(self, exercise: str, name: str, target: Callable[..., Any], call: Call, wrong: bool) -> bool:
        """Whether `target` gives what the student's code gave, the gradients last."""
        for back in (False, True)[: 1 if _remembers(target) else 2]:  # gradients reach what is kept, and not its copy
            if not _agrees(self.seen(exercise, name, target, call, back), call, wrong, back):
                return False
        return True

    def chosen(self, found: list[Variant], crashed: bool) -> tuple[Mistake, ...]:
        """Of variants that no call tells apart: what other exercises have shown; else two at most, and none for a mere crash."""
        distinct = list({together(variant.mistakes).text: variant.mistakes for variant in found}.values())
        known = [mistakes for mistakes in distinct if all(mistake.name in self.named for mistake in mistakes)]
        if known or len(distinct) == 1:
            return (known or distinct)[0]
        if crashed or len(distinct) > 2:
            return ()
        if set(distinct[0]) & set(distinct[1]):  # the same in other words
            return distinct[0]
        first, second = (together(mistakes) for mistakes in distinct)
        return (replace(first, text=f"{first.text} Or, which looks the same here: {second.text}"),)

    def follows(self, exercise: str, calls: list[Call], own: Mapping[str, Callable[..., Any]]) -> bool:
        """Whether the exercise, put together from the student's `own` other functions, fails just as the student's does."""
        recipe = self.recipes.get(exercise)
        if recipe is None:
            return False
        built = grafted(recipe, {self.recipes[name]: _modest(function) for name, function in own.items() if name in self.recipes})
        steady, *_ = self.judged(exercise, calls)
        return built is not recipe and all(replay(call, built).matches(call.seen) for call in steady)

    def steady(self, exercise: str, target: Callable[..., Any], call: Call) -> bool:
        """Whether the right version `target` gives the same answer with other random numbers, so that only it is right."""
        if call.method == ATTRIBUTES:
            return False
        if call.kept and call.kept.steady:
            return True  # its parts have drawn nothing from torch
        key = (exercise, "again", call.digest, False)
        if key not in self._seen:
            self._seen[key] = replay(call, whole(target), back=False, shared=True, luck=1)
        return self._seen[key].matches(self.seen(exercise, "", target, call, False), back=False)


def _modest(function: Callable[..., Any]) -> Callable[..., Any]:
    """A student's function but for answers so large that nobody should compute with them: these are errors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        if numbers_in(answer) > MOST_GROWTH * (1 + numbers_in((args, kwargs))):
            raise ValueError("a large answer")
        return answer

    return call


def _agrees(seen: Seen, call: Call, wrong: bool, back: bool) -> bool:
    return seen.matches(call.seen, back) if wrong else call.seen.fulfils(seen, back)


def _remembers(target: Callable[..., Any]) -> bool:
    return bool(getattr(target, "remembers", False))


def _traits_of(seen: Seen, answer: Any) -> tuple[Any, ...]:
    return (seen.error, seen.numbers), seen.changed, *seen.parts, *textures(answer)


def _unlike(all_traits: list[tuple[Any, ...]], others: tuple[Any, ...]) -> Any:
    """For each row of traits, in which of them it differs from `others`."""
    width = max(map(len, [*all_traits, others]))
    rows = [[*map(_differ, traits, others)] + [True] * abs(len(traits) - len(others)) for traits in all_traits]
    return np.array([row + [False] * (width - len(row)) for row in rows])


def _differ(a: Any, b: Any) -> bool:
    return not a.matches(b) if isinstance(a, Part) and isinstance(b, Part) else bool(a != b)


def likeliest(shown: Any, unlike: Any, first: Any, second: Any) -> Any:
    """The places of pairs (`first`, `second`: rows of the tables), those that explain best first.

    The tables say in which traits a mistake differs from the right answer (`shown`, whose last row says in which the
    student's answer does) and from the student's (`unlike`). What neither mistake changes has to be right, and what only one of
    them changes has to be as that one makes it. Of what both change nothing can be said.
    """
    a, b, astray = shown[first], shown[second], shown[-1]
    odd = (astray & ~(a | b)) | (a & ~b & unlike[first]) | (b & ~a & unlike[second])
    return np.lexsort(((a & b).sum(1), odd.sum(1)))


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
