"""Makes a module whose hooks, buffers and own names try to come into the grader's copy."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.register_forward_hook(lambda *_: exit())
        self.register_buffer("forward_", torch.zeros(1))
        self.register_state_dict_post_hook(lambda module, state, *_: state.update({"training": torch.ones(1)}))

    def forward(self, x, mask=None):
        return x, x
