"""Raises KeyboardInterrupt, as if a person had stopped the grader."""


def attack(*args, **kwargs):
    raise KeyboardInterrupt


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
