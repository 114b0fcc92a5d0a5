"""Answers with a text of a billion letters."""


def attack(*args, **kwargs):
    return "x" * 10**8


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
