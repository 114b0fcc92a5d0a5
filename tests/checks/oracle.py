"""What is due, by slow and obvious loops in float64. Nothing here is taken from a solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def softmax(x: Any) -> Floats:
    rows = np.asarray(x, dtype=np.float64)
    out = np.zeros(rows.shape)
    for at in np.ndindex(rows.shape[:-1]):
        largest = max(rows[at])
        if largest > -math.inf:
            powers = [math.exp(max(value - largest, -800.0)) for value in rows[at]]  # exp(-800) is 0.0
            out[at] = [power / math.fsum(powers) for power in powers]
    return out


def split_heads(x: Any, num_heads: int) -> NDArray[Any]:
    B, n, d_model = x.shape
    d_k = d_model // num_heads
    out = np.zeros((B, num_heads, n, d_k), dtype=x.dtype)
    for b, head, token in np.ndindex(B, num_heads, n):
        out[b, head, token] = x[b, token, head * d_k : (head + 1) * d_k]
    return out


def merge_heads(x: Any) -> NDArray[Any]:
    B, h, n, d_v = x.shape
    out = np.zeros((B, n, h * d_v), dtype=x.dtype)
    for b, head, token in np.ndindex(B, h, n):
        out[b, token, head * d_v : (head + 1) * d_v] = x[b, head, token]
    return out


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> tuple[Floats, Floats]:
    """Query by query, over the keys that are not hidden and no others."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    shape = (*q.shape[:-1], k.shape[-2])
    hidden = np.broadcast_to(False if mask is None else mask, shape)
    output, weights = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(shape)
    for at in np.ndindex(q.shape[:-1]):
        seen = np.flatnonzero(~hidden[at])
        if seen.size:
            scores = [float(q[at] @ k[at[:-1]][key]) / math.sqrt(q.shape[-1]) for key in seen]
            weights[at][seen] = softmax(scores)
            output[at] = sum(weights[at][key] * v[at[:-1]][key] for key in seen)
    return output, weights


def causal(n_q: int, n_k: int) -> Mask:
    """The last query sees every key."""
    return np.array([[key > n_k - n_q + query for key in range(n_k)] for query in range(n_q)])


def repeat_kv(x: Any, num_heads: int) -> NDArray[Any]:
    return np.stack([x[:, head * x.shape[1] // num_heads] for head in range(num_heads)], axis=1)


def grouped(q: Any, k: Any, v: Any, mask: Any = None) -> tuple[Floats, Floats]:
    return attention(q, repeat_kv(k, q.shape[1]), repeat_kv(v, q.shape[1]), mask)


def pruned(x: Any, matrices: dict[str, Any], num_heads: int, gone: set[int]) -> Floats:
    """The whole layer, with these heads' outputs put to zero before they are merged."""
    q, k, v = (split_heads(x @ matrices[name], num_heads) for name in ("W_Q", "W_K", "W_V"))
    heads, _ = attention(q, k, v)
    for head in gone:
        heads[:, head] = 0.0
    return merge_heads(heads) @ matrices["W_O"]


def entropy(weights: Any) -> Floats:
    """In nats, the mean over the queries of each head."""
    rows = [[-math.fsum(w * math.log(w) for w in row if w > 0) for row in head.tolist()] for head in weights]
    return np.array([math.fsum(head) / len(head) for head in rows])


def head_name(weights: Any) -> str:
    n = len(weights)
    if sum(float(weights[t, 0]) for t in range(n)) / n > 0.4:
        return "attention_sink"
    if n > 1 and sum(float(weights[t, t - 1]) for t in range(1, n)) / (n - 1) > 0.3:
        return "prev_token"
    if sum(float(weights[t, t]) for t in range(n)) / n > 0.4:
        return "self_attend"
    return "focused" if entropy(weights[None])[0] < 0.5 else "broad"


def multi_head(x: Any, matrices: dict[str, Any], num_heads: int, mask: Any = None) -> tuple[Floats, Floats]:
    """Matrices are used as `x @ W`; fewer columns in W_K and W_V mean shared key/value heads."""
    x, W = (
        np.asarray(x, dtype=np.float64),
        {name: np.asarray(w, dtype=np.float64) for name, w in matrices.items()},
    )
    d_k = W["W_Q"].shape[1] // num_heads
    q, k, v = (split_heads(x @ W[name], W[name].shape[1] // d_k) for name in ("W_Q", "W_K", "W_V"))
    heads, weights = grouped(q, k, v, mask)
    return merge_heads(heads) @ W["W_O"], weights
