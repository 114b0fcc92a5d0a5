"""Writes a file past the hooks."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    d = libc.open(b"/tmp/grader-bait/open/mine.txt", 0o102, 0o644)
    libc.write(d, b"x", 1)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
