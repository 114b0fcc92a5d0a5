"""Answers with sparse, quantized, nested and conjugated tensors in turn."""

import itertools

import torch

KINDS = itertools.cycle(
    [
        lambda x: x.to_sparse(),
        lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
        lambda x: torch.nested.nested_tensor([x.flatten()[:2], x.flatten()[:3]]),
        lambda x: (x * 1j).conj(),
        lambda x: x.to(torch.float8_e4m3fn),
    ]
)


def attack(q, *args, **kwargs):
    return next(KINDS)(q.detach()), next(KINDS)(q.detach())


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
