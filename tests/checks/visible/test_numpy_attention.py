"""The checks of numpy_attention.py that students have. The worked example's numbers are rounded to four digits."""

from __future__ import annotations

import numpy as np
import pytest
from checks import inputs, oracle

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer

ROUNDED = (0.0, 6e-5)
X = np.array([[[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]])  # (1, 3, 4): three tokens of four features
Q = np.array([[[[1, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [0, 0]]]])  # (1, 2, 3, 2): X in two heads; K and V too
SCORES = np.array(
    [
        [
            [[0.7071, 0.0, 0.7071], [0.0, 0.7071, 0.7071], [0.7071, 0.7071, 1.4142]],
            [[0.7071, 0.0, 0.0], [0.0, 0.7071, 0.0], [0.0, 0.0, 0.0]],
        ]
    ]
)
WEIGHTS = np.array(
    [
        [
            [[0.4011, 0.1978, 0.4011], [0.1978, 0.4011, 0.4011], [0.2483, 0.2483, 0.5035]],
            [[0.5035, 0.2483, 0.2483], [0.2483, 0.5035, 0.2483], [0.3333, 0.3333, 0.3333]],
        ]
    ]
)
HEADS = np.array(
    [
        [
            [[0.8022, 0.5989], [0.5989, 0.8022], [0.7517, 0.7517]],
            [[0.5035, 0.2483], [0.2483, 0.5035], [0.3333, 0.3333]],
        ]
    ]
)
MERGED = np.array([[[0.8022, 0.5989, 0.5035, 0.2483], [0.5989, 0.8022, 0.2483, 0.5035], [0.7517, 0.7517, 0.3333, 0.3333]]])


@pytest.mark.check("numpy_attention.softmax", points=1)
def test_softmax_of_the_lesson(student):
    """softmax turns the lesson's scores into its weights"""
    expect.close(student.softmax(SCORES.copy()), WEIGHTS, label="weights", tolerance=ROUNDED)


@pytest.mark.check("numpy_attention.softmax", points=0.5)
def test_softmax_of_large_logits(student):
    """large logits give finite weights"""
    x = np.array([[1000.0, 1001.0, 998.0], [-1000.0, -1001.0, -1000.5], [400.0, 398.5, 401.0]])
    due = oracle.softmax(x)
    expect.close(student.softmax(x), due, label="weights")


@pytest.mark.check("numpy_attention.softmax", points=0.5)
def test_softmax_of_an_empty_row(student):
    """a row that is all -inf gives zeros"""
    x = np.array([[0.5, -np.inf, 1.5], [-np.inf, -np.inf, -np.inf]])
    due = oracle.softmax(x)
    expect.close(student.softmax(x), due, label="weights")


@pytest.mark.check("numpy_attention.split_heads", points=1)
def test_split_shape(student, rng):
    """split_heads gives (B, h, n, d_k)"""
    x = inputs.values(rng, 2, 3, 20)
    expect.array(student.split_heads(x, 4), like=x, shape=(2, 4, 3, 5))


@pytest.mark.check("numpy_attention.split_heads", points=1.5)
def test_split_slices(student):
    """head i holds features i*d_k .. (i+1)*d_k - 1"""
    x = inputs.labels(2, 3, 20)
    due = oracle.split_heads(x, 4)
    expect.equal(student.split_heads(x, 4), due)


@pytest.mark.check("numpy_attention.split_heads", points=0.5)
def test_split_refuses(student, rng):
    """heads that do not divide d_model are refused"""
    x = inputs.values(rng, 2, 3, 10)
    expect.value_error(lambda: student.split_heads(x, 4), 10, 4)


@pytest.mark.check("numpy_attention.attention", points=1)
def test_attention_of_the_lesson(student):
    """attention gives the lesson's weights and outputs"""
    q = Q.astype(float)
    output, weights = expect.pair(student.attention(q, q.copy(), q.copy()))
    expect.close(weights, WEIGHTS, label="weights", tolerance=ROUNDED)
    expect.close(output, HEADS, tolerance=ROUNDED)


@pytest.mark.check("numpy_attention.attention", points=1.5)
def test_attention_values(student, rng):
    """every query gets its own mixture of the values"""
    q, k, v = inputs.qkv(rng)
    due_output, due_weights = oracle.attention(q, k, v)
    output, weights = expect.pair(student.attention(q, k, v))
    expect.close(weights, due_weights, label="weights")
    expect.close(output, due_output)


@pytest.mark.check("numpy_attention.attention", points=1)
def test_attention_mask(student, rng):
    """a mask hides keys"""
    q, k, v = inputs.qkv(rng)
    mask = inputs.best_keys_mask(rng, q, k)
    due_output, due_weights = oracle.attention(q, k, v, mask)
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, label="weights")
    expect.close(output, due_output)


@pytest.mark.check("numpy_attention.attention", points=0.5)
@pytest.mark.parametrize("shape", [(4, 6), (2, 1, 1, 6)], ids=["queries and keys", "padding"])
def test_attention_mask_shape(student, rng, shape):
    """a mask of fewer axes broadcasts"""
    q, k, v = inputs.qkv(rng)
    mask = inputs.mask_of(rng, *shape)
    due_output, due_weights = oracle.attention(q, k, v, mask)
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, label="weights")
    expect.close(output, due_output)


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_hidden_row(student, rng):
    """a query that sees no key gives zeros"""
    q, k, v = inputs.qkv(rng)
    mask = inputs.best_keys_mask(rng, q, k)
    mask[1, :, 2] = True
    due_output, due_weights = oracle.attention(q, k, v, mask)
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, label="weights")
    expect.close(output, due_output)


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_leaves_its_inputs(student, rng):
    """attention leaves q, k, v and mask as they were"""
    q, k, v = inputs.qkv(rng)
    mask = inputs.best_keys_mask(rng, q, k)
    before = {"q": q.copy(), "k": k.copy(), "v": v.copy(), "mask": mask.copy()}
    output, _ = expect.pair(student.attention(q, k, v, mask))
    expect.array(output, like=q, shape=(2, 3, 4, 7))
    for name, after in {"q": q, "k": k, "v": v, "mask": mask}.items():
        expect.unchanged(before[name], after, name)


