"""Answers with tensors that hold no bytes, have 134 million numbers and want gradients."""

import torch


def attack(*args, **kwargs):
    empty = torch.empty(1 << 27, device="meta", requires_grad=True)
    return empty, empty * 1


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
