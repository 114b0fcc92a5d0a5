"""Symptoms: each property named on a wrong function made for it, silence on right ones, and no exception on garbage."""

from __future__ import annotations

import importlib
import random
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from checks import inputs, oracle
from checks.symptoms import SYMPTOMS
from unseen import UNSEEN

from grader.diagnosis.recording import Call, Recorder
from grader.diagnosis.seen import Seen
from grader.trouble import Opaque, Stopped, Trouble

pytestmark = pytest.mark.filterwarnings("ignore")  # wrong functions divide by zero

RNG = np.random.default_rng(0)
Wrong = Callable[..., Any]


def recorded(function: Wrong, *questions: tuple[tuple[Any, ...], dict[str, Any]], name: str = "f") -> list[Call]:
    """The calls of a function with these arguments."""
    calls: list[Call] = []
    module = Recorder(types.SimpleNamespace(**{name: function}), calls)
    for args, kwargs in questions:
        try:
            getattr(module, name)(*args, **kwargs)
        except Exception:  # the record holds it
            continue
    return calls


def told(exercise: str, function: Wrong, *questions: tuple[Any, ...]) -> str | None:
    """The symptom of a function, asked with these positional arguments."""
    return SYMPTOMS[exercise](recorded(function, *((args, {}) for args in questions)), function)


# A right attention whose parts can be bent, and questions to it.


def attend(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    scale: Callable[..., Any] = lambda s, q, k: s / np.sqrt(q.shape[-1]),
    hide: Callable[..., Any] = lambda s, mask: np.where(mask, -np.inf, s),
    normal: Callable[..., Any] = oracle.softmax,
) -> tuple[Any, Any]:
    scores = scale(q @ k.swapaxes(-1, -2), q, k)
    weights = normal(scores if mask is None else hide(scores, mask))
    return weights @ v, weights


def softmax_over(*axes: int) -> Callable[[Any], Any]:
    return lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum(axes, keepdims=True)


def bent(**parts: Any) -> Wrong:
    return lambda q, k, v, mask=None: attend(q, k, v, mask, **parts)


QUESTIONS = [inputs.qkv(RNG), inputs.qkv(RNG, (3, 2), 3, 5, 4, 2)]
MASKED = [(*arrays, inputs.best_keys_mask(RNG, *arrays[:2])) for arrays in QUESTIONS]
PADDED = [(*arrays, inputs.mask_of(RNG, arrays[1].shape[-2])) for arrays in QUESTIONS]
VIEWS = [tuple(x.transpose(1, 0, 2, 3) for x in arrays) for arrays in QUESTIONS]
HALF = [tuple(x.astype(np.float16) for x in arrays) for arrays in QUESTIONS]
BLIND = [(q, k, v, mask | (np.arange(q.shape[-2])[:, None] == 2)) for q, k, v, mask in MASKED]  # query 2 sees nothing


