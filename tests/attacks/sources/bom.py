"""Begins with a byte order mark."""


def softmax(x):
    return x
