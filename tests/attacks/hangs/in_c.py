"""Stays in C, where no Python signal handler runs."""


def attack(*args, **kwargs):
    return sum(range(10**14))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
