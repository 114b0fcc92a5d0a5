"""Answers that nobody thinks of are looked for a cause like all others: it takes little time and memory, and breaks nothing."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from checks import inputs
from checks.symptoms import SYMPTOMS
from grading import ROOT

from grader.diagnosis.diagnose import load_catalogue
from grader.diagnosis.recording import Call, Recorder
from grader.trouble import Opaque

CATALOGUE = load_catalogue(ROOT / "solutions" / "mistakes")
assert CATALOGUE is not None
MEMORY = 300 << 20  # bytes; an answer of four million numbers has 32 MiB
MANY = 1 << 22


def nested(value: Any, depth: int = 24) -> Any:
    return (nested(value, depth - 1),) if depth else value


ODD: dict[str, Any] = {
    "millions of numbers": np.zeros(MANY),
    "millions of heads": np.zeros((1, MANY, 1, 1)),
    "NaN that would broadcast": np.full((1 << 18, 1, 1, 1, 1), np.nan),
    "millions of tokens": torch.zeros(1, 1, MANY, 1),
    "a pair of giants": (np.zeros((1 << 20, 1, 1)), np.zeros((1 << 20, 1, 1))),
    "a tensor that needs gradients": torch.zeros(MANY, requires_grad=True),
    "a list of twenty thousand": [0.5] * 20_000,
    "a thousand arrays": [np.zeros((2, 2))] * 1_000,
    "a dict of thousands": {str(number): number for number in range(20_000)},
    "deep tuples": nested(np.ones(3)),
    "long text": "x" * 200_000,
    "an enormous integer": 10**40,
    "integers at their ends": np.array([-(2**63), 2**63 - 1]),
    "NaN and infinity": np.array([np.nan, np.inf, -np.inf, 1e308, 5e-324]),
    "complex numbers": np.ones((2, 3), complex) * 1j,
    "a complex scalar": np.complex128(1j),
    "a complex tensor": torch.ones(2, 3, dtype=torch.complex64),
    "a tensor without data": torch.ones(2, 3, device="meta"),
    "a tensor of bfloat16": torch.ones(2, 3, dtype=torch.bfloat16),
    "half of no numbers": np.zeros((0, 5), np.float16),
    "thirty-two axes": np.zeros((1,) * 32),
    "negative strides": np.arange(24.0).reshape(4, 6)[::-1, ::-2],
    "an object of the student's": Opaque("Liar", "equal to everything"),
    "nothing": None,
}
EXERCISES = (
    *("numpy_attention.softmax", "numpy_attention.split_heads", "numpy_attention.attention"),
    *("torch_attention.efficient_mha", "grouped_query.grouped_query_attention", "grouped_query.kv_cache_bytes"),
)


def asked(exercise: str) -> list[tuple[Any, ...]]:
    """Some arguments for an exercise."""
    rng = np.random.default_rng(0)
    make = np.asarray if exercise.startswith("numpy") else torch.tensor
    q, k, v = inputs.qkv(rng)
    mask = rng.random((4, 6)) < 0.3
    arguments = {
        "softmax": [(make(rng.normal(size=(2, 3, 5))),), (make(rng.normal(size=7)),)],
        "split_heads": [(make(rng.normal(size=(2, 3, 20))), 5)],
        "kv_cache_bytes": [(2, 3, 4, 5)],
    }
    return arguments.get(exercise.partition(".")[2], [(*map(make, (q, k, v, mask)),)])


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", EXERCISES)
def test_odd_answers_are_looked_at_and_nothing_happens(exercise: str, odd: str) -> None:
    assert CATALOGUE is not None
    name, calls = exercise.partition(".")[2], list[Call]()

    def student(*args: Any, **kwargs: Any) -> Any:
        return ODD[odd]

    CATALOGUE.singles(exercise)
    tracemalloc.start()
    try:
        for arguments in asked(exercise):
            getattr(Recorder(SimpleNamespace(**{name: student}), calls), name)(*arguments)
        found = CATALOGUE.diagnose(exercise, calls)
        said = SYMPTOMS[exercise](calls, student)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == ()
    assert said is None or len(said) < 500
    assert peak < MEMORY


def test_a_layer_is_not_put_together_from_giants() -> None:
    """Attention over the thousands of tokens that a student's `split_heads` gives could take all memory there is."""
    assert CATALOGUE is not None
    exercise, calls, asked = "numpy_attention.MultiHeadAttention", list[Call](), []

    def giants(x: Any, num_heads: int) -> Any:
        asked.append(x)
        return np.zeros((1, 1, 4_000, 1))

    layer = Recorder(SimpleNamespace(MultiHeadAttention=CATALOGUE.recipes[exercise]), calls).MultiHeadAttention(12, 3)
    layer.forward(np.ones((2, 5, 12)))
    tracemalloc.start()
    assert not CATALOGUE.follows(exercise, calls, {"numpy_attention.split_heads": giants})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert asked
    assert peak < 50 << 20
