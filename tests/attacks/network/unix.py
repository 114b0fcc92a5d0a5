"""Connects to a socket that has a path."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    name = bytes([1, 0]) + b"/tmp/grader-bait/socket"
    libc.connect(libc.socket(1, 1, 0), name + bytes(110 - len(name)), 110)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
