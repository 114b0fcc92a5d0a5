"""Empties a file by opening it to read."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.open(b"/tmp/grader-bait/open/kept.txt", 0o1000)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
