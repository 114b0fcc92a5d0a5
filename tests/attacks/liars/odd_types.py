"""Answers with arrays of objects, records, dates, text and no numbers at all."""

import itertools

import numpy as np

KINDS = itertools.cycle(
    [
        lambda shape: np.full(shape, None, dtype=object),
        lambda shape: np.zeros(shape, dtype=[("a", "f8"), ("b", "f8")]),
        lambda shape: np.zeros(shape, dtype="datetime64[s]"),
        lambda shape: np.full(shape, "passed"),
        lambda shape: np.zeros(shape, dtype="V8"),
        lambda shape: np.zeros(shape, dtype=">f8"),
        lambda shape: np.zeros(shape, dtype=np.longdouble),
        lambda shape: np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 20, 1 << 20, 1 << 20), (0, 0, 0)),
        lambda shape: np.ma.masked_all(shape),
        lambda shape: np.zeros((0, 1 << 60)),
        lambda shape: np.float64("nan"),
    ]
)


def attack(x, *args, **kwargs):
    return next(KINDS)(x.shape), next(KINDS)(x.shape)


softmax = split_heads = merge_heads = lambda x, *args: next(KINDS)(x.shape)
attention = MultiHeadAttention = attack
