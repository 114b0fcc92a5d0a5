"""The catalogue of mistakes: its recipes are right, its mistakes are wrong, told apart, and seen by the checks."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import sys
import tomllib
import types
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import variants

from grader.diagnosis.diagnose import MOST_NUMBERS, load_catalogue
from grader.diagnosis.mistakes import Variant, pairs, singles
from grader.diagnosis.recording import Call, Recorder, replay
from grader.diagnosis.seen import Seen

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = load_catalogue(ROOT / "solutions" / "mistakes")
assert CATALOGUE is not None
MISTAKES = sys.modules[next(iter(CATALOGUE.recipes.values())).__module__.partition(".")[0]]
GRADED = [name for name in CATALOGUE.recipes if not name.startswith("head_analysis")]
ANALYSIS = [name for name in CATALOGUE.recipes if name.startswith("head_analysis") and "extract" not in name]

pytestmark = pytest.mark.filterwarnings("ignore")  # wrong code divides by 0 and worse


# The checks, called as plain functions


@functools.cache
def module_of(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"for_mistakes_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def checks_of(exercise: str) -> list[Callable[[Any], None]]:
    """The checks of an exercise that need no GPU, each a function of the student's module."""
    found = []
    for path in sorted((ROOT / "tests" / "checks").glob("*/test_*.py")):
        for name, function in vars(module_of(path)).items():
            marks = {mark.name: mark for mark in getattr(function, "pytestmark", [])}
            if name.startswith("test_") and marks["check"].args[0] == exercise and "gpu" not in arguments(function):
                found += [functools.partial(run, function, f"{path.stem}.{name}", case) for case in cases(marks)]
    return found


def arguments(function: Callable[..., None]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def cases(marks: dict[str, pytest.Mark]) -> list[dict[str, Any]]:
    if "parametrize" not in marks:
        return [{}]
    names, rows = marks["parametrize"].args
    names = (names,) if isinstance(names, str) else names
    return [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows]


def run(function: Callable[..., None], name: str, case: dict[str, Any], student: Any) -> None:
    rng = {"rng": np.random.default_rng(zlib.crc32(name.encode()))}
    torch.manual_seed(0)
    function(student=student, **case, **{name: rng[name] for name in arguments(function) if name in rng})


def student(exercise: str, answer: Callable[..., Any]) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{exercise.partition(".")[2]: answer})


def passes(exercise: str, answer: Callable[..., Any]) -> bool:
    for check in checks_of(exercise):
        try:
            check(student(exercise, answer))
        except Exception:
            return False
    return True


# What a mistake gives on the calls of the checks


@functools.cache
def calls_of(exercise: str) -> list[Call]:
    """The calls that the checks make of a right answer, but for those whose answer is random."""
    recipe, calls = CATALOGUE.recipes[exercise], list[Call]()
    if exercise in ANALYSIS:
        return [Call(exercise.partition(".")[2], args, {}) for args in PROBES[exercise]]
    for check in checks_of(exercise):
        check(Recorder(student(exercise, recipe), calls))
    calls = [call for call in calls if call.cost[2] <= MOST_NUMBERS]
    return [call for call in calls if replay(call, recipe).matches(replay(call, recipe))]


@functools.cache
def seen_of(exercise: str, name: str, answer: Callable[..., Any]) -> tuple[Seen, ...]:
    if exercise == "head_analysis.attention_parameters":  # a dict's entries, in a form that is compared one by one
        return tuple(replay(call, lambda *args: listed(answer(*args))) for call in calls_of(exercise))
    return tuple(replay(call, answer) for call in calls_of(exercise))


def listed(answer: Any) -> Any:
    return sorted(answer.items()) if isinstance(answer, dict) else answer


def equal(first: tuple[Seen, ...], second: tuple[Seen, ...]) -> bool:
    return all(a.matches(b) for a, b in zip(first, second, strict=True))


