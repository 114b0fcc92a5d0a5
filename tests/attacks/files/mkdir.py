"""Makes a folder."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mkdir(b"/tmp/grader-bait/open/folder", 0o777)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
