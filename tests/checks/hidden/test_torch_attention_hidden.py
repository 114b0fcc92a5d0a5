"""The checks of torch_attention.py that students don't have: fresh sizes, every dtype, gradients, kernels, dropout."""

from __future__ import annotations

import pytest
from checks import F, inputs, kernels, oracle, torch

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer

DTYPES = ["float32", "float64", "float16", "bfloat16"]
TWO_ROUNDINGS = {"float32": (2e-5, 2e-6), "float64": (2e-12, 2e-12)}  # the kernel's and the student's


@pytest.mark.check("torch_attention.split_heads", points=0.5)
def test_split_any_size(student, rng):
    """split_heads works for all sizes, also when one is 1"""
    for B, n, h, d_k in [(1, 1, 1, 1), (3, 1, 2, 4), *inputs.drawn(rng, _four_sizes, count=3)]:
        x = inputs.values(rng, B, n, h * d_k)
        due = inputs.tensor(oracle.split_heads(x, h))
        expect.equal(student.split_heads(inputs.tensor(x), h), due)


@pytest.mark.check("torch_attention.split_heads", points=0.5)
def test_split_strided(student, rng):
    """split_heads reads a non-contiguous x, keeps bfloat16 and leaves x as it was"""
    x = inputs.tensor(inputs.values(rng, 12, 4, 3), "bfloat16").permute(2, 1, 0)
    before, due = x.clone(), oracle.split_heads(*inputs.doubles(x), 6)
    expect.equal(student.split_heads(x, 6), due, like=x)
    expect.unchanged(before, x, "x")


@pytest.mark.check("torch_attention.split_heads", points=0.5)
def test_split_gradient(student, rng):
    """a gradient goes back to the feature that it belongs to, and 27 features in 4 heads are refused"""
    x, upstream = inputs.tensor(inputs.labels(2, 3, 12), grad=True), inputs.values(rng, 2, 4, 3, 3)
    due, back = oracle.split_heads(*inputs.doubles(x), 4), inputs.tensor(oracle.merge_heads(upstream))
    output = expect.equal(student.split_heads(x, 4), due, like=x)
    found = expect.gradients(output, inputs.tensor(upstream), {"x": x})
    expect.equal(found["x"], back, label="the gradient of x")
    expect.value_error(lambda: student.split_heads(inputs.tensor(inputs.values(rng, 1, 2, 27)), 4), 27, 4)


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_mask_shape(student, rng):
    """a mask of any shape that broadcasts hides the right keys"""
    arrays = inputs.qkv(rng, (4, 3), n_q=3, n_k=5, d_k=8, d_v=2)
    for shape in [(5,), (1, 3, 1, 5), (4, 1, 3, 5), (3, 3, 5), (4, 3, 3, 1)]:
        mask = inputs.mask_of(rng, *shape)
        q, k, v = inputs.tensors(*arrays)
        due_output, due_weights = oracle.attention(*arrays, mask)
        output, weights = expect.pair(student.attention(q, k, v, mask=inputs.tensor(mask)))
        expect.close(weights, due_weights, like=q, label=f"with a mask of shape {shape}, weights")
        expect.close(output, due_output, like=q, label=f"with a mask of shape {shape}, output")


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_leading_axes(student, rng):
    """attention works under any leading axes"""
    for lead in [(), (3,), (2, 1, 3)]:
        arrays = inputs.qkv(rng, lead)
        mask = inputs.best_keys_mask(rng, *arrays[:2])
        q, k, v = inputs.tensors(*arrays)
        due_output, due_weights = oracle.attention(*arrays, mask)
        output, weights = expect.pair(student.attention(q, k, v, inputs.tensor(mask)))
        expect.close(weights, due_weights, like=q, label=f"for q of shape {tuple(q.shape)}, weights")
        expect.close(output, due_output, like=q, label=f"for q of shape {tuple(q.shape)}, output")


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_any_size(student, rng):
    """attention is right for all sizes of n_q, n_k, d_k and d_v"""
    for n_q, n_k, d_k, d_v in [
        (5, 3, 2, 9),
        (1, 1, 1, 1),
        (1, 7, 1, 3),
        *inputs.drawn(rng, _four_sizes, count=3),
    ]:
        arrays = inputs.qkv(rng, (2, 3), n_q, n_k, d_k, d_v)
        q, k, v = inputs.tensors(*arrays)
        due_output, due_weights = oracle.attention(*arrays)
        output, weights = expect.pair(student.attention(q, k, v))
        expect.close(weights, due_weights, like=q, label="weights")
        expect.close(output, due_output, like=q)


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_extreme_logits(student, rng):
    """hidden keys stay hidden and weights finite when scores are huge"""
    q, k, v = inputs.qkv(rng)
    q, mask = inputs.extreme(rng, q, k)
    due_output, due_weights = oracle.attention(q, k, v, mask)
    output, weights = expect.pair(student.attention(*inputs.tensors(q, k, v, mask)))
    expect.close(weights, due_weights, like=inputs.tensor(q), label="weights", tolerance=(1e-9, 1e-9))
    expect.close(output, due_output, like=inputs.tensor(q), tolerance=(1e-9, 1e-9))


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_gradient_past_a_mask(student, rng):
    """no gradient comes through hidden keys, and all of it through the others"""
    arrays, mask = inputs.qkv(rng), inputs.mask_of(rng, 2, 1, 4, 6)
    upstream, seen = inputs.tensor(inputs.values(rng, 2, 3, 4, 7)), inputs.tensor(~mask)
    due, _ = oracle.attention(*arrays, mask)
    back = inputs.gradients(lambda *qkv: F.scaled_dot_product_attention(*qkv, attn_mask=seen), arrays, upstream)
    q, k, v = inputs.tensors(*arrays, grad=True)
    output, _ = expect.pair(student.attention(q, k, v, inputs.tensor(mask)))
    expect.close(output, due, like=q)
    found = expect.gradients(output, upstream, {"q": q, "k": k, "v": v})
    for (name, gradient), wanted in zip(found.items(), back, strict=True):
        expect.close(gradient, wanted, label=f"the gradient of {name}")


