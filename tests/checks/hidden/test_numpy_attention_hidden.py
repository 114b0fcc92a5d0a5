"""The checks of numpy_attention.py that students don't have: fresh sizes, fresh values, the edges of each promise."""

from __future__ import annotations

import numpy as np
import pytest
from checks import inputs, oracle

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer


@pytest.mark.check("numpy_attention.softmax", points=1)
def test_softmax_any_shape(student, rng):
    """softmax runs over the last axis, whatever is before it"""
    for x in (inputs.values(rng, n, *rest) for n in (1, 5) for rest in ((), (3,), (5,), (2, 4), (3, 2, 6))):
        due = oracle.softmax(x)
        expect.close(student.softmax(x), due, like=x, label="weights")


@pytest.mark.check("numpy_attention.softmax", points=0.5)
def test_softmax_unequal_rows(student, rng):
    """rows of very different size do not disturb each other"""
    x = inputs.values(rng, 2, 4, 5)
    x[0, 1], x[0, 2], x[1, 3] = x[0, 1] + 2e4, x[0, 2] - 2e4, x[1, 3] * 1e8
    x[1, 0, 1:3] = -np.inf
    due = oracle.softmax(x)
    expect.close(student.softmax(x), due, like=x, label="weights", tolerance=(1e-10, 1e-10))


@pytest.mark.check("numpy_attention.softmax", points=0.5)
def test_softmax_dtype(student, rng):
    """softmax keeps float32 and float16, reads integers as float64 and leaves x as it was"""
    for dtype, tolerance in [(np.float32, None), (np.float16, (0.0, 2e-3))]:
        x = inputs.values(rng, 3, 5).astype(dtype)
        before, due = x.copy(), oracle.softmax(x)
        expect.close(student.softmax(x), due, like=x, label="weights", tolerance=tolerance)
        expect.unchanged(before, x, "x")
    whole = rng.integers(-3, 4, (3, 5))
    due = oracle.softmax(whole)
    expect.close(student.softmax(whole), due, label="weights")


@pytest.mark.check("numpy_attention.split_heads", points=1)
def test_split_any_size(student, rng):
    """split_heads works for all sizes, also when one is 1"""
    for B, n, h, d_k in [(1, 1, 1, 1), (3, 1, 2, 4), *inputs.drawn(rng, _four_sizes)]:
        x = inputs.values(rng, B, n, h * d_k)
        due = oracle.split_heads(x, h)
        expect.equal(student.split_heads(x, h), due, like=x)


@pytest.mark.check("numpy_attention.split_heads", points=0.5)
def test_split_strided(student, rng):
    """split_heads reads a non-contiguous x, keeps float32 and leaves x as it was"""
    x = inputs.values(rng, 12, 4, 3).astype(np.float32).T
    before, due = x.copy(), oracle.split_heads(x, 6)
    expect.equal(student.split_heads(x, 6), due, like=x)
    expect.unchanged(before, x, "x")


@pytest.mark.check("numpy_attention.split_heads", points=0.5)
def test_split_refuses(student, rng):
    """the ValueError names the sizes, also when there are more heads than features"""
    for d_model, heads in [(26, 3), (7, 14)]:
        x = inputs.values(rng, 2, 5, d_model)
        expect.value_error(lambda x=x, heads=heads: student.split_heads(x, heads), d_model, heads)


@pytest.mark.check("numpy_attention.attention", points=1.5)
def test_attention_any_size(student, rng):
    """attention is right for all sizes of n_q, n_k, d_k and d_v"""
    for n_q, n_k, d_k, d_v in [
        (5, 3, 2, 9),
        (1, 1, 1, 1),
        (1, 7, 1, 3),
        *inputs.drawn(rng, _four_sizes, count=3),
    ]:
        q, k, v = inputs.qkv(rng, (2, 3), n_q, n_k, d_k, d_v)
        due_output, due_weights = oracle.attention(q, k, v)
        output, weights = expect.pair(student.attention(q, k, v))
        expect.close(weights, due_weights, like=q, label="weights")
        expect.close(output, due_output, like=q)


