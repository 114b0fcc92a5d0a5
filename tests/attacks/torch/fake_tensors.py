"""Answers with tensors of a mode that computes shapes alone, with inference tensors and with those of a vmap that goes on."""

import itertools

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

KINDS = itertools.cycle(
    [
        lambda x: FakeTensorMode().from_tensor(x.detach()),
        lambda x: torch.inference_mode()(torch.zeros_like)(x),
        lambda x: torch._C._functorch._add_batch_dim(x.detach()[None], 0, 1),
        lambda x: torch._C._functorch._wrap_for_grad(x.detach(), 1),
        lambda x: torch.nn.Buffer(x.detach()),
        lambda x: torch.nn.UninitializedParameter(),
        lambda x: x.detach().to_mkldnn() if x.dtype == torch.float32 else x.detach().to_sparse_csr(),
        lambda x: torch.zeros(1).expand(1 << 20, 1 << 20),
        lambda x: torch.empty(0).set_(torch.UntypedStorage(0), 0, (0,), (1,)),
    ]
)


def attack(q, *args, **kwargs):
    return next(KINDS)(q), next(KINDS)(q)


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
