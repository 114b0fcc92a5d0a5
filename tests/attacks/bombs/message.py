"""Raises with a message of a billion letters."""


def attack(*args, **kwargs):
    raise ValueError("x" * 10**8)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
