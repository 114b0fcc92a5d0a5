"""Makes a module whose buffers are sparse, quantized, complex, shared and itself."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.register_buffer("sparse", torch.zeros(3, 3).to_sparse())
        self.register_buffer("quantized", torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8))
        self.register_buffer("complex", torch.zeros(3, dtype=torch.complex64).conj())
        self.register_buffer("weight", self.W_Q.weight)
        self.W_Q.again = self

    def get_extra_state(self):
        return self

    def forward(self, x, mask=None):
        return x, x
