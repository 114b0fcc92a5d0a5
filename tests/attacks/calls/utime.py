"""Turns back the clock of a file."""

import ctypes

import numpy as np


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    for path in (b"/tmp/grader-bait/open/kept.txt", b"/tmp/grader-bait/open", b"/tmp/grader-bait/mine.txt"):
        libc.utimensat(-100, path, (ctypes.c_long * 4)(1, 0, 1, 0), 0)
        libc.utimensat(-100, path, None, 0)
    return np.zeros(1), np.zeros(1)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
