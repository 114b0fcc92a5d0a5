"""The checks of head_analysis.py that students don't have: fresh sizes, both sides of each bound, other models."""

from __future__ import annotations

import numpy as np
import pytest
from checks import inputs, models, oracle, torch

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer


@pytest.mark.check("head_analysis.attention_parameters", points=0.5)
def test_parameters_any_size(student, rng):
    """parameters are counted right for all sizes"""
    for h_kv, ratio, d_k in [(1, 1, 1), (3, 2, 5), *inputs.drawn(rng, lambda st: st.tuples(*[st.integers(1, 12)] * 3))]:
        heads, d_model = h_kv * ratio, h_kv * ratio * d_k
        due = {"qkv": d_model * (heads + 2 * h_kv) * d_k, "output": heads * d_k * d_model}
        expect.integers(student.attention_parameters(d_model, heads, h_kv), due)


@pytest.mark.check("head_analysis.attention_parameters", points=0.25)
def test_parameters_default(student):
    """without a number of KV heads, each head has its own; with one, all share it"""
    expect.integers(student.attention_parameters(60, 6), {"qkv": 10_800, "output": 3_600})
    expect.integers(student.attention_parameters(60, 6, None), {"qkv": 10_800, "output": 3_600})
    expect.integers(student.attention_parameters(60, 6, num_kv_heads=1), {"qkv": 4_800, "output": 3_600})


@pytest.mark.check("head_analysis.attention_parameters", points=0.25)
def test_parameters_refuse(student):
    """the ValueError names the sizes that do not divide"""
    expect.value_error(lambda: student.attention_parameters(26, 4, 2), 26, 4)
    expect.value_error(lambda: student.attention_parameters(45, 9, 6), 9, 6)
    expect.value_error(lambda: student.attention_parameters(24, 4, 8), 4, 8)


@pytest.mark.check("head_analysis.attention_matrix_bytes", points=0.5)
def test_matrix_any_size(student, rng):
    """heads, sentences and bytes count once, tokens twice"""
    heads, n, batch, width = (int(number) for number in rng.permutation([3, 5, 7, 11]))
    expect.integer(student.attention_matrix_bytes(heads, n, batch, width), heads * n * n * batch * width)
    expect.integer(student.attention_matrix_bytes(heads, n, bytes_per_value=width), heads * n * n * width)
    expect.integer(student.attention_matrix_bytes(heads, n, batch=batch), heads * n * n * batch * 4)


@pytest.mark.check("head_analysis.attention_entropy", points=0.5)
def test_entropy_any_size(student, rng):
    """attention_entropy works for all numbers of heads and tokens"""
    for h, n in [(1, 1), (1, 6), (4, 1), *inputs.drawn(rng, lambda st: st.tuples(st.integers(1, 5), st.integers(2, 8)))]:
        weights = inputs.rows(rng, h, n, n)
        due = oracle.entropy(weights)
        expect.close(student.attention_entropy(weights), due, like=weights, label="the entropy")


@pytest.mark.check("head_analysis.attention_entropy", points=0.5)
def test_entropy_is_exact(student, rng):
    """no small number is added: results are right to twelve digits"""
    weights = inputs.rows(rng, 2, 16, 16, sharpness=0.5)
    weights[1] = np.eye(16)[::-1]
    weights[1, :8] = inputs.rows(rng, 8, 16, sharpness=12)  # from 1 down to some 1e-20
    due = oracle.entropy(weights)
    expect.close(student.attention_entropy(weights), due, like=weights, label="the entropy")


@pytest.mark.check("head_analysis.attention_entropy", points=0.5)
def test_entropy_dtype(student, rng):
    """float32 stays float32, and integers count as float64"""
    weights = inputs.rows(rng, 3, 5, 5).astype(np.float32)
    due = oracle.entropy(weights)
    expect.close(student.attention_entropy(weights), due, like=weights, label="the entropy")
    expect.close(student.attention_entropy(np.eye(4, dtype=int)[None]), np.zeros(1), label="the entropy of integers")


