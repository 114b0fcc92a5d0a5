"""The checks of head_analysis.py that students have: the lesson's numbers, heads of known patterns, and models."""

from __future__ import annotations

import numpy as np
import pytest
from checks import inputs, models, oracle, torch

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer


@pytest.mark.check("head_analysis.attention_parameters", points=0.5)
@pytest.mark.parametrize(
    ("d_model", "heads", "qkv", "output"),
    [(768, 12, 1_769_472, 589_824), (1024, 16, 3_145_728, 1_048_576), (12288, 96, 452_984_832, 150_994_944)],
    ids=["BERT-Base", "BERT-Large", "GPT-3"],
)
def test_parameters_of_the_lesson(student, d_model, heads, qkv, output):
    """the parameters of known models come out"""
    expect.integers(student.attention_parameters(d_model, heads), {"qkv": qkv, "output": output})


@pytest.mark.check("head_analysis.attention_parameters", points=0.25)
def test_parameters_of_shared_heads(student):
    """shared key/value heads make W_K and W_V smaller, and only those"""
    expect.integers(student.attention_parameters(8192, 64, 8), {"qkv": 83_886_080, "output": 67_108_864})  # Llama-3-70B


@pytest.mark.check("head_analysis.attention_parameters", points=0.25)
def test_parameters_refuse(student):
    """heads that do not divide are refused"""
    expect.value_error(lambda: student.attention_parameters(14, 4), 14, 4)
    expect.value_error(lambda: student.attention_parameters(24, 6, 4), 6, 4)


@pytest.mark.check("head_analysis.attention_matrix_bytes", points=0.5)
def test_matrix_of_the_lesson(student):
    """32 heads need 8 GiB for the weights of 8,192 tokens"""
    expect.integer(student.attention_matrix_bytes(32, 8192), 8 * 2**30)


@pytest.mark.check("head_analysis.attention_entropy", points=0.5)
def test_entropy_of_even_weights(student):
    """the entropy of even weights on n keys is ln n, for each head"""
    half = np.array([[0.5, 0.5, 0.0, 0.0]]).repeat(4, 0)
    weights = np.stack([np.full((4, 4), 0.25), half, np.eye(4)])
    expect.close(student.attention_entropy(weights), np.log([4.0, 2.0, 1.0]), like=weights, label="the entropy")


@pytest.mark.check("head_analysis.attention_entropy", points=0.5)
def test_entropy_values(student, rng):
    """a head's entropy is the mean over its queries, in nats"""
    weights = inputs.rows(rng, 3, 5, 5)
    due = oracle.entropy(weights)
    expect.close(student.attention_entropy(weights), due, like=weights, label="the entropy")


@pytest.mark.check("head_analysis.attention_entropy", points=0.5)
def test_entropy_of_hidden_keys(student, rng):
    """weights that are 0 add nothing, and weights are left as they were"""
    weights = np.tril(inputs.rows(rng, 2, 6, 6))
    weights /= weights.sum(-1, keepdims=True)
    before, due = weights.copy(), oracle.entropy(weights)
    expect.close(student.attention_entropy(weights), due, like=before, label="the entropy")
    expect.unchanged(before, weights, "weights")


@pytest.mark.check("head_analysis.classify_head", points=0.75)
@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"sink": 0.8}, "attention_sink"),
        ({"previous": 0.6}, "prev_token"),
        ({"own": 0.7}, "self_attend"),
        ({"far": 0.97}, "focused"),
        ({"next": 0.5}, "broad"),
        ({"last": 0.8}, "broad"),
    ],
    ids=["sink", "previous", "own", "focused", "next token", "last token"],
)
def test_classify_pattern(student, shares, name):
    """a clear pattern gets its name"""
    expect.text(student.classify_head(inputs.head(6, **shares)), name)


@pytest.mark.check("head_analysis.classify_head", points=0.5)
@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"sink": 0.42, "previous": 0.55}, "attention_sink"),
        ({"previous": 0.35, "own": 0.6}, "prev_token"),
        ({"own": 1.0}, "self_attend"),
    ],
    ids=["sink before previous", "previous before own", "own before focused"],
)
def test_classify_order(student, shares, name):
    """the first rule that holds decides"""
    expect.text(student.classify_head(inputs.head(8, **shares)), name)