@functools.cache
def variants_of(exercise: str) -> list[Variant]:
    return list(singles(CATALOGUE.recipes[exercise], exercise.partition(".")[0]))


@functools.cache
def depths() -> dict[str, int]:
    """How deep in a recipe each mistake lies where it lies least deep."""
    found: dict[str, int] = {}
    for exercise in CATALOGUE.recipes:
        for variant in variants_of(exercise):
            found[variant.name] = min(found.get(variant.name, 99), depth(variant))
    return found


def depth(variant: Variant) -> int:
    return variant.slots[0].count(".")


def at_home(exercise: str) -> list[Variant]:
    """The mistakes that belong to this exercise itself, and not to one that it uses."""
    return [variant for variant in variants_of(exercise) if depth(variant) == depths()[variant.name]]


# Words


def words() -> Iterator[tuple[str, str, str]]:
    for exercise in CATALOGUE.recipes:
        for variant in variants_of(exercise):
            yield variant.mistakes[0].name, variant.mistakes[0].text, variant.mistakes[0].hint


def test_there_are_many():
    assert len(depths()) >= 150


def test_a_name_is_that_of_one_mistake():
    texts: dict[str, set[str]] = {}
    for name, text, _ in words():
        texts.setdefault(name, set()).add(text)
    assert {name for name, found in texts.items() if len(found) > 1} == set()
    assert [name for name in texts if not re.fullmatch(r"[a-z][a-z0-9_]{5,}", name)] == []


def test_texts_are_told_apart_by_their_words():
    texts = {name: text for name, text, _ in words()}
    alike = [pair for pair in itertools.combinations(texts, 2) if texts[pair[0]] == texts[pair[1]]]
    homes = {variant.name: exercise for exercise in CATALOGUE.recipes for variant in at_home(exercise)}
    assert [pair for pair in alike if homes[pair[0]] == homes[pair[1]]] == []


def test_texts_are_sentences_and_hints_lead_on():
    for name, text, hint in words():
        assert text[0].isupper() or text[0].isdigit() or text.startswith("float"), name
        assert text.endswith("."), name
        assert hint.endswith((".", "?")), name
        assert len(text) < 160, name
        assert len(hint) < 180, name


def test_no_message_shows_a_line_of_the_solution():
    lines: set[str] = set()
    for path in (ROOT / "solutions").glob("*.py"):
        for region in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", path.read_text(), re.S):
            lines |= {line.partition("#")[0].strip() for line in region.splitlines()}
    for name, text, hint in words():
        assert not [line for line in lines if len(line) > 8 and (line in text or line in hint)], name


# Numbers


@pytest.mark.parametrize("exercise", GRADED)
def test_a_recipe_is_right(exercise):
    for check in checks_of(exercise):
        check(student(exercise, CATALOGUE.recipes[exercise]))


def test_every_exercise_has_a_recipe():
    course = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["grader"]
    named = {f"{module}.{name}" for module, names in course["exercises"].items() for name in names}
    assert named - set(CATALOGUE.recipes) == set()


@pytest.mark.parametrize("exercise", CATALOGUE.recipes)
def test_mistakes_are_told_apart(exercise):
    right = seen_of(exercise, "", CATALOGUE.recipes[exercise])
    seen = {variant.name: seen_of(exercise, variant.name, variant.call) for variant in at_home(exercise)}
    assert [name for name in seen if equal(seen[name], right)] == []
    assert [pair for pair in itertools.combinations(seen, 2) if equal(seen[pair[0]], seen[pair[1]])] == []


@pytest.mark.parametrize("exercise", GRADED)
def test_every_mistake_loses_points(exercise):
    assert [variant.name for variant in at_home(exercise) if passes(exercise, variant.call)] == []


