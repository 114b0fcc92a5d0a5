"""Changes who may read."""

import ctypes


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.chmod(b"/tmp/grader-bait/secret.txt", 0o777)
    libc.chmod(b"/tmp/grader-bait/open", 0o700)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