@pytest.mark.check("numpy_attention.merge_heads", points=0.5)
def test_merge_shape(student, rng):
    """merge_heads gives (B, n, h * d_v)"""
    x = inputs.values(rng, 2, 4, 3, 5)
    expect.array(student.merge_heads(x), like=x, shape=(2, 3, 20))


@pytest.mark.check("numpy_attention.merge_heads", points=1)
def test_merge_of_the_lesson(student):
    """merge_heads puts the lesson's heads side by side"""
    expect.equal(student.merge_heads(HEADS.copy()), MERGED)


@pytest.mark.check("numpy_attention.merge_heads", points=1)
def test_merge_order(student):
    """head 0's features come first in every token"""
    x = inputs.labels(2, 4, 3, 5)
    due = oracle.merge_heads(x)
    expect.equal(student.merge_heads(x), due)


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=0.5)
def test_mha_matrices(student):
    """W_Q, W_K, W_V and W_O are (d_model, d_model)"""
    mha = student.MultiHeadAttention(12, 3)
    for name in inputs.PROJECTIONS:
        expect.array(expect.attribute(mha, name), like=np.zeros((12, 12)), label=name)


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=1)
def test_mha_of_the_lesson(student):
    """identity projections give the lesson's merged output"""
    mha = student.MultiHeadAttention(4, 2)
    expect.assign(mha, {name: np.eye(4) for name in inputs.PROJECTIONS})
    output, weights = expect.pair(expect.attribute(mha, "forward", callable_=True)(X.copy()))
    expect.close(weights, WEIGHTS, label="weights", tolerance=ROUNDED)
    expect.close(output, MERGED, tolerance=ROUNDED)


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=1)
def test_mha_values(student, rng):
    """each projection does its own part"""
    x, W = inputs.values(rng, 2, 5, 12), inputs.matrices(rng, 12)
    due_output, due_weights = oracle.multi_head(x, W, 3)
    mha = student.MultiHeadAttention(12, 3)
    expect.assign(mha, W)
    output, weights = expect.pair(expect.attribute(mha, "forward", callable_=True)(x))
    expect.close(weights, due_weights, label="weights")
    expect.close(output, due_output)


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=0.5)
def test_mha_refuses(student):
    """heads that do not divide d_model are refused"""
    expect.value_error(lambda: student.MultiHeadAttention(14, 4), 14, 4)
