"""What each mistake answers to the visible checks' fixed inputs: a student's own runs name mistakes by it, without their code."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ..course import Course
from ..report import Mistake
from .diagnose import Catalogue, load_catalogue
from .mistakes import Variant, grafted
from .recording import Call
from .seen import Part, Seen

MOST_PAIRS = 700  # of an exercise: more would fill megabytes
MOST_APART, APART = 40, "apart"
FILE = "mistakes.json"  # beside the pyproject.toml of a student's workspace


def store(catalogue: Catalogue, calls: Mapping[str, list[Call]]) -> str:
    """What mistakes answer to these calls, as JSON: numbers that stand for answers, never the answers.

    Every single mistake is there, and pairs where there are few.
    """
    kinds: dict[str, int] = {}  # each different answer once, with its place

    def place(seen: Seen) -> int:
        return kinds.setdefault(json.dumps(astuple(seen)), len(kinds))

    table: dict[str, Any] = {}
    for exercise in (name for name in calls if name in catalogue.recipes):
        recipe, singles, pairs = catalogue.recipes[exercise], catalogue.singles(exercise), catalogue.pairs(exercise)
        variants = [*singles, *(pairs if len(pairs) <= MOST_PAIRS else ())]
        steady = {call.digest.hex(): call for call in calls[exercise] if catalogue.steady(exercise, recipe, call)}
        table[exercise] = {
            "mistakes": [astuple(variant.mistakes[0]) for variant in singles],
            "pairs": [[mistake.name for mistake in variant.mistakes] for variant in variants[len(singles) :]],
            "made_of": [name for name, part in catalogue.recipes.items() if grafted(recipe, {part: len}) is not recipe],
            "calls": {
                digest: [place(catalogue.seen(exercise, "", recipe, call))]
                + [place(catalogue.seen(exercise, variant.name, variant.call, call)) for variant in variants]
                for digest, call in steady.items()
            },
        }
    return json.dumps({"seen": [json.loads(kind) for kind in kinds], "exercises": table}, separators=(",", ":"))


class Stored(Catalogue):
    """A catalogue read from such a file: it knows the single mistakes and the calls that were stored, and no others."""

    def __init__(self, path: Path) -> None:
        super().__init__(dict)
        self.path = path
        self.told: dict[str, tuple[Mistake, ...]] = {}  # the last diagnosis of each exercise

    def __getattr__(self, name: str) -> Any:
        if name not in ("answers", "exercises"):
            raise AttributeError(name)
        data = json.loads(self.path.read_text(encoding="utf-8"))  # when the first exercise fails, not before
        self.answers, self.exercises = [_seen(kind) for kind in data["seen"]], data["exercises"]
        return getattr(self, name)

    @property
    def recipes(self) -> Mapping[str, Any]:
        """The exercises that something is stored of. There is no code: what stands here is never called."""
        return dict.fromkeys(self.exercises, dict)

    def singles(self, exercise: str) -> list[Variant]:
        """The mistakes of an exercise; they can't be called."""
        return [Variant(dict, (mistake,), ()) for mistake in self._mistakes(exercise).values()]

    def seen(self, exercise: str, name: str, target: Any, call: Call, back: bool = True) -> Seen:
        """The stored answer. Raises KeyError for a call that is not stored, which `judged` has sorted out."""
        answers: list[Seen] = self.answers
        place: int = self.exercises[exercise]["calls"][call.digest.hex()][self._places(exercise)[name]]
        return answers[place]

    @functools.cache  # noqa: B019  there is one in a process
    def _mistakes(self, exercise: str) -> dict[str, Mistake]:
        return {mistake[0]: Mistake(*mistake) for mistake in self.exercises[exercise]["mistakes"]}

    @functools.cache  # noqa: B019
    def _places(self, exercise: str) -> dict[str, int]:
        names = ["", *self._mistakes(exercise), *map("+".join, self.exercises[exercise]["pairs"])]
        return {name: place for place, name in enumerate(names)}

    def judged(self, exercise: str, calls: list[Call]) -> tuple[list[Call], list[Call], list[Call]]:
        """Of the calls that are stored."""
        stored = self.exercises.get(exercise, {"calls": ()})["calls"]
        return super().judged(exercise, [call for call in calls if call.digest.hex() in stored])

    def steady(self, exercise: str, target: Any, call: Call) -> bool:
        """Only calls with one right answer are stored."""
        return True

    def likely_pairs(self, exercise: str, wrong: list[Call]) -> Iterator[Variant]:
        """The stored pairs; then two mistakes that show in different calls, each as if the other were not there."""
        known = self._mistakes(exercise)
        yield from (Variant(dict, tuple(known[name] for name in names), ()) for names in self.exercises[exercise]["pairs"])
        some = [
            variant for variant in self.singles(exercise) if any(self.explains(exercise, variant, call, True) for call in wrong)
        ]
        apart = itertools.combinations(some, 2) if len(some) <= MOST_APART else ()
        yield from (Variant(dict, (*first.mistakes, *second.mistakes), (APART,)) for first, second in apart)

    def explains(self, exercise: str, variant: Variant, call: Call, wrong: bool) -> bool:
        """Whether the variant gives what the student's code gave; of two that are apart one does, and the other does not show."""
        if variant.slots != (APART,):
            return super().explains(exercise, variant, call, wrong)
        right = self.seen(exercise, "", dict, call)
        names = [mistake.name for mistake in variant.mistakes]
        told = [self.gives(exercise, name, variant.call, call, wrong) for name in names]
        return any(told) and all(
            it or self.seen(exercise, name, dict, call).matches(right) for name, it in zip(names, told, strict=True)
        )

    def diagnose(self, exercise: str, calls: list[Call]) -> tuple[Mistake, ...]:
        """As ever, and kept."""
        self.told[exercise] = super().diagnose(exercise, calls)
        return self.told[exercise]

    def follows(self, exercise: str, calls: list[Call], own: Mapping[str, Any]) -> bool:
        """Whether one of its wrong parts has the very mistake that it has: nothing can be put together without code."""
        parts = self.exercises.get(exercise, {"made_of": ()})["made_of"]
        return bool(self.told.get(exercise)) and any(self.told.get(name) == self.told[exercise] for name in own if name in parts)


def catalogue_of(course: Course) -> Catalogue | None:
    """The mistakes themselves where they are, or what a workspace was given of them, or nothing."""
    stored = course.root / FILE
    return load_catalogue(course.solutions / "mistakes") or (Stored(stored) if stored.is_file() else None)


def _seen(data: Any) -> Seen:
    error, numbers, parts, changed, gradients = _tuples(data)
    return Seen(error, numbers, tuple(Part(*part) for part in parts), changed, tuple(Part(*part) for part in gradients))


def _tuples(data: Any) -> Any:
    return tuple(map(_tuples, data)) if isinstance(data, list) else data
