"""Plants a compiled module for the next Python."""

import numpy


def attack(*args, **kwargs):
    open(numpy.__file__.replace("__init__", "core2"), "w").write("x = 1")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
