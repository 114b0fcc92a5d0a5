"""Opens a path without reading it, then its handle."""

import os


def attack(*args, **kwargs):
    d = os.open("/tmp/grader-bait/secret.txt", os.O_PATH)
    raise ValueError(open(f"/proc/self/fd/{d}").read())


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
