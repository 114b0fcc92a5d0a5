"""Waits for a lock that it holds."""

import threading


def attack(*args, **kwargs):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
