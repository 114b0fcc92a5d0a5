"""Answers with memory that a thread goes on changing."""

import threading

import numpy as np

memory = np.zeros(1000)


def churn():
    while True:
        memory[:] = np.random.random(1000)


threading.Thread(target=churn, daemon=True).start()


def attack(*args, **kwargs):
    return memory


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
