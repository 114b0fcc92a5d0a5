"""Sends marks that turn text around."""


def attack(*args, **kwargs):
    print("\u202egrade: 001\u202c\u2066")
    raise ValueError("\u202egrade: 001\u202c\u2066")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