@pytest.mark.check("torch_attention.attention", points=0.5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_as_kernels(student, rng, dtype):
    """torch's own kernels give the same output"""
    q, k, v = inputs.tensors(*inputs.qkv(rng, d_v=5), dtype=dtype)
    mask = inputs.mask_of(rng, 2, 3, 4, 6)
    mask[0, 0, 1] = True
    mask = inputs.tensor(mask)
    dues = [kernels.kernel(kernel, q, k, v, attn_mask=~mask) for kernel in ("MATH", "FLASH_ATTENTION")]
    lowprec, _ = kernels.plain_attention(q, k, v, mask)
    output, _ = expect.pair(student.attention(q, k, v, mask))
    for due in dues:
        if dtype in TWO_ROUNDINGS:
            expect.close(output, due, like=q, tolerance=TWO_ROUNDINGS[dtype])
        else:
            expect.half(output, due, lowprec, fudge=10)  # two roundings here too


@pytest.mark.check("torch_attention.attention", points=0.5)
def test_attention_strided(student, rng):
    """non-contiguous q, k, v and an expanded mask are read right and left as they were"""
    q, k, v = (x.transpose(1, 2) for x in inputs.tensors(*inputs.qkv(rng, (2, 4), n_q=3, n_k=3)))  # (2, 3, 4, d)
    mask = inputs.tensor(inputs.mask_of(rng, 2, 1, 1, 4)).expand(2, 3, 4, 4)
    given = {"q": q, "k": k, "v": v, "mask": mask}
    before = {name: x.clone() for name, x in given.items()}
    due_output, due_weights = oracle.attention(*inputs.doubles(q, k, v), mask.numpy())
    output, weights = expect.pair(student.attention(q, k, v, mask))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)
    for name, after in given.items():
        expect.unchanged(before[name], after, name)


@pytest.mark.check("torch_attention.merge_heads", points=0.5)
def test_merge_any_size(student, rng):
    """merge_heads works for all sizes, also when one is 1"""
    for B, h, n, d_v in [(1, 1, 1, 1), (2, 3, 1, 4), *inputs.drawn(rng, _four_sizes, count=3)]:
        x = inputs.values(rng, B, h, n, d_v)
        due = inputs.tensor(oracle.merge_heads(x))
        expect.equal(student.merge_heads(inputs.tensor(x)), due)


@pytest.mark.check("torch_attention.merge_heads", points=0.5)
def test_merge_strided(student, rng):
    """merge_heads reads a non-contiguous x, keeps float16 and leaves x as it was"""
    x = inputs.tensor(inputs.values(rng, 2, 5, 3, 4), "float16").transpose(1, 2)
    before, due = x.clone(), oracle.merge_heads(*inputs.doubles(x))
    expect.equal(student.merge_heads(x), due, like=x)
    expect.unchanged(before, x, "x")


