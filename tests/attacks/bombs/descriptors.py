"""Opens files without end."""

import os


def attack(*args, **kwargs):
    for _ in range(10**5):
        os.open("/dev/null", os.O_RDONLY)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
