# coding: latin-1
"""Is written in Latin-1: é."""


def softmax(x):
    return "é"
