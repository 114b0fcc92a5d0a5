"""Asks for an address by name."""

import socket


def attack(*args, **kwargs):
    raise ValueError(socket.getaddrinfo("localhost", 80))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
