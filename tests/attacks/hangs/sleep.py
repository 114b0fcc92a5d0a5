"""Sleeps for ever."""

import time


def attack(*args, **kwargs):
    time.sleep(10**6)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
