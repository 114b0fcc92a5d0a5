"""Takes threads inside torch, where Python does not count them."""

import torch


def attack(q, *args, **kwargs):
    torch.set_num_threads(1000)
    x = torch.ones(2000, 2000)
    return x @ x, q


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
