"""Prints without end."""


def attack(*args, **kwargs):
    while True:
        print("x" * 10**6)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
