"""Inputs on which known mistakes give other numbers than right code: distinct sizes, values of std 1.5, hidden best keys."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from checks import torch

PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O")


def values(rng: Generator, *shape: int) -> NDArray[np.float64]:
    return rng.normal(size=shape) * 1.5


def labels(*shape: int) -> NDArray[np.float64]:
    """Every number says where it started."""
    return np.arange(float(np.prod(shape))).reshape(shape)


def qkv(
    rng: Generator, lead: tuple[int, ...] = (2, 3), n_q: int = 4, n_k: int = 6, d_k: int = 5, d_v: int = 7
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    return values(rng, *lead, n_q, d_k), values(rng, *lead, n_k, d_k), values(rng, *lead, n_k, d_v)


def grouped(
    rng: Generator, heads: int = 6, kv_heads: int = 2, batch: int = 2, **sizes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """q with more heads than k and v; heads / kv_heads is not kv_heads."""
    q, _, _ = qkv(rng, (batch, heads), **sizes)
    _, k, v = qkv(rng, (batch, kv_heads), **sizes)
    return q, k, v


def best_keys_mask(rng: Generator, q: NDArray[Any], k: NDArray[Any]) -> NDArray[np.bool_]:
    """Hides every query's best key and some others, never all: the shape of the weights."""
    scores = q @ k.swapaxes(-2, -1)
    mask = rng.random(scores.shape) < 0.3
    best, worst = scores.argmax(-1)[..., None], scores.argmin(-1)[..., None]
    np.put_along_axis(mask, best, True, axis=-1)
    np.put_along_axis(mask, worst, False, axis=-1)
    return mask


def extreme(rng: Generator, q: NDArray[Any], k: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Two huge queries, and a mask under which query 0 sees its worst key alone: what it hides scores thousands more."""
    q = q.copy()
    q[..., :2, :] *= 4000
    mask = best_keys_mask(rng, q, k)
    worst = (q @ k.swapaxes(-2, -1))[..., 0, :].argmin(-1)
    mask[..., 0, :] = np.arange(k.shape[-2]) != worst[..., None]
    return q, mask


def mask_of(rng: Generator, *shape: int) -> NDArray[np.bool_]:
    """A mask whose rows each hide a key or more and show two or more, where they are long enough for that."""
    if shape[-1] > 2:
        places = rng.random(shape).argsort(axis=-1)
        return places < rng.integers(1, shape[-1] - 1, size=(*shape[:-1], 1))
    mask = rng.random(shape) < 0.5
    if mask.size > 1:
        mask.flat[0], mask.flat[-1] = True, False
    return mask


def matrices(rng: Generator, d_model: int, d_kv: int | None = None) -> dict[str, NDArray[np.float64]]:
    """Four different projections, used as `x @ W`, that keep the size of what they project."""
    columns = {"W_K": d_kv or d_model, "W_V": d_kv or d_model}
    return {name: values(rng, d_model, columns.get(name, d_model)) / d_model**0.5 for name in PROJECTIONS}


def rows(rng: Generator, *shape: int, sharpness: float = 1.5) -> NDArray[np.float64]:
    """Weights: rows that are positive and sum to 1, the more uneven the sharper."""
    powers = np.exp(rng.normal(size=shape) * sharpness)
    return powers / powers.sum(-1, keepdims=True)


def head(n: int, **shares: float) -> NDArray[np.float64]:
    """Weights (n, n) made of patterns, as much of each as is said; the rest is spread evenly over all keys."""
    first = np.eye(1, n).repeat(n, 0)
    back = np.eye(n, k=-1)
    back[0, -1] = 1.0  # token 0 has no token before it, and looks elsewhere
    patterns = {
        **{"sink": first, "previous": back, "own": np.eye(n), "next": back.T, "last": first[:, ::-1]},
        **{"far": np.eye(n)[(np.arange(n) + 2) % n], "opposite": np.eye(n)[::-1], "before_that": back @ back},
    }
    even = (1.0 - sum(shares.values())) / n
    return sum((share * patterns[name] for name, share in shares.items()), np.full((n, n), even))


def tensor(array: NDArray[Any], dtype: str = "", grad: bool = False) -> Any:
    """A tensor of its own with these numbers; `grad` asks for its gradient."""
    made = torch.tensor(array, dtype=getattr(torch, dtype) if dtype else None)
    return made.requires_grad_(grad)


def tensors(*arrays: NDArray[Any], dtype: str = "", grad: bool = False) -> tuple[Any, ...]:
    return tuple(tensor(array, dtype, grad) for array in arrays)


def doubles(*tensors: Any) -> tuple[NDArray[np.float64], ...]:
    """The exact values of tensors, for an oracle: copies, that nobody who has the tensors can change."""
    return tuple(x.detach().double().numpy().copy() for x in tensors)


def load(module: Any, arrays: dict[str, NDArray[Any]]) -> None:
    """Give a module, once its parameters are known to be right, these matrices; nn.Linear keeps (out, in), so each is turned."""
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, array in arrays.items():
            parameters[f"{name}.weight"].copy_(torch.tensor(array).T)


_drawn: dict[Any, list[Any]] = {}  # every submission of a class is asked with the same cases


def drawn(rng: Generator, draw: Callable[[Any], Any], count: int = 5) -> list[Any]:
    """`count` cases drawn by Hypothesis, as data: failing code is neither called again nor shrunk, so it costs no more.

    `draw` makes the strategy and depends on nothing but its code.
    """
    key = int(rng.integers(2**32)), draw.__code__, count
    if key not in _drawn:
        _drawn[key] = _cases(key[0], draw, count)
    return copy.deepcopy(_drawn[key])


def _cases(number: int, draw: Callable[[Any], Any], count: int) -> list[Any]:
    from hypothesis import HealthCheck, Phase, given, seed, settings, strategies

    cases: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(draw(strategies))
    def collect(case: Any) -> None:
        cases.append(case)

    collect()
    return cases


def gradients(reference: Callable[..., Any], arrays: tuple[NDArray[Any], ...], upstream: Any) -> tuple[Any, ...]:
    """What a right function sends back to each of these arrays, which it gets as tensors of its own."""
    leaves = tensors(*arrays, grad=True)
    return tuple(torch.autograd.grad((reference(*leaves) * upstream).sum(), leaves))  # given upstream, torch would import SymPy


def torch_mha(matrices: dict[str, NDArray[Any]], num_heads: int) -> Any:
    """nn.MultiheadAttention in float64 that holds these matrices."""
    d_model = len(matrices["W_Q"])
    mha = torch.nn.MultiheadAttention(d_model, num_heads, bias=False, batch_first=True, dtype=torch.double)
    with torch.no_grad():
        mha.in_proj_weight.copy_(torch.tensor(np.concatenate([matrices[name].T for name in PROJECTIONS[:3]])))
        mha.out_proj.weight.copy_(torch.tensor(matrices["W_O"].T))
    return mha
