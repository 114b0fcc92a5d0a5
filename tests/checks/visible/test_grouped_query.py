"""The checks of grouped_query.py that students have."""

from __future__ import annotations

import pytest
from checks import F, inputs, oracle, torch

from grader import expect

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning out of a student's code is no wrong answer

PROJECTED = (1e-5, 1e-5)  # float32 sums of d_model products come before and after the attention's own
SHAPES = {
    "W_Q.weight": (24, 24),
    "W_K.weight": (8, 24),
    "W_V.weight": (8, 24),
    "W_O.weight": (24, 24),
}  # 6 heads on 2


@pytest.mark.check("grouped_query.repeat_kv", points=0.5)
def test_repeat_shape(student, rng):
    """repeat_kv gives one KV head for every query head"""
    x = inputs.tensor(inputs.values(rng, 3, 2, 4, 5), "float32")
    expect.array(student.repeat_kv(x, 6), like=x, shape=(3, 6, 4, 5))


@pytest.mark.check("grouped_query.repeat_kv", points=1.5)
def test_repeat_order(student):
    """neighbouring query heads share a KV head"""
    x = inputs.labels(3, 2, 4, 5)
    due = inputs.tensor(oracle.repeat_kv(x, 6))
    expect.equal(student.repeat_kv(inputs.tensor(x), 6), due)


@pytest.mark.check("grouped_query.repeat_kv", points=0.5)
def test_repeat_refuses(student, rng):
    """heads that do not divide are refused"""
    x = inputs.tensor(inputs.values(rng, 2, 4, 3, 5))
    expect.value_error(lambda: student.repeat_kv(x, 6), 6, 4)


@pytest.mark.check("grouped_query.grouped_query_attention", points=1.5)
def test_gqa_values(student, rng):
    """query head i uses KV head i // (h / h_kv)"""
    q, k, v = inputs.tensors(*inputs.grouped(rng), dtype="float32")
    due_output, due_weights = oracle.grouped(*inputs.doubles(q, k, v))
    output, weights = expect.pair(student.grouped_query_attention(q, k, v))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("grouped_query.grouped_query_attention", points=1)
def test_gqa_mask(student, rng):
    """a mask hides keys, each query head its own"""
    arrays = inputs.grouped(rng)
    mask = inputs.best_keys_mask(rng, arrays[0], oracle.repeat_kv(arrays[1], 6))
    q, k, v = inputs.tensors(*arrays)
    due_output, due_weights = oracle.grouped(*arrays, mask)
    output, weights = expect.pair(student.grouped_query_attention(q, k, v, inputs.tensor(mask)))
    expect.close(weights, due_weights, like=q, label="weights")
    expect.close(output, due_output, like=q)


@pytest.mark.check("grouped_query.grouped_query_attention", points=1)
@pytest.mark.parametrize("kv_heads", [1, 4], ids=["MQA", "MHA"])
def test_gqa_extremes(student, rng, kv_heads):
    """one KV head is MQA, as many as query heads is MHA"""
    arrays = inputs.grouped(rng, heads=4, kv_heads=kv_heads)
    q, k, v = inputs.tensors(*arrays)
    due = F.scaled_dot_product_attention(q, k, v)
    output, _ = expect.pair(student.grouped_query_attention(q, k, v))
    expect.close(output, due, like=q)


@pytest.mark.check("grouped_query.grouped_query_attention", points=0.5)
def test_gqa_refuses(student, rng):
    """heads that do not divide are refused"""
    q, k, v = inputs.tensors(*inputs.grouped(rng, heads=9, kv_heads=8))
    expect.value_error(lambda: student.grouped_query_attention(q, k, v), 9, 8)


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=0.5)
def test_layer_parameters(student):
    """W_K and W_V project to the KV heads alone"""
    expect.module(student.GroupedQueryAttention(24, 6, 2), SHAPES)


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1.5)
def test_layer_values(student, rng):
    """a sequence read at once is causal attention over it"""
    x, W = inputs.tensor(inputs.values(rng, 3, 5, 24), "float32"), inputs.matrices(rng, 24, 8)
    layer = _with(W, student.GroupedQueryAttention(24, 6, 2), "float32")
    due, _ = oracle.multi_head(*inputs.doubles(x), W, 6, oracle.causal(5, 5))
    output, _ = expect.pair(layer(x), ("output", "cache"))
    expect.close(output, due, like=x, tolerance=PROJECTED)


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=0.5)
def test_layer_cache(student, rng):
    """the cache holds the keys and values of the KV heads"""
    x, W = inputs.values(rng, 3, 5, 24), inputs.matrices(rng, 24, 8)
    dues = [inputs.tensor(oracle.split_heads(x @ W[name], 2)) for name in ("W_K", "W_V")]
    layer = _with(W, student.GroupedQueryAttention(24, 6, 2), "float64")
    _, cache = expect.pair(layer(inputs.tensor(x)), ("output", "cache"))
    for got, due, label in zip(expect.pair(cache, ("k", "v")), dues, ("cached k", "cached v"), strict=True):
        expect.close(got, due, label=label)


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1)
@pytest.mark.parametrize("chunks", [(1, 1, 1, 1, 1), (2, 3)], ids=["token by token", "a prompt, then three tokens"])
def test_layer_chunks(student, rng, chunks):
    """chunks with a cache give what one pass gives"""
    x, W = inputs.tensor(inputs.values(rng, 3, 5, 24)), inputs.matrices(rng, 24, 8)
    layer = _with(W, student.GroupedQueryAttention(24, 6, 2), "float64")
    due, _ = oracle.multi_head(*inputs.doubles(x), W, 6, oracle.causal(5, 5))
    cache, start = None, 0
    for chunk in x.split(chunks, dim=1):
        output, cache = expect.pair(layer(chunk, cache), ("output", "cache"))
        end = start + chunk.shape[1]
        expect.close(output, due[:, start:end], like=x, label=f"the output of tokens {start} to {end - 1}")
        start = end


@pytest.mark.check("grouped_query.GroupedQueryAttention", points=1)
def test_layer_refuses(student):
    """heads that do not divide are refused"""
    expect.value_error(lambda: student.GroupedQueryAttention(20, 6, 2), 20, 6)
    expect.value_error(lambda: student.GroupedQueryAttention(24, 6, 4), 6, 4)


@pytest.mark.check("grouped_query.kv_cache_bytes", points=1)
def test_bytes_of_a_token(student):
    """Llama-3-70B keeps 320 KiB a token, and would keep 2.5 MiB without GQA"""
    expect.integer(student.kv_cache_bytes(80, 8, 128, 1), 320 * 1024)
    expect.integer(student.kv_cache_bytes(80, 64, 128, 1), 2560 * 1024)


@pytest.mark.check("grouped_query.kv_cache_bytes", points=0.5)
def test_bytes_of_a_batch(student):
    """every sequence of a batch keeps its own"""
    expect.integer(student.kv_cache_bytes(3, 5, 7, seq_len=11, batch=13), 60060)


def _with(W, layer, dtype):
    """The layer with these matrices."""
    expect.module(layer, SHAPES)
    inputs.load(layer.to(getattr(torch, dtype)), W)
    return layer
