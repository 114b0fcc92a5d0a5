"""Copies from its parent's memory."""

import ctypes
import os


def attack(*args, **kwargs):
    raise ValueError(ctypes.CDLL(None).process_vm_readv(os.getppid(), 0, 0, 0, 0, 0))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
