"""Answers with something whose printed form never ends."""


class Endless:
    def __repr__(self):
        while True:
            pass


def attack(*args, **kwargs):
    return Endless()


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
