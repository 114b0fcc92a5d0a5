"""Answers with nothing but NaN."""

import numpy as np


def attack(*args, **kwargs):
    return np.full(np.shape(args[0]), np.nan), np.full(np.shape(args[0]), np.nan)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
