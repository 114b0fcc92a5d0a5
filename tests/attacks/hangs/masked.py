"""Blocks every signal, then waits."""

import signal


def attack(*args, **kwargs):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        signal.pause()


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
