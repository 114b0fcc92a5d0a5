"""What NumPy and torch call differently, so that one mistake serves both. Nothing here is wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

Array = np.ndarray | torch.Tensor
Pair = tuple[Array, Array]
Part = Callable[..., Any]  # what stands in a slot of a recipe


def xp(x: Array) -> ModuleType:
    """The library that x is of."""
    return torch if isinstance(x, torch.Tensor) else np


def as_float(x: Array) -> Array:
    """Integers in NumPy count as float64."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind in "iub" else x


def cast(x: Array, dtype: Any) -> Array:
    """The numbers of x in another type, which may be a name."""
    if isinstance(x, np.ndarray):
        return x.astype(dtype)
    return x.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)


def turn(x: Array, *axes: int) -> Array:
    return x.transpose(axes) if isinstance(x, np.ndarray) else x.permute(axes)


def flip(x: Array, axis: int) -> Array:
    return np.flip(x, axis) if isinstance(x, np.ndarray) else torch.flip(x, (axis,))


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.expand(shape)


def new(x: Array, *shape: int) -> Array:
    """Zeros in the type that the library takes when nobody says which: float64 in NumPy, float32 in torch."""
    return np.zeros(shape) if isinstance(x, np.ndarray) else torch.zeros(shape, device=x.device)


def divides(whole: int, parts: int) -> bool:
    return whole % parts == 0
