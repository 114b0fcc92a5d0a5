"""Attention by torch itself, for hidden checks alone: the formula step by step, and single kernels."""

from __future__ import annotations

from typing import Any

from checks import torch


def plain_attention(q: Any, k: Any, v: Any, mask: Any) -> tuple[Any, Any]:
    """The formula as it stands, rounded by torch after every step in the inputs' own dtype."""
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
    return weights @ v, weights


def kernel(name: str, *qkv: Any, **options: Any) -> Any:
    """What one kernel of torch gives, forced: MATH or FLASH_ATTENTION."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with torch.no_grad(), sdpa_kernel(getattr(SDPBackend, name)):
        return torch.nn.functional.scaled_dot_product_attention(*qkv, **options)
