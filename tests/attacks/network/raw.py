"""Opens raw, netlink and packet sockets."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    raise ValueError([libc.socket(*kind) for kind in ((2, 3, 1), (16, 3, 0), (17, 3, 0), (40, 1, 0), (38, 5, 0))])


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
