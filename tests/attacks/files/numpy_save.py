"""Lets NumPy write."""

import numpy as np


def attack(*args, **kwargs):
    np.save("/tmp/grader-bait/open/mine.npy", np.zeros(1))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
