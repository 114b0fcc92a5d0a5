"""Torch's random numbers in one call of a student's code: the same on both sides of the wall, and in a replay."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SEED: ContextVar[int | None] = ContextVar("SEED", default=None)  # of the call that is being made


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
    """Let torch's generator begin at `seed`, if torch is there."""
    torch = sys.modules.get("torch")
    if torch is not None and seed is not None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also queues work for GPUs
