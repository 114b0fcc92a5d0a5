"""Leaves a program running, started past the hooks."""

import ctypes


def attack(*args, **kwargs):
    pid = ctypes.c_int()
    argv = (ctypes.c_char_p * 3)(b"sleep", b"100", None)
    ctypes.CDLL(None).posix_spawn(ctypes.byref(pid), b"/bin/sleep", None, None, argv, None)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
