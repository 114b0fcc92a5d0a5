"""Sends control sequences to the terminal."""


def attack(*args, **kwargs):
    print("\x1b[2J\x1b[31mPASSED\x1b]0;owned\x07")
    raise ValueError("\x1b[2J\x1b[31mPASSED\x1b]0;owned\x07")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
