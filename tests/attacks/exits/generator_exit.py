"""Raises GeneratorExit."""


def attack(*args, **kwargs):
    raise GeneratorExit


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