@pytest.mark.check("torch_attention.merge_heads", points=0.5)
def test_merge_gradient(student, rng):
    """a gradient goes back to the head that it belongs to"""
    x, upstream = inputs.tensor(inputs.labels(2, 4, 3, 5), grad=True), inputs.values(rng, 2, 3, 20)
    due, back = oracle.merge_heads(*inputs.doubles(x)), inputs.tensor(oracle.split_heads(upstream, 4))
    output = expect.equal(student.merge_heads(x), due, like=x)
    found = expect.gradients(output, inputs.tensor(upstream), {"x": x})
    expect.equal(found["x"], back, label="the gradient of x")


@pytest.mark.check("torch_attention.causal_mask", points=1)
def test_causal_any_size(student, rng):
    """causal_mask is right for all sizes, also 1"""
    for n_q, more in [
        (1, 0),
        (1, 6),
        (4, 1),
        *inputs.drawn(rng, lambda st: st.tuples(st.integers(1, 6), st.integers(0, 6))),
    ]:
        due = inputs.tensor(oracle.causal(n_q, n_q + more))
        expect.equal(student.causal_mask(n_q, n_q + more), due, label="mask")
        expect.equal(student.causal_mask(n_q, n_k=None), due[:, more:], label="mask")


@pytest.mark.check("torch_attention.causal_mask", points=1)
def test_causal_device(student):
    """the mask is made on the device asked for"""
    for device in ("cpu", "meta"):
        due = torch.empty((3, 4), dtype=torch.bool, device=device)
        expect.array(student.causal_mask(3, 4, device=torch.device(device)), like=due, label="mask")
    expect.equal(student.causal_mask(3, 4, device="cpu"), inputs.tensor(oracle.causal(3, 4)), label="mask")


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_mask(student, rng):
    """a mask hides keys from every head it broadcasts to, is left as it was and is forgotten after the call"""
    W, x = inputs.matrices(rng, 14), inputs.values(rng, 3, 5, 14)
    mha = _double(student.MultiHeadAttention(14, 2), W)
    for shape in [(5, 5), (3, 1, 1, 5), (3, 2, 5, 5)]:
        mask = inputs.mask_of(rng, *shape)
        mask.flat[: shape[-1]] = True  # somebody sees nothing at all
        due_output, due_weights = oracle.multi_head(x, W, 2, mask)
        tokens, hidden = inputs.tensors(x, mask)
        output, weights = expect.pair(mha(tokens, mask=hidden))
        expect.close(weights, due_weights, like=tokens, label=f"with a mask of shape {shape}, weights")
        expect.close(output, due_output, like=tokens, label=f"with a mask of shape {shape}, output")
        expect.unchanged(inputs.tensor(mask), hidden, "mask")
        expect.unchanged(inputs.tensor(x), tokens, "x")
    due_output, _ = oracle.multi_head(x, W, 2)
    output, _ = expect.pair(mha(inputs.tensor(x)))
    expect.close(output, due_output, like=inputs.tensor(x), label="without a mask, after calls with one, output")


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_gradient(student, rng):
    """gradients flow to x and to all four projections, past a mask too"""
    W, upstream = inputs.matrices(rng, 15), inputs.tensor(inputs.values(rng, 2, 4, 15))
    array, reference = inputs.values(rng, 2, 4, 15), inputs.torch_mha(W, 5)
    x, mha = inputs.tensor(array, grad=True), _double(student.MultiHeadAttention(15, 5), W)
    given = {"x": x, **{f"{name}.weight": mha.get_parameter(f"{name}.weight") for name in W}}
    for mask, where in [(None, ""), (inputs.tensor(inputs.mask_of(rng, 4, 4)), " with a mask")]:
        own = inputs.tensor(array, grad=True)
        sent_back = (reference(own, own, own, attn_mask=mask)[0] * upstream).sum()
        due = torch.autograd.grad(sent_back, [own, *reference.parameters()])
        output, _ = expect.pair(mha(x) if mask is None else mha(x, mask))
        expect.array(output, like=x, shape=(2, 4, 15))
        found = expect.gradients(output, upstream, given)
        for (name, gradient), wanted in zip(found.items(), [due[0], *due[1].chunk(3), due[2]], strict=True):
            expect.close(gradient, wanted, label=f"the gradient of {name}{where}", tolerance=(1e-11, 1e-11))


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_dropout(student, rng):
    """dropout drops single weights in training, and scales up the rest"""
    x = inputs.tensor(inputs.values(rng, 1, 4, 16))
    W = inputs.matrices(rng, 16)
    values = torch.eye(4, dtype=torch.double).repeat(1, 4)  # V of both heads: every weight comes out, twice
    W["W_V"], W["W_O"] = (torch.linalg.pinv(x[0]) @ values).numpy(), torch.eye(16).double().numpy()
    _, weights = oracle.multi_head(*inputs.doubles(x), W, 2)
    due = inputs.tensor(weights)[0].transpose(0, 1) / 0.7
    mha = _double(student.MultiHeadAttention(16, 2, dropout=0.3), W)
    output, _ = expect.pair(mha.train()(x))
    expect.array(output, like=x, shape=(1, 4, 16))
    first, again = output.detach().reshape(4, 2, 2, 4).transpose(1, 2).unbind(1)  # each (4, 2, 4): query, head, key
    kept = first > due / 2
    expect.close(again, first, label="the weight that reaches a value's other features", tolerance=(0, 1e-9))
    expect.close(first, due * kept, label="the weight that reaches the values", tolerance=(0, 1e-9))
    if kept.all() or not kept.any():
        expect.fail("with dropout=0.3 in training, " + ("no weight" if kept.all() else "every weight") + " was dropped")


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_state(student, rng):
    """state_dict holds the four matrices alone, float32 stays float32 for one token, and bfloat16 for one head"""
    mha, x = student.MultiHeadAttention(27, 3), inputs.tensor(inputs.values(rng, 1, 1, 27), "float32")
    W = expect.module(mha, {f"{name}.weight": (27, 27) for name in inputs.PROJECTIONS})
    if extra := sorted(set(mha.state_dict()) - set(W)):
        expect.fail(f"state_dict() holds {', '.join(extra)} besides the four matrices: persistent=False keeps a buffer out")
    for name, w in W.items():
        expect.varied(w, name)
    matrices = {name.partition(".")[0]: w.detach().double().numpy().T for name, w in W.items()}
    due_output, due_weights = oracle.multi_head(*inputs.doubles(x), matrices, 3)
    output, weights = expect.pair(mha(x))
    expect.close(weights, due_weights, like=x, label="weights")
    expect.close(output, due_output, like=x, tolerance=(1e-5, 1e-5))
    expect.value_error(lambda: student.MultiHeadAttention(27, 4), 27, 4)
    mha, x = student.MultiHeadAttention(27, 1), inputs.tensor(inputs.values(rng, 2, 3, 27), "bfloat16")
    expect.module(mha, dict.fromkeys(W, (27, 27)))
    output, weights = expect.pair(mha.bfloat16()(x, inputs.tensor(inputs.mask_of(rng, 3, 3))))
    expect.array(weights, like=x, shape=(2, 1, 3, 3), label="weights")
    expect.array(output, like=x)