@pytest.mark.check("numpy_attention.attention", points=1)
def test_attention_mask_shape(student, rng):
    """a mask of any shape that broadcasts hides the right keys"""
    for shape in [(5,), (1, 3, 1, 5), (4, 1, 3, 5), (3, 3, 5), (4, 3, 3, 1)]:
        q, k, v = inputs.qkv(rng, (4, 3), n_q=3, n_k=5, d_k=8, d_v=2)
        mask = inputs.mask_of(rng, *shape)
        due_output, due_weights = oracle.attention(q, k, v, mask)
        output, weights = expect.pair(student.attention(q, k, v, mask=mask))
        expect.close(weights, due_weights, like=q, label=f"with a mask of shape {shape}, weights")
        expect.close(output, due_output, like=q, label=f"with a mask of shape {shape}, output")


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_leading_axes(student, rng):
    """attention works under any leading axes"""
    for lead in [(), (3,), (2, 1, 3)]:
        q, k, v = inputs.qkv(rng, lead)
        mask = inputs.best_keys_mask(rng, q, k)
        due_output, due_weights = oracle.attention(q, k, v, mask)
        output, weights = expect.pair(student.attention(q, k, v, mask))
        expect.close(weights, due_weights, like=q, label=f"for q of shape {q.shape}, weights")
        expect.close(output, due_output, like=q, label=f"for q of shape {q.shape}, output")


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_extreme_logits(student, rng):
    """hidden keys stay hidden and weights finite when scores are huge"""
    q, k, v = inputs.qkv(rng)
    q, mask = inputs.extreme(rng, q, k)
    due_output, due_weights = oracle.attention(q, k, v, mask)
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, like=q, label="weights", tolerance=(1e-9, 1e-9))
    expect.close(output, due_output, like=q, tolerance=(1e-9, 1e-9))


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_hidden_sentence(student, rng):
    """a sentence of padding alone gives zeros"""
    q, k, v = inputs.qkv(rng)
    mask = np.array([True, False]).reshape(2, 1, 1, 1)
    due_output, due_weights = oracle.attention(q, k, v, mask)
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_dtype(student, rng):
    """float32 stays float32, under a mask too, float16 stays float16, and integers count as float64"""
    arrays, mask = inputs.qkv(rng), inputs.mask_of(rng, 4, 6)
    q, k, v = (x.astype(np.float32) for x in arrays)
    for hidden in (None, mask):
        due_output, due_weights = oracle.attention(q, k, v, hidden)
        output, weights = expect.pair(student.attention(q, k, v, hidden))
        expect.close(weights, due_weights, like=q, label="weights")
        expect.close(output, due_output, like=q)
    q, k, v = (x.astype(np.float16) for x in arrays)
    dues, plain = oracle.attention(q, k, v), _plain(q, k, v)
    answers = expect.pair(student.attention(q, k, v))
    for got, due, lowprec, label in zip(answers, dues, plain, ("output", "weights"), strict=True):
        expect.half(got, due, lowprec, label=label)
    q, k, v = (rng.integers(-2, 3, size) for size in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))
    due_output, due_weights = oracle.attention(q, k, v)
    output, weights = expect.pair(student.attention(q, k, v))
    expect.close(weights, due_weights, label="weights")
    expect.close(output, due_output)


@pytest.mark.check("numpy_attention.attention", points=0.5)
def test_attention_strided(student, rng):
    """non-contiguous q, k, v and an expanded mask are read right and left as they were"""
    q, k, v = (x.transpose(0, 2, 1, 3) for x in inputs.qkv(rng, (2, 4), n_q=3, n_k=3))  # (2, 3, 4, d)
    mask = np.broadcast_to(inputs.mask_of(rng, 2, 1, 1, 4), (2, 3, 4, 4))
    before = {"q": q.copy(), "k": k.copy(), "v": v.copy(), "mask": mask.copy()}
    due_output, due_weights = oracle.attention(*before.values())
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)
    for name, after in {"q": q, "k": k, "v": v, "mask": mask}.items():
        expect.unchanged(before[name], after, name)


@pytest.mark.check("numpy_attention.merge_heads", points=1.5)
def test_merge_any_size(student, rng):
    """merge_heads works for all sizes, also when one is 1"""
    for B, h, n, d_v in [(1, 1, 1, 1), (2, 3, 1, 4), *inputs.drawn(rng, _four_sizes)]:
        x = inputs.values(rng, B, h, n, d_v)
        due = oracle.merge_heads(x)
        expect.equal(student.merge_heads(x), due, like=x)


