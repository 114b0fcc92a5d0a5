"""Sends its answer a byte at a time."""

import os
import time


def attack(*args, **kwargs):
    while True:
        os.write(3, b"\0")
        time.sleep(0.05)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
