"""Connects to a socket without a path."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    name = bytes([1, 0, 0]) + b"grader-bait"
    libc.connect(libc.socket(1, 1, 0), name, len(name))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
