"""Holds form feeds and carriage returns."""

def softmax(x):    return x