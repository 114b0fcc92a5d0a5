"""Fills the disk."""


def attack(*args, **kwargs):
    with open("/tmp/grader-bait/open/bomb", "wb") as file:
        file.write(bytes(1 << 20))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
