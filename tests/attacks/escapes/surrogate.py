"""Sends text that can not be encoded."""


def attack(*args, **kwargs):
    print("\ud800\udfff\U0010ffff")
    raise ValueError("\ud800\udfff\U0010ffff")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