@pytest.mark.check("head_analysis.classify_head", points=0.5)
@pytest.mark.parametrize(
    ("pattern", "bound", "name"),
    [("sink", 0.4, "attention_sink"), ("previous", 0.3, "prev_token"), ("own", 0.4, "self_attend")],
    ids=["sink", "previous", "own"],
)
def test_classify_bounds(student, pattern, bound, name):
    """each pattern counts from its own bound on, as a mean"""
    for n in (5, 12):
        over, under = (inputs.head(n, **{pattern: (mean - 1 / n) / (1 - 1 / n)}) for mean in (bound + 0.02, bound - 0.02))
        expect.text(student.classify_head(over), name, f"the name for a mean of {bound + 0.02}")
        expect.text(student.classify_head(under), "broad", f"the name for a mean of {bound - 0.02}")
    at_bound = {"sink": [2, 3, 4, 0, 0], "own": [2, 4, 0, 3, 4]}  # the one key that each query sees
    if keys := at_bound.get(pattern):
        expect.text(student.classify_head(np.eye(5)[keys]), "focused", f"the name for a mean of just {bound}")


@pytest.mark.check("head_analysis.classify_head", points=0.25)
def test_classify_by_entropy(student):
    """an entropy of 0.49 is focused and one of 0.51 is broad; weights of 0 do no harm"""
    expect.text(student.classify_head(inputs.head(6, far=1.0).astype(int)), "focused", "the name for integers")
    for n in (6, 11):
        expect.text(student.classify_head(inputs.head(n, far=0.81, next=0.19)), "focused", "the name for entropy 0.49")
        expect.text(student.classify_head(inputs.head(n, far=0.79, next=0.21)), "broad", "the name for entropy 0.51")
        one_even = inputs.head(n, far=1.0)
        one_even[2] = 1 / n
        expect.text(student.classify_head(one_even), "focused", "the name when one query of many looks everywhere")


@pytest.mark.check("head_analysis.classify_head", points=0.25)
def test_classify_mixtures(student, rng):
    """mixed patterns get the name of the first rule that holds, and weights are left as they were"""
    names = ["sink", "previous", "own", "next", "last", "far", "opposite", "before_that"]
    for shares in [*rng.dirichlet([0.25] * 8, 24), *rng.dirichlet([0.6] * 3, 24)]:
        weights = inputs.head(int(rng.integers(2, 9)), **dict(zip(names, map(float, shares), strict=False)))
        before = weights.copy()
        expect.text(student.classify_head(weights), oracle.head_name(before))
        expect.unchanged(before, weights, "weights")


@pytest.mark.check("head_analysis.classify_head", points=0.5)
def test_classify_a_trained_bert(student):
    """the 72 heads of a trained BERT get their names"""
    student.classify_head(np.ones((1, 1)))  # a stub is told before the model is loaded
    models.need("transformers", models.PACKAGE)
    for layer, heads in enumerate(oracle.trained_heads()):
        for head, weights in enumerate(heads):
            expect.text(student.classify_head(weights.copy()), oracle.head_name(weights), f"the name of head {layer}-{head}")


@pytest.mark.check("head_analysis.extract_attention_patterns", points=0.5)
def test_extract_any_layer(student, rng):
    """every layer of every batch can be asked for, and the inputs are left as they were"""
    model = models.stand_in().train()
    for batch, n, layer in [(1, 6, 0), (3, 4, 2), (2, 1, 1)]:
        ids = torch.tensor(rng.integers(0, 40, (batch, n)))
        before, due = ids.clone(), oracle.attentions("stand_in", {"input_ids": ids})[layer][0]
        got = student.extract_attention_patterns(model, {"input_ids": ids}, layer)
        expect.close(got, due, label=f"layer {layer}")
        expect.unchanged(before, ids, "input_ids")
        models.expect_mode(model, True)


