"""The checks of torch_attention.py that students have."""

from __future__ import annotations

import pytest
from checks import F, inputs, oracle, torch

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer

PROJECTED = (1e-5, 1e-5)  # float32 sums of d_model products come before and after the attention's own


@pytest.mark.check("torch_attention.split_heads", points=0.5)
def test_split_shape(student, rng):
    """split_heads gives (B, h, n, d_k)"""
    x = inputs.tensor(inputs.values(rng, 2, 3, 20), "float32")
    expect.array(student.split_heads(x, 4), like=x, shape=(2, 4, 3, 5))


@pytest.mark.check("torch_attention.split_heads", points=0.5)
def test_split_slices(student):
    """head i holds features i*d_k .. (i+1)*d_k - 1"""
    x = inputs.labels(2, 3, 20)
    due = inputs.tensor(oracle.split_heads(x, 4))
    expect.equal(student.split_heads(inputs.tensor(x), 4), due)


@pytest.mark.check("torch_attention.split_heads", points=0.5)
def test_split_refuses(student, rng):
    """heads that do not divide d_model are refused"""
    x = inputs.tensor(inputs.values(rng, 2, 3, 10))
    expect.value_error(lambda: student.split_heads(x, 4), 10, 4)


@pytest.mark.check("torch_attention.attention", points=1)
def test_attention_values(student, rng):
    """every query gets its own mixture of the values"""
    q, k, v = inputs.tensors(*inputs.qkv(rng), dtype="float32")
    due_output, due_weights = oracle.attention(*inputs.doubles(q, k, v))
    output, weights = expect.pair(student.attention(q, k, v))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_mask(student, rng):
    """a mask hides keys"""
    arrays = inputs.qkv(rng)
    mask = inputs.best_keys_mask(rng, *arrays[:2])
    q, k, v = inputs.tensors(*arrays)
    due_output, due_weights = oracle.attention(*arrays, mask)
    output, weights = expect.pair(student.attention(q, k, v, inputs.tensor(mask)))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("torch_attention.attention", points=0.5)
@pytest.mark.parametrize("shape", [(4, 6), (2, 1, 1, 6)], ids=["queries and keys", "padding"])
def test_attention_mask_shape(student, rng, shape):
    """a mask of fewer axes broadcasts"""
    arrays, mask = inputs.qkv(rng), inputs.mask_of(rng, *shape)
    q, k, v = inputs.tensors(*arrays)
    due_output, due_weights = oracle.attention(*arrays, mask)
    output, weights = expect.pair(student.attention(q, k, v, inputs.tensor(mask)))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_hidden_row(student, rng):
    """a query that sees no key gives zeros"""
    arrays = inputs.qkv(rng)
    mask = inputs.best_keys_mask(rng, *arrays[:2])
    mask[1, :, 2] = True
    q, k, v = inputs.tensors(*arrays, dtype="float32")
    due_output, due_weights = oracle.attention(*inputs.doubles(q, k, v), mask)
    output, weights = expect.pair(student.attention(q, k, v, inputs.tensor(mask)))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_gradient(student, rng):
    """gradients flow to q, k and v"""
    arrays, upstream = inputs.qkv(rng), inputs.tensor(inputs.values(rng, 2, 3, 4, 7))
    due = inputs.gradients(F.scaled_dot_product_attention, arrays, upstream)
    q, k, v = inputs.tensors(*arrays, grad=True)
    output, _ = expect.pair(student.attention(q, k, v))
    expect.array(output, like=q, shape=(2, 3, 4, 7))
    found = expect.gradients(output, upstream, {"q": q, "k": k, "v": v})
    for (name, gradient), wanted in zip(found.items(), due, strict=True):
        expect.close(gradient, wanted, label=f"the gradient of {name}")


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_leaves_its_inputs(student, rng):
    """attention leaves q, k, v and mask as they were"""
    q, k, v = inputs.tensors(*inputs.qkv(rng))
    mask = inputs.tensor(inputs.mask_of(rng, 4, 6))
    given = {"q": q, "k": k, "v": v, "mask": mask}
    before = {name: x.clone() for name, x in given.items()}
    output, _ = expect.pair(student.attention(q, k, v, mask))
    expect.array(output, like=q, shape=(2, 3, 4, 7))
    for name, after in given.items():
        expect.unchanged(before[name], after, name)


@pytest.mark.check("torch_attention.merge_heads", points=0.5)
def test_merge_shape(student, rng):
    """merge_heads gives (B, n, h * d_v)"""
    x = inputs.tensor(inputs.values(rng, 2, 4, 3, 5), "float32")
    expect.array(student.merge_heads(x), like=x, shape=(2, 3, 20))


@pytest.mark.check("torch_attention.merge_heads", points=1)
def test_merge_order(student):
    """head 0's features come first in every token"""
    x = inputs.labels(2, 4, 3, 5)
    due = inputs.tensor(oracle.merge_heads(x))
    expect.equal(student.merge_heads(inputs.tensor(x)), due)


