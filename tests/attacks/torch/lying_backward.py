"""Has a backward that invents gradients, of other shapes and dtypes."""

import torch


class Lie(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.kept = q, k, v
        return q.new_zeros(*q.shape[:-1], v.shape[-1])

    @staticmethod
    def backward(ctx, grad):
        return tuple(torch.ones_like(x) for x in ctx.kept)


def attack(q, k=None, v=None, *args, **kwargs):
    return Lie.apply(q, k, v), q @ k.transpose(-2, -1)


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
