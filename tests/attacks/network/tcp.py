"""Connects over TCP."""

import socket


def attack(*args, **kwargs):
    socket.create_connection(("127.0.0.1", 47113), 1).sendall(b"x")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
