"""Waits for input."""

import sys


def attack(*args, **kwargs):
    while not sys.stdin.read():
        pass


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
