"""What of a mistake can be seen at all through the interface of another course: only that is theirs to catch.

A mistake counts when it gives, on any of these calls, something else than a right answer does, as far as their interface
shows it: an output, where theirs has no weights; square causal masks, where theirs knows no others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from grader.diagnosis.recording import Call as Recorded
from grader.diagnosis.recording import replay

Call = Callable[..., Any]
Probe = tuple[Call, tuple[Any, ...]]


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape) * 1.5


def tensor(seed: int, *shape: int, dtype: Any = torch.float32, grad: bool = True) -> Any:
    return torch.tensor(normal(seed, *shape), dtype=dtype, requires_grad=grad)


def softmax(call: Call) -> Iterator[Probe]:
    """Any shape, also one that is huge, and a row that is hidden."""
    rows = normal(1, 3, 5)
    rows[1] = -np.inf
    for x in (normal(2, 5), normal(3, 3, 5), normal(4, 2, 3, 4).astype(np.float32), normal(5, 2, 4) * 1e4, rows):
        yield call, (x,)


def attention(call: Call, only_output: bool = False) -> Iterator[Probe]:
    """Sizes that are all different, two and three leading axes, masks, a hidden row, other dtypes."""
    for lead in ((2,), (2, 3), ()):
        for dtype in (torch.float32, torch.float64):
            q, k, v = (tensor(at, *lead, n, d, dtype=dtype) for at, (n, d) in enumerate(((4, 5), (6, 5), (6, 7))))
            mask = torch.tensor(normal(9, *lead, 4, 6) > 0.4)
            hidden = mask.clone()
            hidden[..., 1, :] = True
            for chosen in (None, mask, hidden):
                yield (lambda *qkvm: call(*qkvm)[0]) if only_output else call, (q, k, v, chosen)


def square_attention(call: Call) -> Iterator[Probe]:
    """NumPy, with q, k and v of one shape (B, n, d)."""
    q, k, v = (normal(at, 2, 4, 5) for at in range(3))
    for mask in (None, np.triu(np.ones((4, 4), bool), 1), normal(5, 2, 4, 4) > 0.4):
        yield call, (q, k, v, mask)


def causal(call: Call) -> Iterator[Probe]:
    """Square masks."""
    yield from ((call, (n,)) for n in (1, 2, 5))


def layer(call: Call) -> Iterator[Probe]:
    """What comes out, and flows back, with given matrices; and whether sizes that do not divide are refused."""

    def run(x: Any, *matrices: Any) -> Any:
        made = call(8, 2).eval()
        named = {f"W_{name}.weight": matrix for name, matrix in zip("QKVO", matrices, strict=True)}
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return torch.func.functional_call(made, named, (x, mask))[0]

    yield run, (tensor(1, 2, 5, 8), *(tensor(at, 8, 8) for at in range(2, 6)))
    yield lambda *sizes: call(*sizes) and None, (10, 3)


def numpy_layer(call: Call) -> Iterator[Probe]:
    """What comes out with and without a mask, the matrices, and whether sizes that do not divide are refused."""

    def run(x: Any, mask: Any = None) -> Any:
        made = call(8, 2, np.random.default_rng(0))
        return made.forward(x, mask)[0], *(getattr(made, f"W_{name}") for name in "QKVO")

    yield run, (normal(1, 2, 5, 8),)
    yield run, (normal(1, 2, 5, 8), np.triu(np.ones((5, 5), bool), 1))
    yield lambda *sizes: call(*sizes) and None, (10, 3)


def cached(call: Call) -> Iterator[Probe]:
    """As many KV heads as query heads, with given parameters: at once, and token by token."""

    def made() -> Any:
        layer = call(8, 2, 2).eval()
        for name, parameter in layer.named_parameters():
            parameter.data = tensor(zlib.crc32(name.encode()), *parameter.shape, grad=False)
        return layer

    def at_once(x: Any) -> Any:
        return made()(x)[0]

    def one_by_one(x: Any) -> Any:
        cache, outputs, it = None, [], made()
        for token in x.unbind(1):
            output, cache = it(token[:, None], cache)
            outputs.append(output)
        return torch.cat(outputs, 1)

    x = tensor(1, 2, 5, 8)
    yield from ((run, (x,)) for run in (at_once, one_by_one))


def shows(probes: Callable[[Call], Iterator[Probe]], right: Call, wrong: Call) -> bool:
    """Whether a wrong answer differs from the right one on any of these calls."""
    pairs = zip(probes(right), probes(wrong), strict=True)
    return any(not _seen(*due).matches(_seen(*got)) for due, got in pairs)


def _seen(call: Call, args: tuple[Any, ...]) -> Any:
    seen = replay(Recorded("probe", args, {}), call)
    return replace(seen, numbers=(), error="an error" if seen.error else "")  # how it is worded is ours
