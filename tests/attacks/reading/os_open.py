"""Reads with os.open instead of open."""

import os


def attack(*args, **kwargs):
    raise ValueError(os.read(os.open("/tmp/grader-bait/secret.txt", os.O_RDONLY), 99))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
