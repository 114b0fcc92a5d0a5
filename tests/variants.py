"""Right answers written in unusual ways, by exercise: students and references write all of these, and all must be accepted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from torch import Tensor, nn

VARIANTS: dict[str, list[Callable[..., Any]]] = {}
Pair = tuple[Any, Any]


def variant(exercise: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put what is decorated among the variants of an exercise."""

    def put(answer: Callable[..., Any]) -> Callable[..., Any]:
        VARIANTS.setdefault(exercise, []).append(answer)
        return answer

    return put


def refuse(whole: int, parts: int) -> None:
    if whole % parts:
        raise ValueError(f"{whole} can't be divided by {parts}")


# numpy_attention.softmax


@variant("numpy_attention.softmax")
def softmax_in_log_space(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.result_type(x, np.float16) if x.dtype.kind == "f" else np.float64)
    with np.errstate(all="ignore"):
        top = x.max(-1, keepdims=True)
        logs = np.log(np.exp(x - top).sum(-1, keepdims=True)) + top
        return np.nan_to_num(np.exp(x - logs), nan=0.0).astype(x.dtype)


@variant("numpy_attention.softmax")
def softmax_by_logaddexp(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    total = np.logaddexp.reduce(wide, axis=-1, keepdims=True)
    weights = np.exp(wide - np.where(np.isneginf(total), 0, total))
    sums = weights.sum(-1, keepdims=True)
    return (weights / np.where(sums == 0, 1, sums)).astype(x.dtype if x.dtype.kind == "f" else np.float64)


@variant("numpy_attention.softmax")
def softmax_row_by_row(x: np.ndarray) -> np.ndarray:
    x = x if x.dtype.kind == "f" else x.astype(float)
    out = np.zeros_like(x)
    for index in np.ndindex(x.shape[:-1]):
        row = x[index]
        if np.isneginf(row).all():
            continue
        powers = np.exp(row - row.max())
        out[index] = powers / powers.sum()
    return out


@variant("numpy_attention.softmax")
def softmax_along_axis(x: np.ndarray) -> np.ndarray:
    def one(row: np.ndarray) -> np.ndarray:
        powers = np.exp(row - (row.max() if row.max() > -np.inf else 0))
        return powers / (powers.sum() or 1)

    return np.apply_along_axis(one, -1, x if x.dtype.kind == "f" else x * 1.0).astype(x.dtype if x.dtype.kind == "f" else float)


@variant("numpy_attention.softmax")
def softmax_in_place_on_a_copy(x: np.ndarray) -> np.ndarray:
    out = np.array(x, dtype=x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        out -= out.max(axis=-1, keepdims=True)
        np.exp(out, out=out)
        out /= out.sum(axis=-1, keepdims=True)
    out[np.isnan(out)] = 0
    return out


# split_heads, NumPy


@variant("numpy_attention.split_heads")
def split_by_stack(x: np.ndarray, num_heads: int) -> np.ndarray:
    refuse(x.shape[-1], num_heads)
    return np.stack(np.split(x, num_heads, axis=-1), axis=1)


@variant("numpy_attention.split_heads")
def split_by_loops(x: np.ndarray, num_heads: int) -> np.ndarray:
    B, n, d_model = x.shape
    if d_model % num_heads != 0:
        raise ValueError("d_model=" + str(d_model) + " is not divisible by num_heads=" + str(num_heads))
    d_k = d_model // num_heads
    heads = np.empty((B, num_heads, n, d_k), dtype=x.dtype)
    for b in range(B):
        for i in range(num_heads):
            heads[b, i] = x[b, :, i * d_k : (i + 1) * d_k]
    return heads


@variant("numpy_attention.split_heads")
def split_by_einsum(x: np.ndarray, num_heads: int) -> np.ndarray:
    refuse(x.shape[-1], num_heads)
    return np.einsum("bnhd->bhnd", x.reshape(*x.shape[:2], num_heads, -1))


@variant("numpy_attention.split_heads")
def split_by_strides(x: np.ndarray, num_heads: int) -> np.ndarray:
    B, n, d_model = x.shape
    refuse(d_model, num_heads)
    d_k, (b, t, c) = d_model // num_heads, x.strides
    return as_strided(x, (B, num_heads, n, d_k), (b, d_k * c, t, c), writeable=False)


@variant("numpy_attention.split_heads")
def split_by_windows(x: np.ndarray, num_heads: int) -> np.ndarray:
    refuse(x.shape[-1], num_heads)
    d_k = x.shape[-1] // num_heads
    return np.moveaxis(sliding_window_view(x, d_k, axis=-1)[:, :, ::d_k], 2, 1)


@variant("numpy_attention.split_heads")
def split_by_rollaxis(x: np.ndarray, num_heads: int) -> np.ndarray:
    refuse(x.shape[-1], num_heads)
    return np.rollaxis(x.reshape(len(x), -1, num_heads, x.shape[-1] // num_heads), 2, 1)


# attention, NumPy


def np_softmax(scores: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.nan_to_num(powers / powers.sum(-1, keepdims=True), nan=0.0)


def np_floats(*arrays: np.ndarray) -> list[np.ndarray]:
    return [x if x.dtype.kind == "f" else x.astype(np.float64) for x in arrays]


@variant("numpy_attention.attention")
def attention_by_einsum(q: Any, k: Any, v: Any, mask: Any = None) -> Pair:
    q, k, v = np_floats(q, k, v)
    scores = np.einsum("...qd,...kd->...qk", q, k) / math.sqrt(q.shape[-1])
    weights = np_softmax(scores if mask is None else np.where(mask, -np.inf, scores))
    return np.einsum("...qk,...kd->...qd", weights, v), weights


@variant("numpy_attention.attention")
def attention_with_added_minus_inf(q: Any, k: Any, v: Any, mask: Any = None) -> Pair:
    q, k, v = np_floats(q, k, v)
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ np.moveaxis(k, -1, -2)
    if mask is not None:
        bias = np.zeros(mask.shape, dtype=scores.dtype)
        bias[mask] = -np.inf
        scores = scores + bias
    weights = np_softmax(scores)
    return [weights @ v, weights]


@variant("numpy_attention.attention")
def attention_by_loops(q: Any, k: Any, v: Any, mask: Any = None) -> Pair:
    q, k, v = np_floats(q, k, v)
    shape = (*q.shape[:-1], k.shape[-2])
    hidden = np.broadcast_to(np.False_ if mask is None else mask, shape)
    weights, output = np.zeros(shape, q.dtype), np.zeros((*q.shape[:-1], v.shape[-1]), v.dtype)
    for at in np.ndindex(q.shape[:-1]):
        seen = np.flatnonzero(~hidden[at])
        if len(seen):
            weights[at][seen] = np_softmax(k[at[:-1]][seen] @ q[at] / math.sqrt(q.shape[-1]))
            output[at] = weights[at][seen] @ v[at[:-1]][seen]
    return output, weights


@variant("numpy_attention.attention")
def attention_with_powers_of_the_allowed(q: Any, k: Any, v: Any, mask: Any = None) -> Pair:
    q, k, v = np_floats(q, k, v)
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones(scores.shape, bool) if mask is None else ~np.broadcast_to(mask, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    with np.errstate(all="ignore"):
        powers = np.where(allowed, np.exp(scores - top), 0)
    total = powers.sum(-1, keepdims=True)
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return weights @ v, weights


@variant("numpy_attention.attention")
def attention_normalised_after_the_values(q: Any, k: Any, v: Any, mask: Any = None) -> Pair:
    q, k, v = np_floats(q, k, v)
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    scores = np.where(False if mask is None else mask, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = np.maximum(powers.sum(-1, keepdims=True), np.finfo(powers.dtype).tiny)
    return (powers @ v) / total, powers / total


@variant("numpy_attention.attention")
def attention_head_by_head(q: Any, k: Any, v: Any, mask: Any = None) -> Pair:
    q, k, v = np_floats(q, k, v)
    lead = q.shape[:-2]
    hidden = np.broadcast_to(False if mask is None else mask, (*q.shape[:-1], k.shape[-2]))
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v, hidden)]
    weights = [np_softmax(np.where(m, -np.inf, a @ b.T / math.sqrt(a.shape[-1]))) for a, b, _, m in zip(*flat, strict=True)]
    output = [w @ c for w, c in zip(weights, flat[2], strict=True)]
    return np.array(output).reshape(*lead, *output[0].shape), np.array(weights).reshape(*lead, *weights[0].shape)


# merge_heads, NumPy


@variant("numpy_attention.merge_heads")
def merge_by_concatenate(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, i] for i in range(x.shape[1])], axis=-1)


@variant("numpy_attention.merge_heads")
def merge_by_hstack_of_sentences(x: np.ndarray) -> np.ndarray:
    return np.array([np.hstack(list(sentence)) for sentence in x])


@variant("numpy_attention.merge_heads")
def merge_by_filling(x: np.ndarray) -> np.ndarray:
    B, h, n, d = x.shape
    out = np.zeros((B, n, h * d), dtype=x.dtype)
    for i in range(h):
        out[..., i * d : (i + 1) * d] = x[:, i]
    return out


@variant("numpy_attention.merge_heads")
def merge_by_einsum(x: np.ndarray) -> np.ndarray:
    return np.einsum("bhnd->bnhd", x).reshape(x.shape[0], x.shape[2], -1)


# MultiHeadAttention, NumPy


@variant("numpy_attention.MultiHeadAttention")
class NumpyInOneEinsum:
    def __init__(self, d_model: int, num_heads: int, rng: Any = None) -> None:
        refuse(d_model, num_heads)
        rng = rng or np.random.default_rng()
        self.h, self.d = num_heads, d_model // num_heads
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            setattr(self, name, rng.normal(0, d_model**-0.5, (d_model, d_model)))

    def project(self, x: Any, W: Any) -> Any:
        return np.einsum("bnm,mhd->bhnd", x, np.reshape(W, (len(W), self.h, self.d)))

    def __call__(self, x: Any, mask: Any = None) -> Pair:
        return self.forward(x, mask)

    def forward(self, x: Any, mask: Any = None) -> Pair:
        q, k, v = (self.project(x, W) for W in (self.W_Q, self.W_K, self.W_V))
        heads, weights = attention_by_einsum(q, k, v, mask)
        output = np.einsum("bhnd,hdm->bnm", heads, np.reshape(self.W_O, (self.h, self.d, -1)))
        dtype = x.dtype if x.dtype.kind == "f" else np.float64
        return output.astype(dtype), weights.astype(dtype)


@variant("numpy_attention.MultiHeadAttention")
class NumpyHeadByHead:
    """Every head projects with its own columns, and W_O's rows are added up head by head."""

    def __init__(self, d_model: int, num_heads: int, rng: Any = None) -> None:
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} % num_heads {num_heads} must be 0")
        rng = np.random.default_rng(rng)
        self.slices = [slice(i, i + d_model // num_heads) for i in range(0, d_model, d_model // num_heads)]
        self.W_Q, self.W_K, self.W_V, self.W_O = (rng.normal(size=(d_model,) * 2) / math.sqrt(d_model) for _ in range(4))

    def forward(self, x: Any, mask: Any = None) -> Pair:
        dtype = np.result_type(x.dtype, np.float16) if x.dtype.kind == "f" else np.dtype(float)
        B, n, _ = x.shape
        hidden = np.broadcast_to(False if mask is None else mask, (B, len(self.slices), n, n))
        output, weights = np.zeros(x.shape), []
        for i, part in enumerate(self.slices):
            q, k, v = (x @ W[:, part] for W in (self.W_Q, self.W_K, self.W_V))
            head, found = attention_by_einsum(q, k, v, hidden[:, i])
            output += head @ self.W_O[part]
            weights.append(found)
        return output.astype(dtype), np.stack(weights, axis=1).astype(dtype)


# split_heads and merge_heads, torch


@variant("torch_attention.split_heads")
def split_by_chunks(x: Tensor, num_heads: int) -> Tensor:
    refuse(x.size(-1), num_heads)
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@variant("torch_attention.split_heads")
def split_by_unflatten(x: Tensor, num_heads: int) -> Tensor:
    refuse(x.size(-1), num_heads)
    return x.unflatten(-1, (num_heads, -1)).movedim(2, 1)


@variant("torch_attention.split_heads")
def split_by_view_and_copy(x: Tensor, num_heads: int) -> Tensor:
    B, n, d = x.size()
    refuse(d, num_heads)
    return x.contiguous().view(B, n, num_heads, d // num_heads).permute(0, 2, 1, 3).contiguous()


@variant("torch_attention.split_heads")
def split_by_torch_strides(x: Tensor, num_heads: int) -> Tensor:
    B, n, d = x.shape
    refuse(d, num_heads)
    b, t, c = x.stride()
    return x.as_strided((B, num_heads, n, d // num_heads), (b, d // num_heads * c, t, c))


@variant("torch_attention.split_heads")
def split_by_unfold(x: Tensor, num_heads: int) -> Tensor:
    refuse(x.shape[-1], num_heads)
    d_k = x.shape[-1] // num_heads
    return x.unfold(-1, d_k, d_k).transpose(1, 2)


@variant("torch_attention.split_heads")
def split_by_gather(x: Tensor, num_heads: int) -> Tensor:
    refuse(x.shape[-1], num_heads)
    index = torch.arange(x.shape[-1]).reshape(num_heads, -1)
    return torch.cat([x.index_select(-1, part).unsqueeze(1) for part in index], dim=1)


@variant("torch_attention.merge_heads")
def merge_by_flatten(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(start_dim=2)


@variant("torch_attention.merge_heads")
def merge_by_cat(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)


@variant("torch_attention.merge_heads")
def merge_by_contiguous_view(x: Tensor) -> Tensor:
    return x.movedim(1, 2).contiguous().view(x.size(0), -1, x.size(1) * x.size(3))


@variant("torch_attention.merge_heads")
def merge_by_torch_einsum(x: Tensor) -> Tensor:
    return torch.einsum("bhnd->bnhd", x).reshape(*x.shape[:1], x.shape[2], -1)


# attention, torch


def no_nan(weights: Tensor, mask: Tensor | None) -> Tensor:
    return weights if mask is None else weights.masked_fill(mask, 0)


@variant("torch_attention.attention")
def attention_by_torch_einsum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    scores = torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = no_nan(scores.softmax(dim=-1), mask)
    return torch.einsum("...qk,...kd->...qd", weights, v), weights


@variant("torch_attention.attention")
def attention_with_torch_where(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    scores = torch.matmul(q * q.size(-1) ** -0.5, k.mT)
    if mask is not None:
        scores = torch.where(mask, torch.finfo(scores.dtype).min, scores)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = torch.where(mask, 0.0, weights)
    return [torch.matmul(weights, v), weights]


@variant("torch_attention.attention")
def attention_with_nan_to_num(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    scores = q @ k.swapdims(-1, -2) / torch.sqrt(torch.tensor(q.size(-1), dtype=q.dtype))
    weights = nn.Softmax(dim=-1)(scores if mask is None else scores.masked_fill(mask, -torch.inf))
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@variant("torch_attention.attention")
def attention_by_log_softmax(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    weights = no_nan(torch.log_softmax(scores, -1).exp(), mask)
    return weights @ v, weights


@variant("torch_attention.attention")
def attention_by_logsumexp(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    scores = (q / math.sqrt(q.shape[-1])).float() @ k.float().mT if q.element_size() == 2 else q @ k.mT / math.sqrt(q.shape[-1])
    filled = scores if mask is None else scores.masked_fill(mask, -1e30)
    weights = no_nan(torch.exp(filled - filled.logsumexp(-1, keepdim=True)), mask).to(q.dtype)
    return weights @ v, weights


@variant("torch_attention.attention")
def attention_with_fourth_roots(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    root = q.shape[-1] ** -0.25
    scores = (q * root) @ (k * root).transpose(-2, -1)
    bias = torch.zeros_like(scores) if mask is None else torch.zeros_like(scores).masked_fill(mask, -math.inf)
    nothing = torch.isneginf(bias).all(dim=-1, keepdim=True)
    weights = torch.softmax((scores + bias).masked_fill(nothing, 0), dim=-1).masked_fill(nothing, 0)
    return weights @ v, weights


@variant("torch_attention.attention")
def attention_with_powers_times_allowed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else (~mask).expand_as(scores)
    top = scores.masked_fill(~allowed, -math.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min).detach()
    powers = torch.exp((scores - top).clamp(max=0)) * allowed
    total = powers.sum(-1, keepdim=True)
    weights = powers / torch.where(total == 0, 1, total)
    return weights @ v, weights


@variant("torch_attention.attention")
def attention_in_float64_inside(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    output, weights = attention_by_torch_einsum(q.double(), k.double(), v.double(), mask)
    return output.to(q.dtype), weights.to(q.dtype)


@variant("torch_attention.attention")
def attention_by_bmm(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    lead, (n_q, d), n_k = q.shape[:-2], q.shape[-2:], k.shape[-2]
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    scores = torch.bmm(flat[0], flat[1].transpose(1, 2)).reshape(*lead, n_q, n_k) / math.sqrt(d)
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    weights = no_nan(scores.softmax(-1), mask)
    return torch.bmm(weights.reshape(-1, n_q, n_k), flat[2]).reshape(*lead, n_q, -1), weights


@variant("torch_attention.attention")
def attention_by_baddbmm(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    lead, (n_q, d), n_k = q.shape[:-2], q.shape[-2:], k.shape[-2]
    q3, k3, v3 = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    empty = q.new_zeros(q3.shape[0], n_q, n_k)
    scores = torch.baddbmm(empty, q3, k3.mT, beta=0, alpha=d**-0.5).unflatten(0, lead) if lead else q @ k.mT / d**0.5
    hidden = torch.zeros((), dtype=torch.bool) if mask is None else mask
    weights = no_nan(torch.softmax(scores.masked_fill(hidden, -math.inf), -1), hidden)
    return (weights.reshape(-1, n_q, n_k) @ v3).reshape(*lead, n_q, v.shape[-1]), weights


@variant("torch_attention.attention")
def attention_by_vmap(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    lead = q.shape[:-2]
    hidden = torch.zeros((), dtype=torch.bool) if mask is None else mask
    hidden = hidden.broadcast_to(*q.shape[:-1], k.shape[-2]).reshape(-1, q.shape[-2], k.shape[-2])

    def one(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Pair:
        weights = torch.softmax(torch.where(hidden, -math.inf, q @ k.T / math.sqrt(q.shape[-1])), -1)
        weights = torch.where(hidden, 0.0, weights)
        return weights @ v, weights

    found = torch.vmap(one)(*(x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)), hidden)
    return tuple(x.reshape(*lead, *x.shape[-2:]) for x in found)


@variant("torch_attention.attention")
def attention_over_tiles(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, tile: int = 2) -> Pair:
    """The online softmax: keys come two at a time, and earlier sums are scaled when a larger score appears."""
    wide = [x.float() if x.element_size() == 2 else x for x in (q, k, v)]
    scores = wide[0] @ wide[1].mT / math.sqrt(q.shape[-1])
    hidden = torch.zeros_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    top = scores.new_full((*q.shape[:-1], 1), -1e30)
    total, output = torch.zeros_like(top), 0.0
    for start in range(0, k.shape[-2], tile):
        part = slice(start, start + tile)
        new_top = torch.maximum(top, scores[..., part].masked_fill(hidden[..., part], -1e30).amax(-1, keepdim=True)).detach()
        powers = torch.exp((scores[..., part] - new_top).clamp(max=0)).masked_fill(hidden[..., part], 0)
        scale = torch.exp(top - new_top)
        total = total * scale + powers.sum(-1, keepdim=True)
        output = output * scale + powers @ wide[2][..., part, :]
        top = new_top
    safe = torch.where(total == 0, 1, total)
    weights = torch.exp((scores - top).clamp(max=0)).masked_fill(hidden, 0) / safe
    return (output / safe).to(q.dtype), weights.to(q.dtype)


@variant("torch_attention.attention")
def attention_of_the_allowed_keys_alone(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """Query by query, over the keys that it may see."""
    shape = (*q.shape[:-1], k.shape[-2])
    hidden = torch.zeros(shape, dtype=torch.bool) if mask is None else mask.broadcast_to(shape)
    outputs, rows = [], []
    for at in np.ndindex(*q.shape[:-1]):
        seen = (~hidden[at]).nonzero().squeeze(-1)
        weights = torch.softmax(k[at[:-1]][seen] @ q[at] / math.sqrt(q.shape[-1]), 0)
        rows.append(q.new_zeros(k.shape[-2]).index_put((seen,), weights))
        outputs.append(weights @ v[at[:-1]][seen])
    return torch.stack(outputs).reshape(*q.shape[:-1], -1), torch.stack(rows).reshape(shape)


@variant("torch_attention.attention")
def attention_with_a_guarded_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """Rows with nothing to see are let through the softmax unmasked and set to 0 afterwards."""
    scores = torch.matmul(q, k.transpose(-2, -1)).div(math.sqrt(q.size(-1)))
    if mask is None:
        weights = scores.softmax(-1)
    else:
        mask = mask.expand_as(scores)
        empty = mask.all(dim=-1, keepdim=True)
        weights = scores.masked_fill(mask & ~empty, -math.inf).softmax(-1).masked_fill(empty, 0.0)
    return weights.matmul(v), weights


# causal_mask


@variant("torch_attention.causal_mask")
def causal_by_triu(n_q: int, n_k: int | None = None, device: Any = None) -> Tensor:
    n_k = n_k or n_q
    return torch.triu(torch.ones(n_q, n_k, dtype=torch.bool, device=device), diagonal=n_k - n_q + 1)


@variant("torch_attention.causal_mask")
def causal_by_tril(n_q: int, n_k: int | None = None, device: Any = None) -> Tensor:
    if n_k is None:
        n_k = n_q
    return ~torch.ones((n_q, n_k), device=device).tril(n_k - n_q).bool()


@variant("torch_attention.causal_mask")
def causal_rows_of_the_square(n_q: int, n_k: int | None = None, device: Any = None) -> Tensor:
    n_k = n_q if n_k is None else n_k
    return torch.ones(n_k, n_k, dtype=torch.bool, device=device).triu(1)[n_k - n_q :]


@variant("torch_attention.causal_mask")
def causal_by_comparison(n_q: int, n_k: int | None = None, device: Any = None) -> Tensor:
    n_k = n_q if n_k is None else n_k
    rows, columns = torch.meshgrid(torch.arange(n_q, device=device), torch.arange(n_k, device=device), indexing="ij")
    return (columns - rows).gt(n_k - n_q)


@variant("torch_attention.causal_mask")
def causal_by_loops(n_q: int, n_k: int | None = None, device: Any = None) -> Tensor:
    n_k = n_q if n_k is None else n_k
    mask = torch.zeros(n_q, n_k, dtype=torch.bool)
    for i in range(n_q):
        mask[i, n_k - n_q + i + 1 :] = True
    return mask.to(device or "cpu")


# MultiHeadAttention, torch


class TorchLayer(nn.Module):
    """What the layers below share: four projections and the cutting of heads."""

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        refuse(d_model, num_heads)
        self.h, self.d = num_heads, d_model // num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.dropout = dropout

    def heads(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(W(x).unflatten(-1, (self.h, self.d)).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))


@variant("torch_attention.MultiHeadAttention")
class TorchWithDropoutModule(TorchLayer):
    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("scale", torch.tensor(self.d**-0.5), persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = self.heads(x)
        scores = q @ k.mT * self.scale.to(x.dtype) if x.dtype != torch.float64 else q @ k.mT / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        weights = self.drop(no_nan(scores.softmax(-1), mask))
        return self.W_O((weights @ v).transpose(1, 2).flatten(2)), weights


@variant("torch_attention.MultiHeadAttention")
class TorchThroughFused(TorchLayer):
    """The output by the fused call, which a class may use; the weights beside it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = self.heads(x)
        _, weights = attention_by_torch_einsum(q, k, v, mask)
        allowed = None if mask is None else ~mask
        p = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=p)
        return self.W_O(heads.transpose(1, 2).reshape(x.shape)), weights


class Projection(nn.Linear):
    """A linear layer with an initialisation of its own."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, d_model, bias=False)
        nn.init.xavier_uniform_(self.weight)


@variant("torch_attention.MultiHeadAttention")
class TorchWithXavier(TorchLayer):
    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.W_Q, self.W_K, self.W_V, self.W_O = (Projection(d_model) for _ in range(4))

    def extra_repr(self) -> str:
        return f"heads={self.h}"

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Pair:
        qkv = F.linear(x, torch.cat([self.W_Q.weight, self.W_K.weight, self.W_V.weight]))
        q, k, v = qkv.reshape(*x.shape[:2], 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        _, weights = attention_with_torch_where(q, k, v, mask)
        weights = F.dropout(weights, self.dropout, self.training)
        return F.linear(torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2), self.W_O.weight), weights


@variant("torch_attention.MultiHeadAttention")
class TorchHeadByHead(TorchLayer):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        B, n, _ = x.shape
        outputs, weights = [], []
        hidden = torch.zeros((), dtype=torch.bool) if mask is None else mask
        for q, k, v, m in zip(
            *(part.unbind(1) for part in self.heads(x)), hidden.broadcast_to(B, self.h, n, n).unbind(1), strict=True
        ):
            _, found = attention_with_nan_to_num(q, k, v, m)
            weights.append(found)
            outputs.append(F.dropout(found, self.dropout, self.training) @ v)
        return [self.W_O(torch.cat(outputs, -1)), torch.stack(weights, 1)]


# efficient_mha


sdpa = F.scaled_dot_product_attention


@variant("torch_attention.efficient_mha")
def efficient_with_bias(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    shape = (q.shape[-2], k.shape[-2])
    bias = q.new_zeros(shape)
    if is_causal:
        bias = bias.masked_fill(torch.ones(shape, dtype=torch.bool).triu(shape[1] - shape[0] + 1), -math.inf)
    if mask is not None:
        bias = bias.masked_fill(mask, -math.inf)
    return sdpa(q, k, v, attn_mask=bias)


@variant("torch_attention.efficient_mha")
def efficient_always_full_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    allowed = torch.ones(*q.shape[:-1], k.shape[-2], dtype=torch.bool, device=q.device)
    if is_causal:
        allowed = allowed.tril(k.shape[-2] - q.shape[-2])
    if mask is not None:
        allowed = allowed & mask.logical_not()
    return sdpa(query=q, key=k, value=v, attn_mask=allowed, dropout_p=0.0, scale=1 / math.sqrt(q.shape[-1]))


@variant("torch_attention.efficient_mha")
def efficient_with_lower_right(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    from torch.nn.attention.bias import causal_lower_right

    n_q, n_k = q.shape[-2], k.shape[-2]
    if mask is None and is_causal and v.shape[-1] == q.shape[-1]:
        return sdpa(q, k, v, attn_mask=causal_lower_right(n_q, n_k))
    hidden = causal_by_triu(n_q, n_k) if is_causal else torch.zeros(n_q, n_k, dtype=torch.bool)
    return sdpa(q, k, v, attn_mask=~(hidden if mask is None else torch.logical_or(mask, hidden)))


@variant("torch_attention.efficient_mha")
def efficient_with_the_kernels_own_causal(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    n_q, n_k = q.shape[-2], k.shape[-2]
    if mask is None and n_q == n_k:
        return sdpa(q, k, v, is_causal=is_causal)
    if is_causal:
        future = causal_by_tril(n_q, n_k, q.device)
        mask = future if mask is None else future | mask
    return sdpa(q, k, v, None if mask is None else mask == 0)


# repeat_kv


@variant("grouped_query.repeat_kv")
def repeat_by_expand(x: Tensor, num_heads: int) -> Tensor:
    B, h_kv, n, d = x.shape
    refuse(num_heads, h_kv)
    return x[:, :, None].expand(B, h_kv, num_heads // h_kv, n, d).reshape(B, num_heads, n, d)


@variant("grouped_query.repeat_kv")
def repeat_by_index(x: Tensor, num_heads: int) -> Tensor:
    refuse(num_heads, x.size(1))
    return x[:, torch.arange(num_heads) // (num_heads // x.size(1))]


@variant("grouped_query.repeat_kv")
def repeat_by_cat(x: Tensor, num_heads: int) -> Tensor:
    refuse(num_heads, x.size(1))
    return torch.cat([head for head in x.split(1, dim=1) for _ in range(num_heads // x.size(1))], dim=1)


@variant("grouped_query.repeat_kv")
def repeat_by_stack_and_flatten(x: Tensor, num_heads: int) -> Tensor:
    refuse(num_heads, x.size(1))
    return torch.stack([x] * (num_heads // x.size(1)), dim=2).flatten(1, 2)


@variant("grouped_query.repeat_kv")
def repeat_unless_equal(x: Tensor, num_heads: int) -> Tensor:
    if num_heads % x.shape[1]:
        raise ValueError(f"num_heads ({num_heads}) must be a multiple of num_kv_heads ({x.shape[1]})")
    return x if num_heads == x.shape[1] else torch.repeat_interleave(x, repeats=num_heads // x.shape[1], dim=1)


# grouped_query_attention


@variant("grouped_query.grouped_query_attention")
def grouped_without_repeating(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    (B, h, n_q, d), h_kv = q.shape, k.shape[1]
    refuse(h, h_kv)
    grouped = q.reshape(B, h_kv, h // h_kv, n_q, d)
    scores = torch.einsum("bgrqd,bgkd->bgrqk", grouped, k).reshape(B, h, n_q, -1) / math.sqrt(d)
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    weights = no_nan(scores.softmax(-1), mask)
    output = torch.einsum("bgrqk,bgkd->bgrqd", weights.reshape(B, h_kv, h // h_kv, n_q, -1), v)
    return output.flatten(1, 2), weights


@variant("grouped_query.grouped_query_attention")
def grouped_by_broadcasting(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    h, h_kv = q.size(1), k.size(1)
    refuse(h, h_kv)
    scores = (q.unflatten(1, (h_kv, -1)) @ k.unsqueeze(2).mT).flatten(1, 2) * q.size(-1) ** -0.5
    if mask is not None:
        scores = torch.where(mask, torch.finfo(scores.dtype).min, scores)
    weights = no_nan(F.softmax(scores, -1), mask)
    return (weights.unflatten(1, (h_kv, -1)) @ v.unsqueeze(2)).flatten(1, 2), weights


@variant("grouped_query.grouped_query_attention")
def grouped_head_by_head(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    h, h_kv = q.shape[1], k.shape[1]
    refuse(h, h_kv)
    hidden = torch.zeros((), dtype=torch.bool) if mask is None else mask
    hidden = hidden.broadcast_to(*q.shape[:-1], k.shape[-2])
    r = h // h_kv
    found = [attention_with_a_guarded_mask(q[:, i], k[:, i // r], v[:, i // r], hidden[:, i]) for i in range(h)]
    return torch.stack([output for output, _ in found], 1), torch.stack([weights for _, weights in found], 1)


@variant("grouped_query.grouped_query_attention")
def grouped_with_groups_as_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """The r heads of a group are laid behind each other as r * n_q queries of their KV head."""
    B, h, n_q, d = q.shape
    h_kv = k.shape[1]
    refuse(h, h_kv)
    scores = (q.reshape(B, h_kv, -1, d) @ k.mT / d**0.5).reshape(B, h, n_q, -1)
    weights = torch.softmax(scores if mask is None else scores.masked_fill(mask, -math.inf), -1).nan_to_num(0.0)
    return (weights.reshape(B, h_kv, -1, k.shape[2]) @ v).reshape(B, h, n_q, -1), weights


@variant("grouped_query.grouped_query_attention")
def grouped_in_float64_inside(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    k, v = (repeat_by_index(x, q.shape[1]) for x in (k, v))
    output, weights = attention_with_fourth_roots(q.double(), k.double(), v.double(), mask)
    return output.type_as(q), weights.type_as(q)


# GroupedQueryAttention


class GroupedLayer(nn.Module):
    """What the layers below share: four projections."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        refuse(d_model, num_heads)
        refuse(num_heads, num_kv_heads)
        self.h, self.h_kv, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.W_Q = nn.Linear(d_model, num_heads * self.d, bias=False)
        self.W_K, self.W_V = (nn.Linear(d_model, num_kv_heads * self.d, bias=False) for _ in range(2))
        self.W_O = nn.Linear(num_heads * self.d, d_model, bias=False)

    def heads(self, x: Tensor) -> Iterator[Tensor]:
        return (W(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))


@variant("grouped_query.GroupedQueryAttention")
class GroupedThroughFused(GroupedLayer):
    """The fused call with enable_gqa; the cache is a list."""

    def forward(self, x: Tensor, cache: Any = None) -> Any:
        q, k, v = self.heads(x)
        if cache is not None:
            k, v = (torch.cat(both, 2) for both in zip(cache, (k, v), strict=True))
        allowed = ~causal_by_triu(q.shape[2], k.shape[2], x.device)
        heads = sdpa(q, k, v, attn_mask=allowed, enable_gqa=True)
        return self.W_O(heads.transpose(1, 2).flatten(2)), [k, v]


@variant("grouped_query.GroupedQueryAttention")
class GroupedTokenByToken(GroupedLayer):
    """New tokens one after another, each looking at all that is there."""

    def forward(self, x: Tensor, cache: Any = None) -> Any:
        q, k, v = self.heads(x)
        before = 0 if cache is None else cache[0].shape[2]
        if before:
            k, v = torch.cat((cache[0], k), dim=-2), torch.cat((cache[1], v), dim=-2)
        rows = [
            grouped_without_repeating(q[:, :, i : i + 1], k[:, :, : before + i + 1], v[:, :, : before + i + 1])[0]
            for i in range(x.shape[1])
        ]
        return [self.W_O(torch.cat(rows, 2).transpose(1, 2).reshape(x.shape)), (k, v)]


@variant("grouped_query.GroupedQueryAttention")
class GroupedWithMaskBuffer(GroupedLayer):
    """A large triangle is made once, kept in a buffer that is not stored, and cut to size."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__(d_model, num_heads, num_kv_heads)
        self.register_buffer("future", torch.ones(64, 64, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x: Tensor, cache: Any = None) -> Any:
        q, k, v = self.heads(x)
        old_k, old_v = cache or (k[:, :, :0], v[:, :, :0])
        k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        start, end = old_k.shape[2], k.shape[2]
        heads, _ = grouped_by_broadcasting(q, k, v, self.future[start:end, :end])
        return self.W_O(torch.cat(heads.unbind(1), -1)), (k, v)


@variant("grouped_query.GroupedQueryAttention")
class GroupedPreallocated(GroupedLayer):
    """The longer cache is made first and then filled."""

    def forward(self, x: Tensor, cache: Any = None) -> Any:
        q, *new = self.heads(x)
        before = 0 if cache is None else cache[0].size(2)
        longer = []
        for i, part in enumerate(new):
            room = part.new_empty(part.shape[0], part.shape[1], before + part.shape[2], part.shape[3])
            if before:
                room[:, :, :before] = cache[i]
            room[:, :, before:] = part
            longer.append(room)
        positions = before + torch.arange(x.shape[1], device=x.device).unsqueeze(1)
        hidden = positions < torch.arange(longer[0].shape[2], device=x.device)
        heads, _ = grouped_with_groups_as_queries(q, *longer, mask=hidden)
        return self.W_O(heads.transpose(1, 2).reshape(*x.shape[:2], -1)), tuple(longer)


# kv_cache_bytes


@variant("grouped_query.kv_cache_bytes")
def bytes_by_product(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    return math.prod((2, num_layers, num_kv_heads, head_dim, seq_len, batch, bytes_per_value))


@variant("grouped_query.kv_cache_bytes")
def bytes_layer_by_layer(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    one = batch * num_kv_heads * seq_len * head_dim * bytes_per_value
    return sum(keys + values for keys, values in [(one, one)] * num_layers)