@pytest.mark.check("torch_attention.causal_mask", points=1)
def test_causal_square(student):
    """a token does not see the tokens after it"""
    expect.equal(student.causal_mask(5), inputs.tensor(oracle.causal(5, 5)), label="mask")


@pytest.mark.check("torch_attention.causal_mask", points=1)
def test_causal_wide(student):
    """the last query sees every key"""
    expect.equal(student.causal_mask(2, 5), inputs.tensor(oracle.causal(2, 5)), label="mask")


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_parameters(student):
    """the parameters are W_Q, W_K, W_V and W_O, without biases"""
    mha = student.MultiHeadAttention(12, 3)
    expect.module(mha, {f"{name}.weight": (12, 12) for name in inputs.PROJECTIONS})


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_values(student, rng):
    """each projection does its own part"""
    x, W = inputs.tensor(inputs.values(rng, 2, 5, 12), "float32"), inputs.matrices(rng, 12)
    mha = _with(W, student.MultiHeadAttention(12, 3), "float32")
    due_output, due_weights = oracle.multi_head(*inputs.doubles(x), W, 3)
    output, weights = expect.pair(mha(x))
    expect.close(weights, due_weights, like=x, label="weights", tolerance=PROJECTED)
    expect.close(output, due_output, like=x, tolerance=PROJECTED)


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_as_torch(student, rng):
    """nn.MultiheadAttention with the same weights and mask gives the same"""
    x, W = inputs.tensor(inputs.values(rng, 2, 5, 12)), inputs.matrices(rng, 12)
    mask = inputs.tensor(oracle.causal(5, 5))
    with torch.no_grad():
        due_output, due_weights = inputs.torch_mha(W, 3)(x, x, x, attn_mask=mask, average_attn_weights=False)
    mha = _with(W, student.MultiHeadAttention(12, 3), "float64")
    output, weights = expect.pair(mha(x, mask))
    expect.close(weights, due_weights, like=x, label="weights")
    expect.close(output, due_output, like=x)


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_eval(student, rng):
    """dropout rests in eval mode"""
    x, W = inputs.tensor(inputs.values(rng, 2, 5, 12)), inputs.matrices(rng, 12)
    mha = _with(W, student.MultiHeadAttention(12, 3, dropout=0.5), "float64")
    due_output, due_weights = oracle.multi_head(*inputs.doubles(x), W, 3)
    output, weights = expect.pair(mha.eval()(x))
    expect.close(weights, due_weights, like=x, label="weights")
    expect.close(output, due_output, like=x)


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_refuses(student):
    """heads that do not divide d_model are refused"""
    expect.value_error(lambda: student.MultiHeadAttention(14, 4), 14, 4)


@pytest.mark.check("torch_attention.efficient_mha", points=0.5)
def test_efficient_values(student, rng):
    """efficient_mha gives attention's output"""
    q, k, v = inputs.tensors(*inputs.qkv(rng), dtype="float32")
    due, _ = oracle.attention(*inputs.doubles(q, k, v))
    expect.close(student.efficient_mha(q, k, v), due, like=q)


@pytest.mark.check("torch_attention.efficient_mha", points=1)
def test_efficient_mask(student, rng):
    """True in the mask still means hidden"""
    arrays = inputs.qkv(rng)
    mask = inputs.best_keys_mask(rng, *arrays[:2])
    q, k, v = inputs.tensors(*arrays)
    due, _ = oracle.attention(*arrays, mask)
    expect.close(student.efficient_mha(q, k, v, mask=inputs.tensor(mask)), due, like=q)


@pytest.mark.check("torch_attention.efficient_mha", points=0.5)
def test_efficient_causal(student, rng):
    """is_causal hides the future"""
    arrays = inputs.qkv(rng, n_q=5, n_k=5)
    q, k, v = inputs.tensors(*arrays)
    due, _ = oracle.attention(*arrays, oracle.causal(5, 5))
    expect.close(student.efficient_mha(q, k, v, is_causal=True), due, like=q)


@pytest.mark.check("torch_attention.efficient_mha", points=1)
def test_efficient_causal_with_cache(student, rng):
    """with fewer queries than keys the last query sees every key"""
    arrays = inputs.qkv(rng, n_q=2, n_k=5)
    q, k, v = inputs.tensors(*arrays)
    due, _ = oracle.attention(*arrays, oracle.causal(2, 5))
    expect.close(student.efficient_mha(q, k, v, is_causal=True), due, like=q)


def _with(W, mha, dtype):
    """The module with these matrices."""
    expect.module(mha, {f"{name}.weight": (12, 12) for name in W})
    inputs.load(mha.to(getattr(torch, dtype)), W)
    return mha
