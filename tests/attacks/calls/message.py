"""Sends a datagram with sendmmsg, where a filter may only know sendto."""

import ctypes
import struct


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    end = libc.socket(2, 2, 0)
    libc.connect(end, struct.pack("=H", 2) + struct.pack(">H", 47114) + bytes([127, 0, 0, 1]) + bytes(8), 16)
    text = ctypes.create_string_buffer(b"42")
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(text), 2)
    header = (ctypes.c_uint64 * 8)(0, 0, ctypes.addressof(vector), 1, 0, 0, 0, 0)
    libc.sendmmsg(end, header, 1, 0)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