@pytest.mark.check("torch_attention.MultiHeadAttention", points=0.5)
def test_mha_padding_as_torch(student, rng):
    """padding as nn.MultiheadAttention's key_padding_mask, in a model of other sizes"""
    x, W = inputs.tensor(inputs.values(rng, 3, 4, 10)), inputs.matrices(rng, 10)
    padding = inputs.tensor(inputs.mask_of(rng, 3, 4))
    padding[:, 1] = False
    with torch.no_grad():
        due = inputs.torch_mha(W, 5)(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    mha = _double(student.MultiHeadAttention(10, 5), W)
    output, weights = expect.pair(mha(x, padding[:, None, None]))
    expect.close(weights, due[1], like=x, label="weights")
    expect.close(output, due[0], like=x)


@pytest.mark.check("torch_attention.efficient_mha", points=0.5)
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (3, 7)], ids=["square", "with a cache"])
def test_efficient_mask_and_causal(student, rng, n_q, n_k):
    """a key is hidden when the mask or is_causal hides it, and none from a last query alone"""
    arrays, mask = inputs.qkv(rng, n_q=n_q, n_k=n_k), inputs.mask_of(rng, 2, 1, n_q, n_k)
    mask[0, 0, 0], mask[1, 0, 1, 0] = True, True
    q, k, v = inputs.tensors(*arrays)
    due, _ = oracle.attention(*arrays, mask | oracle.causal(n_q, n_k))
    given = inputs.tensor(mask)
    expect.close(student.efficient_mha(q, k, v, given, is_causal=True), due, like=q)
    expect.unchanged(inputs.tensor(mask), given, "mask")
    arrays = inputs.qkv(rng, (1, 1), n_q=1, n_k=n_k)
    due, _ = oracle.attention(*arrays)
    output = student.efficient_mha(*inputs.tensors(*arrays), is_causal=True)
    expect.close(output, due, like=q, label="of one query and one head, output")


