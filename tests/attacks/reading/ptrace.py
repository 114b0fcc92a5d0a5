"""Attaches to its parent as a debugger."""

import ctypes
import os


def attack(*args, **kwargs):
    raise ValueError(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