@pytest.mark.check("numpy_attention.merge_heads", points=1)
def test_merge_strided(student, rng):
    """merge_heads reads a non-contiguous x, keeps float32 and leaves x as it was"""
    x = inputs.values(rng, 2, 5, 3, 4).astype(np.float32).transpose(0, 2, 1, 3)
    before, due = x.copy(), oracle.merge_heads(x)
    expect.equal(student.merge_heads(x), due, like=x)
    expect.unchanged(before, x, "x")


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=1)
def test_mha_mask(student, rng):
    """a mask hides keys from every head it broadcasts to, and is forgotten after the call"""
    mha = student.MultiHeadAttention(14, 2)
    for shape in [(5, 5), (3, 1, 1, 5), (3, 2, 5, 5)]:
        x, W = inputs.values(rng, 3, 5, 14), inputs.matrices(rng, 14)
        expect.assign(mha, {name: matrix.copy() for name, matrix in W.items()})
        mask = inputs.mask_of(rng, *shape)
        mask.flat[: shape[-1]] = True  # somebody sees nothing at all
        due_output, due_weights = oracle.multi_head(x, W, 2, mask)
        output, weights = expect.pair(expect.attribute(mha, "forward", callable_=True)(x, mask=mask))
        expect.close(weights, due_weights, like=x, label=f"with a mask of shape {shape}, weights")
        expect.close(output, due_output, like=x, label=f"with a mask of shape {shape}, output")
    x = inputs.values(rng, 3, 5, 14)
    due_output, _ = oracle.multi_head(x, W, 2)
    output, _ = expect.pair(mha.forward(x))
    expect.close(output, due_output, like=due_output, label="without a mask, after calls with one, output")


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=1)
def test_mha_own_matrices(student, rng):
    """the four matrices are drawn from rng, scaled, differ, and come into the answer"""
    mha, twin = (student.MultiHeadAttention(15, 5, rng=np.random.default_rng(7)) for _ in range(2))
    other = student.MultiHeadAttention(15, 3, rng=np.random.default_rng(8))
    W = {name: expect.attribute(mha, name) for name in inputs.PROJECTIONS}
    for name, matrix in W.items():
        expect.varied(expect.array(matrix, like=np.zeros((15, 15)), label=name), name)
        expect.equal(expect.attribute(twin, name), matrix, label=f"{name} of a second object with an equal rng")
        if np.array_equal(matrix, expect.array(expect.attribute(other, name), like=matrix, label=name)):
            expect.fail(f"{name} is the same with another rng: draw it from the rng that is given")
        size, due = float(np.sqrt(np.mean(np.square(matrix)))), 15**-0.5
        if not 0.4 * due < size < 2 * due:  # a uniform draw has 0.6 of a normal one's
            expect.fail(f"the entries of {name} have size {size:.2g}, due was about {due:.2g}: scale them by 1 / sqrt(d_model)")
    if len({matrix.tobytes() for matrix in W.values()}) < 4:
        expect.fail("two of the four matrices are equal: each is drawn on its own")
    free, again = (expect.attribute(student.MultiHeadAttention(15, 5), "W_Q") for _ in range(2))
    if np.array_equal(free, again):
        expect.fail("two objects that were given no rng hold the same W_Q: draw it from a fresh np.random.default_rng()")
    x = inputs.values(rng, 2, 4, 15)
    due_output, due_weights = oracle.multi_head(x, W, 5)
    output, weights = expect.pair(expect.attribute(mha, "forward", callable_=True)(x))
    expect.close(weights, due_weights, like=x, label="weights")
    expect.close(output, due_output, like=x)


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=0.5)
def test_mha_dtype(student, rng):
    """float32 in and float32 matrices give float32, for one token alone, and for one head under a mask"""
    for n, heads, mask in [(1, 2, None), (3, 1, inputs.mask_of(rng, 3, 3))]:
        x = inputs.values(rng, 1, n, 6).astype(np.float32)
        mha = student.MultiHeadAttention(6, heads)
        expect.assign(mha, {name: W.astype(np.float32) for name, W in inputs.matrices(rng, 6).items()})
        output, weights = expect.pair(expect.attribute(mha, "forward", callable_=True)(x, mask))
        expect.array(weights, like=x, shape=(1, heads, n, n), label="weights")
        expect.array(output, like=x, shape=(1, n, 6))


@pytest.mark.check("numpy_attention.MultiHeadAttention", points=0.5)
def test_mha_leaves_its_inputs(student, rng):
    """forward leaves x, the mask and the matrices as they were"""
    W = inputs.matrices(rng, 12)
    x, mask = inputs.values(rng, 2, 4, 12), inputs.mask_of(rng, 4, 4)
    mha = student.MultiHeadAttention(12, 3)
    expect.assign(mha, {name: matrix.copy() for name, matrix in W.items()})
    before = {"x": x.copy(), "mask": mask.copy()}
    due, _ = oracle.multi_head(x, W, 3, mask)
    forward = expect.attribute(mha, "forward", callable_=True)
    first, second = expect.pair(forward(x, mask)), expect.pair(forward(x, mask))
    expect.unchanged(before["x"], x, "x")
    expect.unchanged(before["mask"], mask, "mask")
    for name, matrix in W.items():
        expect.equal(expect.attribute(mha, name), matrix, label=f"{name} after forward")
    expect.close(first[0], due, like=x)
    expect.close(second[0], due, like=x, label="the output of a second call")


def _plain(q, k, v):
    """The formula as it stands, rounded by NumPy after every step in the inputs' own dtype."""
    scores = q @ k.swapaxes(-2, -1) / q.dtype.type(q.shape[-1] ** 0.5)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def _four_sizes(st):
    return st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(2, 5), st.integers(1, 6))
