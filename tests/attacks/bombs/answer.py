"""Answers with a list of a million numbers."""


def attack(*args, **kwargs):
    return list(range(10**6))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