@pytest.mark.check("torch_attention.efficient_mha", points=0.5)
def test_efficient_mask_shape(student, rng):
    """a mask of fewer axes broadcasts, and is left as it was"""
    arrays = inputs.qkv(rng)
    for shape in [(4, 6), (2, 1, 1, 6), (3, 4, 6)]:
        mask = inputs.mask_of(rng, *shape)
        q, k, v, hidden = inputs.tensors(*arrays, mask)
        due, _ = oracle.attention(*arrays, mask)
        output = student.efficient_mha(q, k, v, hidden)
        expect.close(output, due, like=q, label=f"with a mask of shape {shape}, output")
        expect.unchanged(inputs.tensor(mask), hidden, "mask")


@pytest.mark.check("torch_attention.efficient_mha", points=0.5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_efficient_dtype(student, rng, dtype):
    """a query that sees no key gives zeros in every dtype"""
    q, k, v = inputs.tensors(*inputs.qkv(rng), dtype=dtype)
    mask = inputs.mask_of(rng, 2, 3, 4, 6)
    mask[1, 2, 1:3] = True
    due, _ = oracle.attention(*inputs.doubles(q, k, v), mask)
    lowprec, _ = kernels.plain_attention(q, k, v, inputs.tensor(mask))
    output = student.efficient_mha(q, k, v, inputs.tensor(mask))
    if dtype in TWO_ROUNDINGS:
        expect.close(output, due, like=q)
    else:
        expect.half(output, due, lowprec)
        expect.equal(output[1, 2, 1:3], due[1, 2, 1:3], like=q, label="the output of queries that see no key")


@pytest.mark.check("torch_attention.efficient_mha", points=0.5)
def test_efficient_gradient(student, rng):
    """gradients flow through the fused call, past a mask too, from non-contiguous inputs, which stay as they were"""
    arrays, upstream = inputs.qkv(rng, (2, 5), n_q=3, n_k=3), inputs.tensor(inputs.values(rng, 2, 3, 5, 7))
    due = inputs.gradients(_plain_causal, arrays, upstream)
    leaves = inputs.tensors(*arrays, grad=True)  # (2, n, h, d)
    q, k, v = (x.transpose(1, 2) for x in leaves)
    output = expect.array(student.efficient_mha(q, k, v, is_causal=True), like=q, shape=(2, 3, 5, 7))
    found = expect.gradients(output, upstream, dict(zip("qkv", leaves, strict=True)))
    for (name, gradient), wanted in zip(found.items(), due, strict=True):
        expect.close(gradient, wanted, label=f"the gradient of {name}")
    for name, array, leaf in zip("qkv", arrays, leaves, strict=True):
        expect.unchanged(array, leaf, name)
    arrays, mask = inputs.qkv(rng), inputs.mask_of(rng, 4, 6)
    upstream, seen = inputs.tensor(inputs.values(rng, 2, 3, 4, 7)), inputs.tensor(~mask)
    due = inputs.gradients(lambda *qkv: F.scaled_dot_product_attention(*qkv, attn_mask=seen), arrays, upstream)
    q, k, v = inputs.tensors(*arrays, grad=True)
    found = expect.gradients(student.efficient_mha(q, k, v, inputs.tensor(mask)), upstream, {"q": q, "k": k, "v": v})
    for (name, gradient), wanted in zip(found.items(), due, strict=True):
        expect.close(gradient, wanted, label=f"the gradient of {name} with a mask")


def _plain_causal(*leaves):
    """The output for q, k and v of shape (B, n, h, d), by the formula as it stands."""
    q, k, v = (x.transpose(1, 2) for x in leaves)
    return kernels.plain_attention(q, k, v, inputs.tensor(oracle.causal(5, 5)))[0]


def _double(mha, W):
    """The module in float64 with these matrices."""
    expect.module(mha, {f"{name}.weight": matrix.shape for name, matrix in W.items()})
    inputs.load(mha.double(), W)
    return mha


def _four_sizes(st):
    return st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(2, 5), st.integers(1, 6))
