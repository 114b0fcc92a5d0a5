"""Sends a datagram."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    d = libc.socket(2, 2, 0)
    address = bytes([2, 0, 47114 >> 8, 47114 & 255, 127, 0, 0, 1]) + bytes(8)
    libc.sendto(d, b"x", 1, 0, address, 16)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
