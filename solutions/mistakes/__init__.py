"""The exercises wrong on purpose, to recognise what went wrong in a student's code and to prove that the checks see it.

A *recipe* is a right version of an exercise, cut into parts: its keyword-only parameters are slots, with the right parts
as their defaults. A *mistake* is one function that is put in place of a part (`grader.mistakes.instead_of`). Its name is
stable, its docstring says what it does wrong and, after `Hint:`, what leads on. A recipe may be a part of another, so a
wrong scale inside a layer comes for free. To add a mistake, write one such function beside the part that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import analysis, attention, cache, causal, fused, grouped, heads, layers, softmax

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
    "head_analysis.prune_heads": analysis.prune_heads,
}

# Mistakes that checks see, but that can't be recognised by replaying calls one by one, each with the reason.
RANDOM = "its answers are random"
MATRICES = "only attributes differ, and answers are replayed with the student's own"
MESSAGE = "only the message of an error differs"
BEYOND_REPLAY: dict[str, str] = {
    "dropout_missing": RANDOM,
    "dropout_in_eval": RANDOM,
    "dropout_of_head_outputs": RANDOM,
    "dropout_not_scaled_up": RANDOM,
    "dropout_only_in_eval": RANDOM,
    "dropout_of_the_output": RANDOM,
    "fused_drops_every_weight": RANDOM,
    "matrices_start_at_zero": MATRICES,
    "matrices_start_as_identity": MATRICES,
    "matrices_all_the_same": MATRICES,
    "matrices_of_one_head": MATRICES,
    "uneven_heads_refused_without_sizes": MESSAGE,
    "layer_refuses_without_sizes": MESSAGE,
    "uneven_groups_refused_without_sizes": MESSAGE,
    "cached_layer_refuses_without_sizes": MESSAGE,
    "layer_always_float64": "the check that sees it draws random matrices",
    "buffer_in_state_dict": "only state_dict() differs",
    "cache_in_state_dict": "only state_dict() differs",
    "mask_inverted_in_place": "an expanded mask raises, and a replayed one is not expanded",
    "cache_kept_in_the_module": "an instance remembers, and every call is replayed on a fresh one",
}