@pytest.mark.check("head_analysis.extract_attention_patterns", points=0.5)
@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
def test_extract_from_a_small_bert(student, rng, training):
    """a Hugging Face BERT is read without dropout, sees all its inputs, and keeps its mode"""
    student.extract_attention_patterns(*models.trial())
    models.need("transformers")
    model = models.small_bert().train(training)
    ids, seen = torch.tensor(rng.integers(0, 40, (3, 6))), torch.ones(3, 6, dtype=torch.long)
    seen[0, 4:], seen[2, 2:] = 0, 0
    given = {"input_ids": ids, "attention_mask": seen, "token_type_ids": torch.tensor(rng.integers(0, 2, (3, 6)))}
    due = oracle.attentions("small_bert", given)[1][0]
    got = student.extract_attention_patterns(model, given, 1)
    expect.close(got, due, label="layer 1", tolerance=(0.0, 1e-6))
    models.expect_mode(model, training)


@pytest.mark.check("head_analysis.extract_attention_patterns", points=0.5)
def test_extract_inner_layers_of_a_trained_bert(student):
    """the inner layers of a trained BERT are read as it computes them"""
    student.extract_attention_patterns(*models.trial())
    models.need("transformers", models.PACKAGE)
    for layer in (2, 5):  # each costs a whole run of the model
        got = student.extract_attention_patterns(models.sentence_bert().train(), models.sentence(), layer)
        expect.close(got, oracle.trained_heads()[layer], label=f"layer {layer}", tolerance=(0.0, 1e-6))


@pytest.mark.check("head_analysis.prune_heads", points=0.5)
def test_prune_any_size(student, rng):
    """pruning equals zeroing for all sizes and heads"""
    for h, d_k, count in [(2, 1, 1), (6, 2, 5), *inputs.drawn(rng, _sizes)]:
        W, gone = inputs.matrices(rng, h * d_k), [int(head) for head in rng.permutation(h)[:count]]
        x = inputs.values(rng, 1, 4, h * d_k)
        due = oracle.pruned(x, W, h, set(gone))
        small = _four(student.prune_heads(*W.values(), h, list(gone)), W, left=(h - count) * d_k)
        expect.close(oracle.multi_head(x, small, h - count)[0], due, label=f"without heads {gone} of {h}, the layer's output")


@pytest.mark.check("head_analysis.prune_heads", points=0.5)
def test_prune_none_twice_and_all(student, rng):
    """no head, one head named twice, and all heads can be removed"""
    for gone, left in [([], 12), ([2, 0, 2], 6)]:
        x, W = inputs.values(rng, 2, 3, 12), inputs.matrices(rng, 12)
        due = oracle.pruned(x, W, 4, set(gone))
        small = _four(student.prune_heads(*W.values(), 4, list(gone)), W, left=left)
        expect.close(oracle.multi_head(x, small, left // 3)[0], due, label=f"without heads {gone}, the layer's output")
    _four(student.prune_heads(*W.values(), 4, [0, 1, 2, 3]), W, left=0)


@pytest.mark.check("head_analysis.prune_heads", points=0.5)
def test_prune_edges(student, rng):
    """float32 stays, matrices are left as they were, and heads below 0 or too high are refused"""
    W = {name: matrix.astype(np.float32) for name, matrix in inputs.matrices(rng, 15).items()}
    before = {name: matrix.copy() for name, matrix in W.items()}
    _four(student.prune_heads(*W.values(), 5, [3]), W, left=12)
    for name, matrix in W.items():
        expect.unchanged(before[name], matrix, name)
    expect.value_error(lambda: student.prune_heads(*W.values(), 5, [5]), 5)
    expect.value_error(lambda: student.prune_heads(*W.values(), 5, [0, -1]), 1, 5)
    expect.value_error(lambda: student.prune_heads(*W.values(), 4, [1]), 15, 4)


def _four(got, W, left):
    """The pruned matrices by name, with `left` features."""
    d_model = len(W["W_O"])
    return {
        name: expect.array(matrix, like=W[name], shape=(left, d_model) if name == "W_O" else (d_model, left), label=name)
        for name, matrix in zip(W, expect.several(got, list(W)), strict=True)
    }


def _sizes(st):
    """Heads, features of a head, and how many heads go: not all."""
    return st.integers(2, 6).flatmap(lambda h: st.tuples(st.just(h), st.integers(1, 5), st.integers(1, h - 1)))
