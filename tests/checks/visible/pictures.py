"""What `grader show` draws: the student's matrices on the lesson's worked example, beside the lesson's own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from checks import F, inputs, models, oracle, torch

from grader import expect
from grader.pictures import Picture

X = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])  # the worked example: three tokens with four features
SPLIT = np.array([[[1.0, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [0, 0]]])  # its two heads
SCORES = np.array([[0.707, 0, 0.707], [0, 0.707, 0.707], [0.707, 0.707, 1.414]])  # of head 0
WEIGHTS = np.array([
    [[0.401, 0.198, 0.401], [0.198, 0.401, 0.401], [0.248, 0.248, 0.503]],
    [[0.503, 0.248, 0.248], [0.248, 0.503, 0.248], [0.333, 0.333, 0.333]],
])  # fmt: skip
OUTPUTS = np.array([[[0.802, 0.599], [0.599, 0.802], [0.752, 0.752]], [[0.503, 0.248], [0.248, 0.503], [0.333, 0.333]]])
MERGED = np.concatenate([OUTPUTS[0], OUTPUTS[1]], axis=1)
TOKENS, FEATURES = ("token 0", "token 1", "token 2"), ("f0", "f1", "f2", "f3")


def softmax(student: Any) -> Iterator[Picture]:
    yield _picture("softmax of head 0's scores", student.softmax(SCORES), WEIGHTS[0], SCORES, TOKENS)


def _split_heads(student: Any, like: Any) -> Iterator[Picture]:
    yield from _heads("q", student.split_heads(_in(X[None], like), 2), SPLIT, like, TOKENS, FEATURES[:2])


def _attention(student: Any, like: Any) -> Iterator[Picture]:
    q = _in(SPLIT[None], like)
    output, weights = expect.pair(student.attention(q, q, q))
    yield from _heads("weights", weights, WEIGHTS, like, TOKENS, TOKENS)
    yield from _heads("output", output, OUTPUTS, like, TOKENS, FEATURES[:2])


def _merge_heads(student: Any, like: Any) -> Iterator[Picture]:
    merged = student.merge_heads(_in(OUTPUTS[None], like))
    yield _picture("both heads side by side", merged, MERGED[None], _in(X, like), TOKENS, FEATURES)


def numpy_layer(student: Any) -> Iterator[Picture]:
    mha = student.MultiHeadAttention(4, 2)
    for name in inputs.PROJECTIONS:
        setattr(mha, name, np.eye(4))
    yield from _layer(*expect.pair(mha.forward(X[None])), X)


def torch_layer(student: Any) -> Iterator[Picture]:
    mha, like = student.MultiHeadAttention(4, 2), _tensor()
    expect.module(mha, {f"{name}.weight": (4, 4) for name in inputs.PROJECTIONS})
    inputs.load(mha.double(), dict.fromkeys(inputs.PROJECTIONS, np.eye(4)))
    yield from _layer(*expect.pair(mha(_in(X[None], like))), like)


def causal_mask(student: Any) -> Iterator[Picture]:
    like = torch.zeros(0, dtype=torch.bool)
    square = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]])
    wide = np.array([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    for due, rows in ((square, ("query 0", "query 1", "query 2", "query 3")), (wide, ("query 3", "query 4"))):
        columns = [f"key {key}" for key in range(due.shape[1])]
        yield _picture(
            f"{len(due)} queries, {due.shape[1]} keys (1: hidden)", student.causal_mask(*due.shape), due, like, rows, columns
        )


def efficient_mha(student: Any) -> Iterator[Picture]:
    like, q = _tensor(), _in(SPLIT[None], _tensor())
    yield from _heads("output", student.efficient_mha(q, q, q), OUTPUTS, like, TOKENS, FEATURES[:2])


def repeat_kv(student: Any) -> Iterator[Picture]:
    like, heads = _tensor(), np.arange(2.0).reshape(1, 2, 1, 1)
    got = student.repeat_kv(_in(heads, like), 6)
    expect.array(got, like=like, shape=(1, 6, 1, 1))
    rows = [f"query head {head}" for head in range(6)]
    yield _picture(
        "the KV head that each query head gets", got.reshape(6, 1), np.array([[0], [0], [0], [1], [1], [1]]), like, rows
    )


def grouped_query_attention(student: Any) -> Iterator[Picture]:
    """Weights that are easy to see, from torch's own kernel: with the identity as values it gives the weights themselves."""
    like, rng = _tensor(), np.random.default_rng(1)
    q, k = (inputs.tensor(inputs.values(rng, 1, heads, 4, 3)) for heads in (4, 2))
    own = torch.eye(4, dtype=torch.double).expand(1, 2, 4, 4)
    due = F.scaled_dot_product_attention(q, k, own, enable_gqa=True)[0].numpy()
    _, weights = expect.pair(student.grouped_query_attention(q, k, own))
    tokens = [f"token {token}" for token in range(4)]
    yield from _heads(
        "weights", weights, due, like, tokens, tokens, ("on KV head 0", "on KV head 0", "on KV head 1", "on KV head 1")
    )