@pytest.mark.check("head_analysis.classify_head", points=0.25)
def test_classify_one_token(student):
    """a single token is a sink, and has no token before it"""
    expect.text(student.classify_head(np.ones((1, 1))), "attention_sink")


@pytest.mark.check("head_analysis.extract_attention_patterns", points=0.5)
def test_extract_first_item(student, rng):
    """the weights of the layer's heads come as a NumPy array, for the first item of the batch"""
    model, given = models.stand_in().eval(), _tokens(rng)
    due = oracle.attentions("stand_in", given)[1][0]
    expect.close(student.extract_attention_patterns(model, given, 1), due, label="layer 1")


@pytest.mark.check("head_analysis.extract_attention_patterns", points=0.5)
@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
def test_extract_keeps_the_mode(student, rng, training):
    """no weight is dropped, and the model stays in the mode that it was in"""
    model, given = models.stand_in().train(training), _tokens(rng)
    due = oracle.attentions("stand_in", given)[2][0]
    got = student.extract_attention_patterns(model, given, 2)
    expect.close(got, due, label="layer 2")
    models.expect_mode(model, training)


@pytest.mark.check("head_analysis.extract_attention_patterns", points=0.5)
def test_extract_from_a_trained_bert(student):
    """the heads of a trained BERT are read as it computes them"""
    student.extract_attention_patterns(*models.trial())
    models.need("transformers", models.PACKAGE)
    due = oracle.attentions("sentence_bert", models.sentence())[0][0]
    got = student.extract_attention_patterns(models.sentence_bert().eval(), models.sentence(), 0)
    expect.close(got, due, label="layer 0", tolerance=(0.0, 1e-6))


@pytest.mark.check("head_analysis.prune_heads", points=0.25)
def test_prune_shapes(student, rng):
    """W_Q, W_K and W_V lose columns, W_O loses rows"""
    W = inputs.matrices(rng, 20)
    _four(student.prune_heads(*W.values(), 4, [2]), W, left=15)


@pytest.mark.check("head_analysis.prune_heads", points=0.75)
@pytest.mark.parametrize("gone", [[1], [0, 2], [3, 1]], ids=["one head", "two heads", "in any order"])
def test_prune_equals_zeroing(student, rng, gone):
    """without a head the layer gives what it gives when that head's output is zero"""
    x, W = inputs.values(rng, 2, 5, 20), inputs.matrices(rng, 20)
    due, left = oracle.pruned(x, W, 4, set(gone)), 5 * (4 - len(gone))
    small = _four(student.prune_heads(*W.values(), 4, gone), W, left)
    expect.close(_output(small, x), due, label="the pruned layer's output")


@pytest.mark.check("head_analysis.prune_heads", points=0.5)
def test_prune_refuses(student, rng):
    """a head that does not exist is refused, and heads that do not divide are"""
    W = inputs.matrices(rng, 20)
    expect.value_error(lambda: student.prune_heads(*W.values(), 4, [1, 7]), 7, 4)
    expect.value_error(lambda: student.prune_heads(*W.values(), 3, [1]), 20, 3)


def _four(got, W, left):
    """The pruned matrices by name, with `left` features."""
    return {
        name: expect.array(matrix, like=W[name], shape=(left, 20) if name == "W_O" else (20, left), label=name)
        for name, matrix in zip(W, expect.several(got, list(W)), strict=True)
    }


def _output(small, x):
    """What a layer of fewer heads gives, by torch's layer of four: the heads that it lacks are zeros."""
    whole = {name: np.pad(matrix, [(0, 20 - size) for size in matrix.shape]) for name, matrix in small.items()}
    x = inputs.tensor(x)
    with torch.no_grad():
        return inputs.torch_mha(whole, 4)(x, x, x, need_weights=False)[0].numpy()


def _tokens(rng):
    """A batch of two, the second one shorter: its padding is hidden."""
    ids, seen = torch.tensor(rng.integers(1, 40, (2, 7))), torch.ones(2, 7, dtype=torch.long)
    seen[0, 5:], seen[1, 4:] = 0, 0
    return {"input_ids": ids, "attention_mask": seen}
