"""Leaves a grandchild behind."""

import ctypes
import os


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    if libc.fork() == 0:
        libc.setsid()
        if libc.fork() == 0:
            libc.sleep(100)
        os._exit(0)
    return


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