def mix_items(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return attend(q, k + 0.1 * np.roll(k, -1, 0), v, mask)


def mix_heads(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return attend(q, k, v + 0.1 * np.roll(v, -1, 1), mask)


def mix_queries(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return attend(q + 0.1 * np.roll(q, -1, -2), k, v, mask)


def only_if(right: Callable[[Any, Any, Any, Any], bool]) -> Wrong:
    """Right on some inputs, and wrong in output and weights on all others."""

    def function(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        output, weights = attend(q, k, v, mask)
        return (output, weights) if right(q, k, v, mask) else (output * weights.mean() + 1, np.sqrt(weights) / 2)

    return function


def changes_k(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    answer = attend(q, k, v, mask)
    k *= 2
    return answer


def swaps_heads(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    order = [1, 0, *range(2, q.shape[1])]
    return tuple(part[:, order] for part in attend(q, k, v, mask))


def bad_output(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, weights = attend(q, k, v, mask)
    return output**2, weights


def bad_weights(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, weights = attend(q, k, v, mask)
    return output, np.sqrt(weights) / 2


def wide(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return tuple(part[..., :-1] for part in attend(q, k, v, mask))


def nan_rows(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def as_zeros(s: Any, mask: Any) -> Any:
    return s * ~mask


def uniform_rows(s: Any, mask: Any) -> Any:
    return np.where(mask, -1e300, s)


def ahead(s: Any) -> Any:
    return oracle.softmax(s) * 1.25


def unmasked(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return attend(q, k, v)


def after_softmax(q: Any, k: Any, v: Any, mask: Any) -> Any:
    weights = attend(q, k, v)[1] * ~mask
    return weights @ v, weights


@pytest.mark.parametrize(
    ("wrong", "questions", "words"),
    [
        (bent(normal=softmax_over(-2)), QUESTIONS, "do not sum to 1, but the columns do"),
        (bent(normal=softmax_over(-3)), QUESTIONS, "over the heads they do"),
        (bent(normal=softmax_over(-2, -1)), QUESTIONS, "a head's whole matrix does"),
        (bent(normal=softmax_over(-4, -3, -2, -1)), QUESTIONS, "all numbers of the array together do"),
        (bent(normal=ahead), QUESTIONS, "(one sums to 1.25), and are right but for that"),
        (bent(scale=lambda s, q, k: s), QUESTIONS, "times those that are due, as if they were divided by 1 "),
        (bent(scale=lambda s, q, k: s / q.shape[-1]), QUESTIONS, "as if they were divided by d_k"),
        (bent(scale=lambda s, q, k: s / k.shape[-2] ** 0.5), QUESTIONS, "as if they were divided by sqrt(n_k)"),
        (bent(scale=lambda s, q, k: s / q.shape[-1] ** 0.5 / 3), QUESTIONS, "what are they divided by?"),
        (
            lambda q, k, v: [attend(q, k, v)[0] * q.shape[-1] ** 0.5, attend(q, k, v)[1]],
            QUESTIONS,
            "which is sqrt(d_k)",
        ),
        (bent(hide=as_zeros), MASKED, "which the mask hides"),
        (
            bent(hide=lambda s, mask: np.where(mask, s, -np.inf)),
            MASKED,
            "True in the mask meant that a key may be seen",
        ),
        (unmasked, MASKED, "if the mask did not count"),
        (after_softmax, MASKED, "set to 0 after the softmax"),
        (bent(normal=nan_rows), BLIND, "NaN appears in row 2, where everything is hidden"),
        (bent(hide=uniform_rows, normal=nan_rows), BLIND, "All is right but row 2, where everything is hidden"),
        (mix_items, QUESTIONS, "Batch item 0 changes when only item 1 changes"),
        (mix_heads, QUESTIONS, "Head 0's output changes when only head 1's input changes"),
        (mix_queries, QUESTIONS, "Query 0's output changes when only query 1 changes"),
        (
            only_if(lambda q, k, v, mask: q.shape[-2] == k.shape[-2]),
            QUESTIONS,
            "Right where n_q = n_k, wrong elsewhere",
        ),
        (
            only_if(lambda q, k, v, mask: q.shape[-1] == v.shape[-1]),
            QUESTIONS,
            "Right where d_v = d_k, wrong elsewhere",
        ),
        (only_if(lambda q, k, v, mask: mask is None), MASKED, "Right without a mask, wrong with one"),
        (only_if(lambda q, k, v, mask: mask is None or mask.ndim > 2), PADDED, "wrong with one that has to broadcast"),
        (only_if(lambda q, k, v, mask: q.flags.c_contiguous), VIEWS, "Right for contiguous inputs, wrong for views"),
        (only_if(lambda q, k, v, mask: q.dtype != np.float16), HALF, "Right in float64, wrong in float16"),
        (bad_weights, QUESTIONS, "The output is right, but not the weights"),
        (bent(scale=lambda s, q, k: s, normal=lambda s: oracle.softmax(s) / 3), QUESTIONS, "one sums to 0.3333"),
        (changes_k, QUESTIONS, "The input k was changed by the call"),
        (swaps_heads, QUESTIONS, "heads 0 and 1 have changed places"),
        (bad_output, QUESTIONS, "The weights are right and the output is not"),
        (wide, QUESTIONS, "The shape of the output is (3, 2, 3, 1), due was (3, 2, 3, 2)"),
    ],
)
def test_attention(wrong: Wrong, questions: list[tuple[Any, ...]], words: str) -> None:
    assert words in (told("numpy_attention.attention", wrong, *questions) or "")


def test_large_scores() -> None:
    q, k, v = QUESTIONS[0]
    wrong = bent(normal=lambda s: np.exp(s) / np.exp(s).sum(-1, keepdims=True))
    assert "with large numbers in q only" in (told("numpy_attention.attention", wrong, (q * 1e5, k, v)) or "")


def test_two_faults() -> None:
    wrong = bent(normal=nan_rows, scale=lambda s, q, k: s)
    text = told("numpy_attention.attention", wrong, *QUESTIONS, *BLIND)
    assert text is not None
    assert text.startswith("The scores are 2 times those that are due, as if they were divided by 1 instead of sqrt(d_k).")
    assert text.endswith("Besides: NaN appears in row 2, where everything is hidden: zeros are due.")


@pytest.mark.parametrize(
    ("exercise", "wrong", "questions", "words"),
    [
        (
            "split_heads",
            lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
            [(inputs.labels(2, 3, 20), 4)],
            "made of tokens",
        ),
        (
            "split_heads",
            lambda x, h: x.reshape(*x.shape[:2], -1, h).transpose(0, 3, 1, 2),
            [(inputs.labels(2, 3, 20), 4)],
            "features 0, 4, 8, 12, 16 (every 4th); due were features 0, 1, 2, 3, 4",
        ),
        (
            "split_heads",
            lambda x, h: oracle.split_heads(x[::-1], h),
            [(inputs.labels(2, 3, 8), 2)],
            "made of batch items 1, 1, 1, 1",
        ),
        (
            "merge_heads",
            lambda x: x.transpose(0, 2, 3, 1).reshape(2, 3, -1),
            [(inputs.labels(2, 4, 3, 5),)],
            "made of heads 0, 1, 2, 3, 0",
        ),
        ("merge_heads", lambda x: x.reshape(2, 3, -1), [(inputs.labels(2, 4, 3, 5),)], "made of tokens"),
        ("softmax", lambda x: np.exp(x) / np.exp(x).sum(0), [(inputs.values(RNG, 3, 4),)], "but the columns do"),
        (
            "softmax",
            lambda x: np.nan_to_num(np.exp(x - x.max()) / np.exp(x - x.max()).sum(-1, keepdims=True)),
            [(np.array([[1e3, 1.0, 2.0], [-1e3, -999.0, -999.0]]),)],
            "Right for a row alone, wrong beside the other rows",
        ),
        (
            "softmax",
            nan_rows,
            [(np.array([[1.0, 2.0], [-np.inf, -np.inf]]),)],
            "NaN appears in row 1, where everything is hidden",
        ),
        (
            "softmax",
            lambda x: oracle.softmax(x).astype(np.float64),
            [(np.ones((2, 3), np.float32),)],
            "is float64, that of the input float32",
        ),
    ],
)
def test_numpy(exercise: str, wrong: Wrong, questions: list[tuple[Any, ...]], words: str) -> None:
    assert words in (told(f"numpy_attention.{exercise}", wrong, *questions) or "")


# PyTorch.


def solution(exercise: str) -> Any:
    """The right function or class."""
    module, name = exercise.split(".")
    return getattr(importlib.import_module(f"solutions.{module}"), name)


def torch_attend(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, *, cut: str = "", tiled: bool = False) -> Any:
    hidden = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool) if mask is None else mask
    hidden = hidden | torch.tensor(oracle.causal(*hidden.shape[-2:])) if is_causal else hidden
    q, k, v = (x.detach() if name in cut else x for name, x in zip("qkv", (q, k, v), strict=True))
    k, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) if tiled else x for x in (k, v))
    weights = F.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf), -1)
    return weights @ v, weights


def kernel(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)


def leaky(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False) -> Any:
    future = torch.tensor(oracle.causal(q.shape[-2], k.shape[-2])) * -2.0
    return F.scaled_dot_product_attention(q, k, v, attn_mask=future.to(q.dtype))


TENSORS = [inputs.tensors(*arrays) for arrays in QUESTIONS]
WANTED = [inputs.tensors(*arrays, grad=True) for arrays in QUESTIONS]
GROUPED = [inputs.tensors(*inputs.grouped(RNG)), inputs.tensors(*inputs.grouped(RNG, 4, 2, batch=3))]


@pytest.mark.parametrize(
    ("exercise", "wrong", "questions", "words"),
    [
        ("torch_attention.attention", lambda *a: torch_attend(*a, cut="k"), WANTED, "No gradient reaches k."),
        (
            "torch_attention.attention",
            lambda *a: torch_attend(*a, cut="qkv"),
            WANTED,
            "No gradient reaches q and k and v.",
        ),
        (
            "torch_attention.attention",
            lambda *a: [x.float() for x in torch_attend(*a)],
            TENSORS,
            "is float32, that of the input float64",
        ),
        (
            "torch_attention.efficient_mha",
            kernel,
            [inputs.tensors(*a) for a in MASKED],
            "True in the mask meant that a key may be seen",
        ),
        (
            "torch_attention.efficient_mha",
            lambda *a: kernel(*a[:3], None, True),
            [(*a, None, True) for a in TENSORS],
            "top left",
        ),
        ("torch_attention.efficient_mha", leaky, [(*a, None, True) for a in TENSORS], "which lies in its future"),
        (
            "grouped_query.grouped_query_attention",
            lambda *a: torch_attend(*a, tiled=True),
            GROUPED,
            "KV head i mod h_kv",
        ),
        (
            "grouped_query.repeat_kv",
            lambda x, h: x.repeat(1, h // x.shape[1], 1, 1),
            [(inputs.tensor(inputs.labels(1, 2, 3, 4)), 4)],
            "0, 1, 0, 1",
        ),
        ("torch_attention.causal_mask", lambda n, m: torch.ones(n, m).triu(1).bool(), [(2, 5), (3, 4)], "top left"),
        (
            "torch_attention.causal_mask",
            lambda n: torch.ones(n, n).triu(2).bool(),
            [(4,), (5,)],
            "one key into the future",
        ),
        (
            "torch_attention.causal_mask",
            lambda n: torch.ones(n, n).triu().bool(),
            [(4,), (5,)],
            "no query saw its own key",
        ),
        (
            "torch_attention.causal_mask",
            lambda n: torch.ones(n, n).tril().bool(),
            [(4,), (5,)],
            "True and False had changed places",
        ),
    ],
)
def test_torch(exercise: str, wrong: Wrong, questions: list[tuple[Any, ...]], words: str) -> None:
    assert words in (told(exercise, wrong, *questions) or "")


def test_state_stays_behind() -> None:
    seen: list[Any] = []

    def wrong(x: Any, num_heads: int) -> Any:
        seen.append(x)
        return oracle.split_heads(seen[-2] if len(seen) == 2 else x, num_heads)

    questions = [(inputs.values(RNG, 2, 3, 8), 2), (inputs.values(RNG, 2, 3, 8), 2)]
    assert "state of an earlier call stays behind" in (told("numpy_attention.split_heads", wrong, *questions) or "")


def layer_calls(cls: Any, kv_heads: int | None, *runs: tuple[int, ...], dropout: float = 0.0) -> list[Call]:
    """The forward calls of a class in eval mode, on sequences cut into chunks of these sizes."""
    calls: list[Call] = []
    module = Recorder(types.SimpleNamespace(Layer=cls), calls)
    for chunks in runs:
        W = inputs.matrices(RNG, 12, None if kv_heads is None else 3 * kv_heads)
        layer = module.Layer(12, 4, *([dropout] if kv_heads is None else [kv_heads])).double().eval()
        inputs.load(layer, W)
        cache = None
        for x in torch.tensor(inputs.values(RNG, 2, sum(chunks), 12)).split(chunks, 1):
            _, cache = layer(x, *([] if kv_heads is None else [cache]))
    return [call for call in calls if call.method]


def layer(base: str, **methods: Callable[..., Any]) -> Any:
    return type("Layer", (solution(base),), methods)


def test_layers() -> None:
    def swapped(self: Any, x: Any, mask: Any = None) -> Any:
        self.W_V = self.W_K
        return solution(name).forward(self, x, mask)

    def dropping(self: Any, x: Any, mask: Any = None) -> Any:
        output, weights = solution(name).forward(self, x, mask)
        return F.dropout(output, 0.5), weights

    name = "torch_attention.MultiHeadAttention"
    cls = layer(name, forward=swapped)
    assert "if W_K stood where W_V is due" in (SYMPTOMS[name](layer_calls(cls, None, (4,), (5,)), cls) or "")
    cls = layer(name, forward=dropping)
    assert "The same call twice gives two answers" in (SYMPTOMS[name](layer_calls(cls, None, (4,), (5,)), cls) or "")


def test_matrices_set_anew() -> None:
    class Deaf(solution("numpy_attention.MultiHeadAttention")):  # type: ignore[misc]
        def __init__(self, *sizes: int) -> None:
            super().__init__(*sizes)
            self.kept = self.W_K

        def forward(self, x: Any, mask: Any = None) -> Any:
            self.W_K = self.kept
            return super().forward(x, mask)

    calls: list[Call] = []
    mha = Recorder(types.SimpleNamespace(Layer=Deaf), calls).Layer(12, 4)
    for name, matrix in inputs.matrices(RNG, 12, None).items():
        setattr(mha, name, matrix)
    mha.forward(inputs.values(RNG, 2, 4, 12))
    wrong = [call for call in calls if call.method == "forward"]
    assert "does forward use what __init__ drew" in (SYMPTOMS["numpy_attention.MultiHeadAttention"](wrong, Deaf) or "")


def test_cached_layer() -> None:
    def behind(self: Any, x: Any, cache: Any = None) -> Any:
        output, new = solution(name).forward(self, x)
        if cache is not None:
            new = tuple(torch.cat(both, 2) for both in zip(new, cache, strict=True))
        return output, new

    def smoothed(self: Any, x: Any, cache: Any = None) -> Any:
        output, cache = solution(name).forward(self, x, cache)
        return output + 0.1 * output.flip(1), cache

    name = "grouped_query.GroupedQueryAttention"
    cls = layer(name, forward=behind)
    assert "Right without a cache, wrong with one" in (SYMPTOMS[name](layer_calls(cls, 2, (3, 2), (1, 3)), cls) or "")
    cls = layer(name, forward=smoothed)
    assert "A token's output changes when only a later one changes" in (
        SYMPTOMS[name](layer_calls(cls, 2, (5,), (4,)), cls) or ""
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda layers, heads, size, n, batch=1, width=2: 2 * layers * heads * size * n * width,
            "When batch doubles, the answer stays the same",
        ),
        (
            lambda layers, heads, size, n, batch=1, width=2: layers * heads * size * n * batch * width,
            "The answer is 0.5 times what is due",
        ),
        (
            lambda layers, heads, size, n, batch=1, width=2: 2 * layers * heads * size * n**2 * batch * width,
            "becomes 4 times as large",
        ),
    ],
)
def test_bytes(wrong: Wrong, words: str) -> None:
    assert words in (told("grouped_query.kv_cache_bytes", wrong, (1, 2, 3, 4)) or "")


# Silence.


def asked(exercise: str) -> list[tuple[Any, ...]]:
    """Legal questions to a function, odd dtypes, strides and masks among them."""
    make = np.array if exercise.startswith("numpy") else torch.tensor
    half = "float16" if exercise.startswith("numpy") else torch.float16
    arrays = [*QUESTIONS, *MASKED, *BLIND, *PADDED, *VIEWS]
    questions = {
        "softmax": [
            (x,) for x in (inputs.values(RNG, 5), RNG.integers(0, 9, (2, 3)), np.array([[1e9, -np.inf], [-np.inf, -np.inf]]))
        ],
        "split_heads": [(make(inputs.values(RNG, 2, 3, 8)), h) for h in (1, 2, 8)],
        "merge_heads": [(make(inputs.values(RNG, 2, 3, 4, 5)),), (make(inputs.values(RNG, 1, 1, 1, 1)),)],
        "repeat_kv": [(make(inputs.values(RNG, 2, 3, 4, 5)), 6)],
        "causal_mask": [(3,), (2, 5), (1, 1), (2, 3, "meta")],
        "kv_cache_bytes": [(3, 4, 5, 6), (3, 4, 5, 6, 7, 8)],
        "attention": [tuple(map(make, a)) for a in arrays] + [tuple(make(x, dtype=half) for x in a) for a in QUESTIONS],
        "efficient_mha": [(*map(make, a), True) for a in MASKED],
        "grouped_query_attention": GROUPED,
        "MultiHeadAttention": [(12, 4)],
        "GroupedQueryAttention": [(12, 4, 2)],
    }
    return questions[exercise.partition(".")[2]]


@pytest.mark.parametrize("exercise", SYMPTOMS)
def test_right_answers_have_no_symptom(exercise: str) -> None:
    function = solution(exercise)
    calls = recorded(function, *((args, {}) for args in asked(exercise)))
    if exercise == "torch_attention.MultiHeadAttention":
        calls += layer_calls(function, None, (4,), (1,), dropout=0.5)
    if exercise == "grouped_query.GroupedQueryAttention":
        calls += layer_calls(function, 2, (3, 2), (1, 1))
    if exercise != "torch_attention.causal_mask":  # a mask on the meta device is no array that could be read
        assert not any(call.seen.error for call in calls)
    assert SYMPTOMS[exercise](calls, function) is None


def test_a_fault_that_is_not_on_every_wrong_call_is_not_told() -> None:
    def wrong(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        output, weights = attend(q, k, v, mask, normal=softmax_over(-2))
        return (output, weights) if len(q) == 2 else (np.sin(output), np.sin(weights))

    assert "but the columns do" in (told("numpy_attention.attention", wrong, QUESTIONS[0]) or "")
    assert "but the columns do" not in (told("numpy_attention.attention", wrong, *QUESTIONS) or "")


GARBAGE = [
    None,
    "text",
    3,
    -1.5,
    True,
    (),
    [1, 2],
    {"a": 1},
    object(),
    Opaque("Thing", "thing"),
    np.zeros(0),
    np.array("x"),
]
GARBAGE += [
    np.full((2, 3), np.nan),
    np.zeros((2, 3), dtype=object),
    np.ones((2, 3, 4, 6)),
    torch.zeros(2, 3).to_sparse(),
]
GARBAGE += [
    torch.zeros(2, device="meta"),
    torch.zeros((), dtype=torch.complex64),
    float("inf"),
    np.float32(2),
    lambda: 1,
]


def odd_answer(random_: random.Random) -> Any:
    if random_.random() < 0.4:
        return [random_.choice(GARBAGE) for _ in range(random_.randint(0, 3))]
    return random_.choice(GARBAGE)


@pytest.mark.parametrize("exercise", SYMPTOMS)
def test_garbage_raises_nothing(exercise: str) -> None:
    random_ = random.Random(exercise)
    stopped = Stopped(Trouble("timeout", "TimeoutError", "too slow"))
    questions = [(args, {}) for args in asked(exercise)[:3]]
    for _ in range(40):

        def function(*args: Any, **kwargs: Any) -> Any:
            if random_.random() < 0.2:
                raise random_.choice([ValueError("no"), stopped, NotImplementedError(), RecursionError()])
            return odd_answer(random_)

        calls = recorded(function, *questions)
        calls += [
            replace(call, answer=odd_answer(random_), seen=random_.choice([call.seen, Seen("ValueError"), Seen()]))
            for call in calls
        ]
        text = SYMPTOMS[exercise](calls, random_.choice([function, None, 3, object()]))
        assert text is None or text.endswith((".", "?"))


# The thirty.


def test_unseen_are_whole_functions() -> None:
    assert len(UNSEEN) == 30
    assert {unseen.exercise for unseen in UNSEEN} == set(SYMPTOMS)
    for unseen in UNSEEN:
        spaces: dict[str, Any] = {"np": np, "torch": torch, "nn": torch.nn, "F": F}
        exec(compile(unseen.source, unseen.exercise, "exec"), spaces)
        assert callable(spaces[unseen.exercise.partition(".")[2]])
        assert unseen.words