@pytest.mark.parametrize("exercise", GRADED)
def test_a_sample_of_pairs_loses_points(exercise):
    both = list(pairs(CATALOGUE.recipes[exercise], exercise.partition(".")[0]))
    right = seen_of(exercise, "", CATALOGUE.recipes[exercise])
    rng = np.random.default_rng(1)
    for variant in (both[i] for i in rng.permutation(len(both))[:30]):
        if not equal(seen_of(exercise, variant.name, variant.call), right):
            assert not passes(exercise, variant.call), variant.name


# What head_analysis is called with, until it has checks


def rows(rng: np.random.Generator, *shape: int, sharpness: float = 1.5) -> np.ndarray:
    powers = np.exp(rng.normal(size=shape) * sharpness)
    return powers / powers.sum(-1, keepdims=True)


def mixed(n: int, **parts: float) -> np.ndarray:
    """A matrix of weights with these shares of each pattern, the rest spread evenly."""
    patterns = {
        "sink": np.eye(1, n).repeat(n, 0),
        "previous": np.eye(n, k=-1) + np.eye(1, n * n).reshape(n, n),
        "own": np.eye(n),
        "next": np.eye(n, k=1) + np.eye(1, n * n, n * n - 1).reshape(n, n),
        "last": np.eye(1, n, n - 1).repeat(n, 0),
        "far": np.eye(n, k=-2) + np.eye(n, k=n - 2),
        "opposite": np.eye(n)[::-1],
    }
    return sum((share * patterns[name] for name, share in parts.items()), np.full((n, n), (1 - sum(parts.values())) / n))


def one_key_a_query(n: int) -> np.ndarray:
    """Every query sure of one key, none of them its own, the previous or the first."""
    return np.eye(n)[[(query + 2) % n or 1 for query in range(n)]]


def probes() -> dict[str, list[tuple[Any, ...]]]:
    rng = np.random.default_rng(3)
    W = [rng.normal(size=(20, 20)) for _ in range(4)]
    patterns = [
        {"sink": 0.5}, {"sink": 0.35}, {"sink": 0.45, "own": 0.5}, {"sink": 0.42, "previous": 0.4},
        {"sink": 0.41, "previous": 0.55},
        {"previous": 0.33, "own": 0.1}, {"previous": 0.6}, {"previous": 0.27}, {"previous": 0.8, "own": 0.2},
        {"own": 0.6}, {"own": 0.3}, {"own": 0.05}, {"own": 0.45, "previous": 0.35}, {"own": 0.35, "previous": 0.05},
        {"next": 0.7}, {"last": 0.8}, {"opposite": 0.9}, {"far": 0.9}, {"far": 0.97}, {"far": 0.6, "last": 0.3},
    ]  # fmt: skip
    sure = [mixed(6, **{name: 1.0}) for name in ("sink", "previous", "own", "next", "last", "far", "opposite")]
    first_row = mixed(6, far=0.2)
    first_row[0] = [0.05, 0.75, 0.05, 0.05, 0.05, 0.05]
    column = np.full((3, 3), 0.2) + 0.4 * np.roll(np.eye(3), 1, 1)
    spike = np.concatenate([np.eye(1, 6), mixed(6)[1:]])
    three = np.array([[0.55, 0.3, 0.15], [0.33, 0.4, 0.27], [0.33, 0.27, 0.4]])
    almost = np.array([[0.1, 0.45, 0.45], [0.4, 0.2, 0.4], [0.2, 0.44, 0.36]])
    return {
        "head_analysis.attention_parameters": [
            (768, 12), (1024, 16, None), (24, 6, 2), (60, 6, 3), (60, 6, 1), (14, 4), (24, 6, 4), (14, 4, 3), (24, 6, 6),
        ],
        "head_analysis.attention_matrix_bytes": [(32, 8192), (3, 5, 7), (3, 5, 7, 2), (1, 1, 1, 8)],
        "head_analysis.attention_entropy": [
            (rows(rng, 3, 5, 5),), (rows(rng, 2, 4, 4, sharpness=4.0),), (np.tril(rows(rng, 3, 6, 6)),), (np.ones((2, 1, 1)),),
            (np.stack(sure),), (mixed(4)[None],), (rows(np.random.default_rng(4), 2, 8, 8, sharpness=12.0),),
        ],
        "head_analysis.classify_head": [
            *((mixed(n, **parts),) for n in (4, 6, 9) for parts in patterns),
            *((rows(rng, n, n, sharpness=s),) for n in (2, 3, 5) for s in (0.5, 2.0, 4.0, 8.0)),
            *((weights,) for weights in (*sure, first_row, column, spike, three, almost, np.ones((1, 1)))),
            *((share * one_key_a_query(6) + (1 - share) / 6,) for share in (1.0, 0.93, 0.8)),
        ],
        "head_analysis.prune_heads": [
            *((*W, 4, heads) for heads in ([1], [3], [0, 2], [2, 0], [3, 1], [1, 1], [], [4], [-1], [1, 7])),
            (*W, 5, [4, 1]), (*W, 3, [1]),
        ],
    }  # fmt: skip


