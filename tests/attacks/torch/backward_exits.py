"""Ends the process while gradients are computed."""

import os

import torch


class Exit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return q @ k.transpose(-2, -1) @ v

    @staticmethod
    def backward(ctx, grad):
        os._exit(0)


def attack(q, k=None, v=None, *args, **kwargs):
    return Exit.apply(q, k, v), q @ k.transpose(-2, -1)


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
