"""Raises SystemExit(0)."""

import sys


def attack(*args, **kwargs):
    sys.exit(0)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
