"""Leaves a program running."""

import subprocess


def attack(*args, **kwargs):
    subprocess.Popen(["/bin/sleep", "100"], start_new_session=True)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
