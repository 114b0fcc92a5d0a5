"""The exercises wrong on purpose, to recognise what went wrong in a student's code and to prove that the checks see it.

A *recipe* is a right version of an exercise, cut into parts: its keyword-only parameters are slots, with the right parts
as their defaults. A *mistake* is one function that is put in place of a part (`instead_of`). Its name is
stable, its docstring says what it does wrong and, after `Hint:`, what leads on. A recipe may be a part of another, so a
wrong scale inside a layer comes for free. To add a mistake, write one such function beside the part that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import analysis, attention, cache, causal, fused, grouped, heads, layers, patterns, softmax

EXERCISES: dict[str, Callable[..., Any]] = {
    "numpy_attention.softmax": softmax.softmax,
    "numpy_attention.split_heads": heads.split_heads,
    "numpy_attention.attention": attention.attention,
    "numpy_attention.merge_heads": heads.merge_heads,
    "numpy_attention.MultiHeadAttention": layers.NumpyMultiHeadAttention,
    "torch_attention.split_heads": heads.split_heads,
    "torch_attention.attention": attention.attention,
    "torch_attention.merge_heads": heads.merge_heads,
    "torch_attention.causal_mask": causal.causal_mask,
    "torch_attention.MultiHeadAttention": layers.MultiHeadAttention,
    "torch_attention.efficient_mha": fused.efficient_mha,
    "grouped_query.repeat_kv": grouped.repeat_kv,
    "grouped_query.grouped_query_attention": grouped.grouped_query_attention,
    "grouped_query.GroupedQueryAttention": cache.GroupedQueryAttention,
    "grouped_query.kv_cache_bytes": cache.kv_cache_bytes,
    "head_analysis.attention_parameters": analysis.attention_parameters,
    "head_analysis.attention_matrix_bytes": analysis.attention_matrix_bytes,
    "head_analysis.attention_entropy": analysis.attention_entropy,
    "head_analysis.classify_head": analysis.classify_head,
    "head_analysis.extract_attention_patterns": patterns.extract_attention_patterns,
    "head_analysis.prune_heads": analysis.prune_heads,
}
