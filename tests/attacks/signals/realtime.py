"""Ends itself by a signal that has no name."""

import os


def attack(*args, **kwargs):
    os.kill(os.getpid(), 40)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
