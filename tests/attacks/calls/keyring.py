"""Leaves a key with the kernel."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    for ring in (-4, -5):  # of the user, and of the user's sessions
        libc.syscall(248, b"user", b"note", b"42", ctypes.c_size_t(2), ring)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
