"""Puts escapes into the names of its class and function."""


def attack(*args, **kwargs):
    raise type("\x1b[31m<b>", (ValueError,), {})("x")


attack.__qualname__ = "\x1b]0;x\x07"


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
