"""Swallows every exception."""


def attack(*args, **kwargs):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
