"""Loops for ever."""


def attack(*args, **kwargs):
    while True:
        pass


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
