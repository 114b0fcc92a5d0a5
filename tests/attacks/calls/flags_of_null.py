"""Leaves a note for the next submission in the flags of a descriptor that both have."""


def attack(*args, **kwargs):
    import fcntl
    import os

    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_APPEND)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
