"""What the right parts of a torch recipe gave in one call: replays of its variants run only what follows the wrong part."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from .seen import Part, kind_of, leaves


class Kept:
    """Answers of right parts, each with the arguments that it was given: held, so that no other object gets their ids."""

    def __init__(self, *given: Any) -> None:
        self.given = given  # to the recipe, and to all its variants
        self.opened = True  # until the right recipe was replayed
        self.steady = self.substitutes = False
        self.missed = 0
        self.answers: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.answer: Any = None  # of the whole
        self.looks: dict[int, Part | None] = {}  # at its leaves, by id
        self.tensors, self.outsides = list[Any](), list[Any]()
        self.leaves = [*map(id, leaves(given))]
        self._watch(given)

    @contextmanager
    def used(self, substitutes: bool) -> Iterator[None]:
        """In this block right parts answer from here; the first time what they answer is kept, if none draws random numbers.

        With `substitutes`, a wrong part that answers the same gives way to the right answer, whose gradients may differ.
        """
        self.substitutes = substitutes
        token, before = NOW.set(self), _random_state() if self.opened else b""
        try:
            yield
        finally:
            NOW.reset(token)
            if self.opened:
                self.opened, self.steady = False, _random_state() == before
                self.answers = self.answers if self.steady else {}

    def keep(self, key: tuple[Any, ...], args: Any, answer: Any) -> None:
        """Keep what the right part in `key` answered to `args`."""
        self.answers[key] = args, answer
        self._watch(answer)

    def looks_at(self, answer: Any) -> dict[int, Part | None]:
        """Looks at the first answer of the whole, the right one, parts of which many a variant gives."""
        if self.answer is None:
            self.answer, self.looks = answer, dict.fromkeys(map(id, leaves(answer)))
        return self.looks

    def _watch(self, values: Any) -> None:
        tensors = [leaf for leaf in leaves(values) if kind_of(leaf) == "tensor"]
        self.tensors += tensors
        self.outsides += map(_outside, tensors)

    @property
    def spoilt(self) -> bool:
        """Whether a variant changed something that is kept."""
        return [*map(id, leaves(self.given))] != self.leaves or [*map(_outside, self.tensors)] != self.outsides


NOW: ContextVar[Kept | None] = ContextVar("NOW", default=None)


@dataclass(frozen=True, eq=False)
class Slot:
    """A right part in its slot, or a wrong `part` in its place."""

    right: Callable[..., Any]
    part: Callable[..., Any]
    wrong: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kept = NOW.get()
        if kept is None or kwargs:
            return self.part(*args, **kwargs)
        key = (self.right, *map(_named, args))
        known = kept.answers.get(key)
        if known is not None and not self.wrong:
            return known[1]
        answer = self.part(*args)
        if kept.opened:
            kept.keep(key, args, answer)
        return known[1] if known is not None and kept.substitutes and alike(answer, known[1]) else answer


def _named(value: Any) -> Any:
    """Sizes and devices by their value; arrays and what holds them by their id."""
    by_id = type(value).__hash__ is None or isinstance(value, tuple) or hasattr(value, "shape")
    return id(value) if by_id else value


def alike(mine: Any, right: Any) -> bool:
    """Whether nothing that follows can tell them apart, but for the way that gradients take."""
    if type(mine) is not type(right):
        return False
    if isinstance(mine, tuple | list):
        return len(mine) == len(right) and all(map(alike, mine, right))
    if kind_of(mine) == "tensor":
        traits, others = ((x.shape, x.dtype, x.stride(), x.requires_grad, x.device) for x in (mine, right))
        return bool(traits == others and mine.device.type != "meta" and mine.equal(right))
    return isinstance(mine, bool | int | float | str | None) and mine == right


def _outside(tensor: Any) -> tuple[int, bool]:
    """What changes with a tensor, even when it is another that it shares its numbers with that is written into."""
    return tensor._version, tensor.requires_grad


def _random_state() -> bytes:
    torch = sys.modules["torch"]
    return bytes(torch.default_generator.get_state().numpy())


def duplicate(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A copy of nested arguments that later changes can't reach; strides, requires_grad and what is the same object stay."""
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = _duplicate(value, memo)
    return memo[id(value)]


def _duplicate(value: Any, memo: dict[int, Any]) -> Any:
    kind = kind_of(value)
    if kind == "tensor":
        if value.device.type == "meta":
            return value
        dense = value.detach() if 0 not in value.stride() else value.detach()[_dense(value.stride())]
        return dense.clone().expand(value.shape).requires_grad_(value.requires_grad)
    if kind == "array":
        dense = value if 0 not in value.strides else value[_dense(value.strides)]
        return np.broadcast_to(dense.copy(order="K"), value.shape) if dense is not value else value.copy(order="K")
    if isinstance(value, tuple | list):
        return type(value)(duplicate(item, memo) for item in value)
    if isinstance(value, dict):
        return {key: duplicate(item, memo) for key, item in value.items()}
    return copy.deepcopy(value) if isinstance(value, np.random.Generator) else value


def _dense(strides: tuple[int, ...]) -> tuple[slice, ...]:
    """Of axes that an expanded array only repeats, the first."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
