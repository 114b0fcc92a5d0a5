"""Stops itself."""

import os
import signal


def attack(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGSTOP)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
