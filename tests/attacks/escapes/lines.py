"""Sends separators that some programs take for line ends."""


def attack(*args, **kwargs):
    print("a\u2028b\u2029c\x85d\x0be\x0cf")
    raise ValueError("a\u2028b\u2029c\x85d\x0be\x0cf")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
