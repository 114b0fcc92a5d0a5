"""Removes a file."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unlink(b"/tmp/grader-bait/open/kept.txt")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