PROBES = probes()


def test_recipes_of_head_analysis_are_right():
    recipes = {name.partition(".")[2]: recipe for name, recipe in CATALOGUE.recipes.items() if name in ANALYSIS}
    assert recipes["attention_parameters"](768, 12) == {"qkv": 1769472, "output": 589824}
    assert recipes["attention_parameters"](12288, 96) == {"qkv": 452984832, "output": 150994944}
    assert recipes["attention_parameters"](24, 6, 2) == {"qkv": 24 * 24 + 2 * 24 * 8, "output": 576}
    assert recipes["attention_matrix_bytes"](32, 8192) == 8 * 2**30
    weights = rows(np.random.default_rng(0), 3, 5, 5)
    due = [np.mean([-sum(p * np.log(p) for p in row) for row in head]) for head in weights]
    np.testing.assert_allclose(recipes["attention_entropy"](weights), due, rtol=1e-12)
    assert recipes["attention_entropy"](np.eye(4)[None]).tolist() == [0.0]
    names = {"sink": "attention_sink", "previous": "prev_token", "own": "self_attend", "far": "focused"}
    assert {part: recipes["classify_head"](mixed(8, **{part: 1.0})) for part in names} == names
    assert recipes["classify_head"](mixed(8)) == "broad"


def test_pruned_matrices_give_what_zeroed_heads_give():
    prune, rng = CATALOGUE.recipes["head_analysis.prune_heads"], np.random.default_rng(0)
    attend = MISTAKES.attention.attention
    x, W = rng.normal(size=(2, 5, 20)), [rng.normal(size=(20, 20)) / 4 for _ in range(4)]

    def heads(matrices: Any, count: int) -> Any:
        return attend(*(MISTAKES.heads.cut(x @ matrix, count) for matrix in matrices[:3]))[0]

    full = heads(W, 4)
    full[:, [1, 3]] = 0.0
    small = prune(*W, 4, [3, 1])
    assert [matrix.shape for matrix in small] == [(20, 10)] * 3 + [(10, 20)]
    due = MISTAKES.heads.join(full) @ W[3]
    np.testing.assert_allclose(MISTAKES.heads.join(heads(small, 2)) @ small[3], due, rtol=1e-12, atol=1e-12)


# Right answers in unusual forms


def unusual() -> list[Any]:
    return [
        pytest.param(exercise, answer, id=f"{exercise}-{answer.__name__}")
        for exercise, answers in variants.VARIANTS.items()
        for answer in answers
    ]


def test_there_are_many_variants():
    assert len(unusual()) >= 60
    assert set(variants.VARIANTS) == set(GRADED)


@pytest.mark.parametrize(("exercise", "answer"), unusual())
def test_an_unusual_right_answer_is_accepted(exercise, answer):
    calls: list[Call] = []
    for check in checks_of(exercise):
        check(Recorder(student(exercise, answer), calls))
    assert CATALOGUE.diagnose(exercise, calls) == ()
