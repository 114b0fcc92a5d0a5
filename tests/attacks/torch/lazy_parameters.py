"""Makes a module whose parameters have no shape yet."""

from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            setattr(self, name, nn.LazyLinear(d_model, bias=False))

    def forward(self, x, mask=None):
        return x, x
