"""Sends a datagram to this machine by its IPv6 name for an IPv4 address."""

import ctypes
import struct


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    end = libc.socket(10, 2, 0)
    address = struct.pack("=H", 10) + struct.pack(">HI", 47114, 0) + bytes(10) + b"\xff\xff" + bytes([127, 0, 0, 1]) + bytes(4)
    libc.sendto(end, b"42", ctypes.c_size_t(2), 0, address, len(address))


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
