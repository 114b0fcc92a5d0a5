"""Takes one enormous block."""

import numpy as np


def attack(*args, **kwargs):
    return np.ones(1 << 34)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
