"""Runs out of stack in C."""

import sys


def attack(*args, **kwargs):
    sys.setrecursionlimit(10**8)

    def f(x):
        return f(x)

    return f(1)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
