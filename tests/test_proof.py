"""The proof of the checks, by the road that marks go: known mistakes are caught and named, right answers are not."""

from __future__ import annotations

import inspect
import random
import zlib

import pytest
from grading import ROOT
from proof import Proven, prove
from variants import VARIANTS

from grader.course import Course, find_course
from grader.diagnosis.diagnose import Catalogue, load_catalogue
from grader.diagnosis.mistakes import Variant

CATALOGUE = load_catalogue(ROOT / "solutions" / "mistakes")
assert CATALOGUE is not None
EXERCISES = [name for name in CATALOGUE.recipes if find_course(ROOT).exercise(name) is not None]
FUNCTIONS = [name for name in EXERCISES if not inspect.isclass(CATALOGUE.recipes[name])]
SAMPLE = 8  # pairs of mistakes an exercise


def at_home(catalogue: Catalogue, exercise: str) -> list[Variant]:
    """The mistakes of an exercise itself, without those of its parts that are exercises of their own."""
    elsewhere = {
        variant.name
        for other in EXERCISES[: EXERCISES.index(exercise)]
        if catalogue.recipes[other] is not catalogue.recipes[exercise]
        for variant in catalogue.singles(other)
    }
    return [variant for variant in catalogue.singles(exercise) if variant.name not in elsewhere]


def proven(course: Course, exercise: str, variants: list[Variant]) -> list[Proven]:
    assert CATALOGUE is not None
    return prove(course, CATALOGUE.recipes, exercise, [(variant.name, variant.call) for variant in variants])


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_mistake_is_caught_and_named_as_itself(course: Course, exercise: str) -> None:
    assert CATALOGUE is not None
    found = proven(course, exercise, at_home(CATALOGUE, exercise))
    assert [one.name for one in found if not one.caught] == []
    assert [one.name for one in found if one.broken] == []
    assert [(one.name, one.named) for one in found if one.named != one.name] == []


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_pairs_of_mistakes_are_caught_and_named(course: Course, exercise: str) -> None:
    """Where a pair looks like a single mistake or another pair on all calls, the name must have a part in common with it."""
    assert CATALOGUE is not None
    pairs = CATALOGUE.pairs(exercise)
    sample = random.Random(zlib.crc32(exercise.encode())).sample(pairs, min(SAMPLE, len(pairs)))
    found = proven(course, exercise, sample)
    assert [one.name for one in found if one.broken] == []
    told = [one for one in found if any(check.status == "failed" for check in one.lost)]  # the others crash, and say where
    unnamed = [one for one in told if one.named is None or not set(one.named.split("+")) & set(one.name.split("+"))]
    assert len(unnamed) <= 0.05 * len(told) + 1, [(one.name, one.named) for one in unnamed]


@pytest.mark.parametrize("exercise", [name for name in EXERCISES if name not in FUNCTIONS])
def test_a_wrong_part_of_a_layer_is_not_told_as_another(course: Course, exercise: str) -> None:
    """In self-attention some mistakes are the same (scores transposed, queries and keys swapped): then both are told."""
    assert CATALOGUE is not None
    inner = [variant for variant in CATALOGUE.singles(exercise) if variant not in at_home(CATALOGUE, exercise)]
    sample = random.Random(zlib.crc32(exercise.encode())).sample(inner, 30)
    texts = {variant.name: variant.mistakes[0].text for variant in sample}
    found = proven(course, exercise, sample)
    told = {one.name: [check.mistake.text for check in one.lost if check.mistake] for one in found}
    assert any(told.values())
    assert [name for name, words in told.items() if words and texts[name] not in words[0]] == []


@pytest.mark.parametrize("exercise", VARIANTS)
def test_right_but_unusual_answers_score_everything(course: Course, exercise: str) -> None:
    assert CATALOGUE is not None
    found = prove(course, CATALOGUE.recipes, exercise, [(answer.__name__, answer) for answer in VARIANTS[exercise]])
    assert [(one.name, check.title, check.message) for one in found for check in one.lost] == []


def test_there_are_enough_of_each() -> None:
    assert CATALOGUE is not None
    assert len({variant.name for exercise in CATALOGUE.recipes for variant in CATALOGUE.singles(exercise)}) >= 150
    assert sum(map(len, VARIANTS.values())) >= 60
