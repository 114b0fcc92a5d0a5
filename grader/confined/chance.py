"""Random numbers in one call of a student's code: torch's are the same on both sides of the wall, and in a replay."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

SEED: ContextVar[int | None] = ContextVar("SEED", default=None)  # of the call that is being made
_SOWN = [0, 0]  # the seed of this call, and how many generators have been made from it


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """In this block torch draws from `seed`; its generator goes on afterwards as if nothing had been drawn."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.default_generator.get_state()
    token = SEED.set(seed)
    try:
        sow(seed)
        yield
    finally:
        SEED.reset(token)
        if torch is not None and before is not None:
            torch.default_generator.set_state(before)


def sow(seed: int | None) -> None:
    """Let torch's generator begin at `seed`, if torch is there, and NumPy's that are made without one."""
    if seed is None:
        return
    _SOWN[:] = seed, 0
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also queues work for GPUs, open or not
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)


def repeatable(default_rng: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's `default_rng` with the same seeds in every run, one after another, where it would ask the system for one."""

    @functools.wraps(default_rng)
    def made(seed: Any = None) -> Any:
        _SOWN[1] += seed is None
        return default_rng(list(_SOWN) if seed is None else seed)

    return made
