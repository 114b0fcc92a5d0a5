"""The checks of grouped_query.py that students don't have: fresh sizes, dtypes, gradients, random chunks, kernels."""

from __future__ import annotations

import pytest
from checks import F, inputs, kernels, oracle

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer

TWO_ROUNDINGS = {"float32": (2e-5, 2e-6), "float64": (2e-12, 2e-12)}  # the kernel's and the student's


@pytest.mark.check("grouped_query.repeat_kv", points=1)
def test_repeat_any_size(student, rng):
    """repeat_kv works for all numbers of heads, also one and all"""
    for h_kv, ratio, B, n, d, _ in [
        (1, 4, 2, 3, 3, 0),
        (4, 1, 2, 3, 3, 0),
        (3, 5, 1, 1, 2, 0),
        *inputs.drawn(rng, _sizes, count=3),
    ]:
        x = inputs.values(rng, B, h_kv, n, d)
        due = inputs.tensor(oracle.repeat_kv(x, h_kv * ratio))
        expect.equal(student.repeat_kv(inputs.tensor(x), h_kv * ratio), due)


@pytest.mark.check("grouped_query.repeat_kv", points=0.5)
def test_repeat_strided(student, rng):
    """repeat_kv reads a non-contiguous x, keeps bfloat16 and leaves x as it was"""
    x = inputs.tensor(inputs.values(rng, 2, 4, 3, 5), "bfloat16").transpose(1, 2)
    before, due = x.clone(), oracle.repeat_kv(*inputs.doubles(x), 12)
    expect.equal(student.repeat_kv(x, 12), due, like=x)
    expect.unchanged(before, x, "x")


@pytest.mark.check("grouped_query.repeat_kv", points=0.5)
def test_repeat_gradient(student, rng):
    """a KV head's gradient is the sum over its query heads"""
    x, upstream = (
        inputs.tensor(inputs.values(rng, 2, 2, 4, 5), grad=True),
        inputs.tensor(inputs.values(rng, 2, 8, 4, 5)),
    )
    due, back = oracle.repeat_kv(*inputs.doubles(x), 8), upstream.unflatten(1, (2, 4)).sum(2)
    output = expect.equal(student.repeat_kv(x, 8), due, like=x)
    found = expect.gradients(output, upstream, {"x": x})
    expect.close(found["x"], back, label="the gradient of x")


