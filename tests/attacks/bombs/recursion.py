"""Calls itself without end."""


def attack(*args, **kwargs):
    return attack(*args)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