def extract_attention_patterns(student: Any) -> Iterator[Picture]:
    """The twelve heads of a trained model's first layer."""
    models.need("transformers", models.PACKAGE)
    due = oracle.attentions("sentence_bert", models.sentence())[0][0]
    words = ["[CLS]", *models.SENTENCE.split(), "[SEP]"]
    got = student.extract_attention_patterns(models.sentence_bert(), models.sentence(), 0)
    yield from _heads("weights", got, due, due, words, words, ["layer 0"] * len(due), batch=False)


def _layer(output: Any, weights: Any, like: Any) -> Iterator[Picture]:
    yield from _heads("weights", weights, WEIGHTS, like, TOKENS, TOKENS)
    yield _picture("output", output, MERGED[None], like, TOKENS, FEATURES)


def _heads(
    what: str, got: Any, due: Any, like: Any, rows: Sequence[str], columns: Sequence[str],
    more: Sequence[str] = (), batch: bool = True,
) -> Iterator[Picture]:  # fmt: skip
    """A picture a head, of an answer (1, h, ...), or (h, ...) without a batch."""
    expect.array(got, like=like, shape=(1, *due.shape) if batch else due.shape, label=what)
    for head, (mine, right) in enumerate(zip(_numbers(got[0] if batch else got), due, strict=True)):
        words = f", {more[head]}" if more else ""
        yield Picture(f"{what} of head {head}{words}", mine, right, rows, columns)


def _picture(title: str, got: Any, due: Any, like: Any, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Picture:
    """A picture of one matrix, or of a batch of one."""
    expect.array(got, like=like, shape=due.shape, label=title)
    return Picture(title, _numbers(got).reshape(due.shape[-2:]), due.reshape(due.shape[-2:]), rows, columns)


def _tensor() -> Any:
    return torch.zeros(0, dtype=torch.double)


def _in(array: Any, like: Any) -> Any:
    return array if isinstance(like, np.ndarray) else inputs.tensor(array)


def _numbers(value: Any) -> Any:
    return np.asarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else value.detach().double().numpy()


PICTURES = {
    "numpy_attention.softmax": softmax,
    "numpy_attention.split_heads": lambda student: _split_heads(student, X),
    "numpy_attention.attention": lambda student: _attention(student, X),
    "numpy_attention.merge_heads": lambda student: _merge_heads(student, X),
    "numpy_attention.MultiHeadAttention": numpy_layer,
    "torch_attention.split_heads": lambda student: _split_heads(student, _tensor()),
    "torch_attention.attention": lambda student: _attention(student, _tensor()),
    "torch_attention.merge_heads": lambda student: _merge_heads(student, _tensor()),
    "torch_attention.causal_mask": causal_mask,
    "torch_attention.MultiHeadAttention": torch_layer,
    "torch_attention.efficient_mha": efficient_mha,
    "grouped_query.repeat_kv": repeat_kv,
    "grouped_query.grouped_query_attention": grouped_query_attention,
    "head_analysis.extract_attention_patterns": extract_attention_patterns,
}
