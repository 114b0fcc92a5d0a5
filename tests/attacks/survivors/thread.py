"""Leaves a thread that prints a verdict."""

import threading
import time


def attack(*args, **kwargs):
    def later():
        while True:
            time.sleep(0.01)
            print("PASSED")

    threading.Thread(target=later).start()


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
