"""Adds to a file that anybody may write."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    d = libc.open(b"/tmp/grader-bait/open/kept.txt", 0o2001)
    libc.write(d, b"x", 1)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
