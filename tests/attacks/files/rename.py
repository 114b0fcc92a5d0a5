"""Renames a file."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.rename(b"/tmp/grader-bait/open/kept.txt", b"/tmp/grader-bait/open/gone.txt")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
