"""Connects over TCP past the hooks."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    d = libc.socket(2, 1, 0)
    address = bytes([2, 0, 47113 >> 8, 47113 & 255, 127, 0, 0, 1]) + bytes(8)
    libc.connect(d, address, 16)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
