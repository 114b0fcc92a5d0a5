"""Computes a number with a billion digits."""


def attack(*args, **kwargs):
    return 10 ** (10**9)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
