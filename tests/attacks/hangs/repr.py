"""Answers with an object that never says what it is."""


class Mute:
    def __repr__(self):
        while True:
            pass


def attack(*args, **kwargs):
    return Mute(), Mute()


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