@pytest.mark.check("grouped_query.repeat_kv", points=0.5)
def test_repeat_refuses(student, rng):
    """the ValueError names the numbers of heads, also when there are fewer query heads"""
    for kv_heads, heads in [(5, 12), (8, 4)]:
        x = inputs.tensor(inputs.values(rng, 2, kv_heads, 3, 6))
        expect.value_error(lambda x=x, heads=heads: student.repeat_kv(x, heads), kv_heads, heads)


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
def test_gqa_any_size(student, rng):
    """grouped_query_attention is right for all sizes"""
    for h_kv, ratio, n_q, n_k, d_k, d_v in [
        (1, 1, 1, 1, 1, 1),
        (3, 2, 5, 4, 1, 8),
        *inputs.drawn(rng, _sizes, count=3),
    ]:
        arrays = inputs.grouped(rng, h_kv * ratio, h_kv, batch=1, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
        q, k, v = inputs.tensors(*arrays)
        due_output, due_weights = oracle.grouped(*arrays)
        output, weights = expect.pair(student.grouped_query_attention(q, k, v))
        expect.close(weights, due_weights, like=q, label="weights")
        expect.close(output, due_output, like=q)


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
def test_gqa_mask_shape(student, rng):
    """a mask of any shape that broadcasts hides the right keys"""
    arrays = inputs.grouped(rng, 8, 2, n_q=3, n_k=5)
    for shape in [(5,), (2, 1, 1, 5), (1, 8, 1, 5), (8, 3, 5), (2, 8, 3, 1)]:
        mask = inputs.mask_of(rng, *shape)
        q, k, v = inputs.tensors(*arrays)
        due_output, due_weights = oracle.grouped(*arrays, mask)
        output, weights = expect.pair(student.grouped_query_attention(q, k, v, mask=inputs.tensor(mask)))
        expect.close(weights, due_weights, like=q, label=f"with a mask of shape {shape}, weights")
        expect.close(output, due_output, like=q, label=f"with a mask of shape {shape}, output")


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_gqa_as_kernels(student, rng, dtype):
    """torch's own kernels with enable_gqa give the same output"""
    q, k, v = inputs.tensors(*inputs.grouped(rng, 8, 2, d_v=5), dtype=dtype)
    mask = inputs.mask_of(rng, 2, 8, 4, 6)
    mask[0, 0, 1] = True
    mask = inputs.tensor(mask)
    repeated = (inputs.tensor(oracle.repeat_kv(x, 8), dtype) for x in inputs.doubles(k, v))
    lowprec, _ = kernels.plain_attention(q, *repeated, mask)
    dues = [kernels.kernel(name, q, k, v, attn_mask=~mask, enable_gqa=True) for name in ("MATH", "FLASH_ATTENTION")]
    output, _ = expect.pair(student.grouped_query_attention(q, k, v, mask))
    for due in dues:
        if dtype in TWO_ROUNDINGS:
            expect.close(output, due, like=q, tolerance=TWO_ROUNDINGS[dtype])
        else:
            expect.half(output, due, lowprec, fudge=10)  # two roundings here too


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
def test_gqa_hidden_row(student, rng):
    """a query that sees no key gives zeros, and gradients flow past a mask"""
    arrays, mask = inputs.grouped(rng, 6, 2), inputs.mask_of(rng, 2, 6, 4, 6)
    upstream, options = inputs.tensor(inputs.values(rng, 2, 6, 4, 7)), {"attn_mask": inputs.tensor(~mask), "enable_gqa": True}
    due, _ = oracle.grouped(*arrays, mask)
    back = inputs.gradients(lambda *qkv: F.scaled_dot_product_attention(*qkv, **options), arrays, upstream)
    q, k, v = inputs.tensors(*arrays, grad=True)
    output, _ = expect.pair(student.grouped_query_attention(q, k, v, inputs.tensor(mask)))
    expect.close(output, due, like=q)
    found = expect.gradients(output, upstream, {"q": q, "k": k, "v": v})
    for (name, gradient), wanted in zip(found.items(), back, strict=True):
        expect.close(gradient, wanted, label=f"the gradient of {name}")
    mask[1, :, 2] = True
    due_output, due_weights = oracle.grouped(*arrays, mask)
    q, k, v = inputs.tensors(*arrays)
    output, weights = expect.pair(student.grouped_query_attention(q, k, v, inputs.tensor(mask)))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
def test_gqa_extreme_logits(student, rng):
    """hidden keys stay hidden when scores are huge"""
    q, k, v = inputs.grouped(rng, 6, 3)
    q, mask = inputs.extreme(rng, q, oracle.repeat_kv(k, 6))
    due_output, due_weights = oracle.grouped(q, k, v, mask)
    output, weights = expect.pair(student.grouped_query_attention(*inputs.tensors(q, k, v, mask)))
    expect.close(weights, due_weights, like=inputs.tensor(q), label="weights", tolerance=(1e-9, 1e-9))
    expect.close(output, due_output, like=inputs.tensor(q), tolerance=(1e-9, 1e-9))


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
def test_gqa_leaves_its_inputs(student, rng):
    """non-contiguous q, k, v and an expanded mask are read right and left as they were"""
    q, _, _ = inputs.qkv(rng, (2, 4), n_q=9)
    _, k, v = inputs.qkv(rng, (2, 5), n_k=3)
    q, k, v = (x.transpose(1, 2) for x in inputs.tensors(q, k, v))  # (2, 9, 4, 5), (2, 3, 5, 5), (2, 3, 5, 7)
    mask = inputs.tensor(inputs.mask_of(rng, 2, 1, 1, 5)).expand(2, 9, 4, 5)
    given = {"q": q, "k": k, "v": v, "mask": mask}
    before = {name: x.clone() for name, x in given.items()}
    due, _ = oracle.grouped(*inputs.doubles(q, k, v), mask.numpy())
    output, _ = expect.pair(student.grouped_query_attention(q, k, v, mask))
    expect.close(output, due, like=q)
    for name, after in given.items():
        expect.unchanged(before[name], after, name)


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1)
def test_layer_random_chunks(student, rng):
    """a sequence cut anywhere gives what one pass gives, in eval mode too"""
    array, W = inputs.values(rng, 2, 8, 32), inputs.matrices(rng, 32, 8)
    due, _ = oracle.multi_head(array, W, 8, oracle.causal(8, 8))
    due_keys, due_values = (oracle.split_heads(array @ W[name], 2) for name in ("W_K", "W_V"))
    layer = _layer(student, W, 8, 2).eval()
    for cuts in [{1}, {5, 7}, *inputs.drawn(rng, lambda st: st.sets(st.integers(1, 7), min_size=1), count=3)]:
        x, cache, start = inputs.tensor(array), None, 0
        for end in [*sorted(cuts), 8]:
            output, cache = expect.pair(layer(x[:, start:end], cache), ("output", "cache"))
            expect.close(output, due[:, start:end], like=x, label=f"the output of tokens {start} to {end - 1}")
            start = end
        keys, values = expect.pair(cache, ("k", "v"))
        expect.close(keys, due_keys, like=x, label="cached k")
        expect.close(values, due_values, like=x, label="cached v")


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1)
def test_layer_keeps_no_memory(student, rng):
    """a cache can be continued twice, and a new sequence starts afresh"""
    x, W = inputs.values(rng, 2, 6, 24), inputs.matrices(rng, 24, 12)
    other = inputs.values(rng, 1, 2, 24)
    due = oracle.multi_head(x, W, 4, oracle.causal(6, 6))[0][:, 3:]
    due_fresh, _ = oracle.multi_head(other, W, 4, oracle.causal(2, 2))
    layer = _layer(student, W, 4, 2)
    _, cache = expect.pair(layer(inputs.tensor(x[:, :3])), ("output", "cache"))
    old = [
        expect.array(part, like=inputs.tensor(x), shape=(2, 2, 3, 6), label="cache").clone()
        for part in expect.pair(cache, ("k", "v"))
    ]
    rest = inputs.tensor(x[:, 3:])
    first, _ = expect.pair(layer(rest, cache), ("output", "cache"))
    second, _ = expect.pair(layer(rest, cache), ("output", "cache"))
    fresh, _ = expect.pair(layer(inputs.tensor(other)), ("output", "cache"))
    expect.close(first, due, like=rest)
    expect.close(second, due, like=rest, label="the output of the same cache continued again")
    expect.close(fresh, due_fresh, like=rest, label="a new sequence's output")
    for before, after, name in zip(old, expect.pair(cache, ("k", "v")), ("the cached k", "the cached v"), strict=True):
        expect.unchanged(before, after, name)
    expect.unchanged(inputs.tensor(x[:, 3:]), rest, "x")


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1)
@pytest.mark.parametrize("kv_heads", [1, 3, 6], ids=["MQA", "GQA", "MHA"])
def test_layer_extremes(student, rng, kv_heads):
    """one KV head, some, or all of them"""
    x, W = inputs.tensor(inputs.values(rng, 1, 4, 30), "float32"), inputs.matrices(rng, 30, 5 * kv_heads)
    due, _ = oracle.multi_head(*inputs.doubles(x), W, 6, oracle.causal(4, 4))
    layer = _layer(student, W, 6, kv_heads).float()
    prompt, cache = expect.pair(layer(x[:, :3]), ("output", "cache"))
    last, _ = expect.pair(layer(x[:, 3:], cache=cache), ("output", "cache"))
    expect.close(prompt, due[:, :3], like=x, tolerance=(1e-5, 1e-5), label="the output of tokens 0 to 2")
    expect.close(last, due[:, 3:], like=x, tolerance=(1e-5, 1e-5), label="the output of token 3")


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1)
def test_layer_gradient(student, rng):
    """gradients flow through the cache, to x and to all four projections"""
    array, W = inputs.values(rng, 2, 5, 24), inputs.matrices(rng, 24, 8)
    upstream = inputs.tensor(inputs.values(rng, 2, 2, 24))
    due = inputs.gradients(_last_two, (array, *(matrix.T for matrix in W.values())), upstream)
    x, layer = inputs.tensor(array, grad=True), _layer(student, W, 6, 2)
    _, cache = expect.pair(layer(x[:, :3]), ("output", "cache"))
    output, _ = expect.pair(layer(x[:, 3:], cache), ("output", "cache"))
    expect.array(output, like=x, shape=(2, 2, 24))
    found = expect.gradients(output, upstream, {"x": x, **dict(layer.named_parameters())})
    for name, gradient in zip(["x", *(f"{name}.weight" for name in W)], due, strict=True):
        expect.close(found[name], gradient, label=f"the gradient of {name}", tolerance=(1e-11, 1e-11))


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=0.5)
def test_layer_state(student, rng):
    """state_dict holds the four matrices alone, sizes that do not divide are named, and bfloat16 stays bfloat16"""
    layer = student.GroupedQueryAttention(28, 4, 2)
    W = expect.module(layer, {f"W_{name}.weight": (rows, 28) for name, rows in zip("QKVO", (28, 14, 14, 28), strict=True)})
    if extra := sorted(set(layer.state_dict()) - set(W)):
        expect.fail(f"state_dict() holds {', '.join(extra)} besides the four matrices: persistent=False keeps a buffer out")
    expect.value_error(lambda: student.GroupedQueryAttention(26, 4, 2), 26, 4)
    expect.value_error(lambda: student.GroupedQueryAttention(45, 9, 6), 9, 6)
    x = inputs.tensor(inputs.values(rng, 2, 3, 28), "bfloat16")
    output, cache = expect.pair(layer.bfloat16()(x), ("output", "cache"))
    for name, part in zip("kv", expect.pair(cache, ("k", "v")), strict=True):
        expect.array(part, like=x, shape=(2, 2, 3, 7), label=f"cached {name}")
    expect.array(output, like=x)


@pytest.mark.check("grouped_query.kv_cache_bytes", points=1.5)
def test_bytes_of_any_size(student, rng):
    """every size counts once, keys and values together"""
    layers, heads, size, n, batch, width = (int(number) for number in rng.permutation([3, 5, 7, 11, 13, 17]))
    due = 2 * layers * heads * size * n * batch * width
    expect.integer(student.kv_cache_bytes(layers, heads, size, n, batch, width), due)
    expect.integer(student.kv_cache_bytes(layers, heads, size, n, bytes_per_value=width), due // batch)
    expect.integer(student.kv_cache_bytes(layers, heads, size, n, batch), due // width * 2)


def _layer(student, W, num_heads, num_kv_heads):
    """A layer in float64 with these matrices."""
    d_model = len(W["W_O"])
    layer = student.GroupedQueryAttention(d_model, num_heads, num_kv_heads)
    expect.module(layer, {f"{name}.weight": matrix.T.shape for name, matrix in W.items()})
    inputs.load(layer.double(), W)
    return layer


def _last_two(x, W_Q, W_K, W_V, W_O):
    """The output of tokens 3 and 4, with six query heads of size 4 on two KV heads; the matrices lie as nn.Linear keeps them."""
    q, k, v = ((x @ W.T).unflatten(2, (-1, 4)).transpose(1, 2) for W in (W_Q, W_K, W_V))
    k, v = (part.repeat_interleave(3, dim=1) for part in (k, v))
    heads, _ = kernels.plain_attention(q, k, v, inputs.tensor(oracle.causal(5, 5)))
    return (heads.transpose(1, 2).flatten(2) @ W_O.T)[:, 3:]


def _sizes(st):
    """Heads and their ratio, then four more."""
    return st.tuples(st.integers(1, 4), st.integers(1, 5), *(st.integers(1, 6) for _ in range(4)))
