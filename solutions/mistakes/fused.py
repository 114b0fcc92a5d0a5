"""Calling the fused kernel, `F.scaled_dot_product_attention`, and what goes wrong there."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.diagnosis.mistakes import instead_of

from .arrays import Part
from .causal import causal_mask
from .heads import join

sdpa = F.scaled_dot_product_attention


def allowed_where_not_hidden(hidden: Tensor, q: Tensor) -> Tensor:
    """The kernel's meaning of a mask from the course's."""
    return ~hidden


def hidden_by_either(mask: Tensor, future: Tensor) -> Tensor:
    return mask | future


def fused_call(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    return sdpa(q, k, v, attn_mask=None if allowed is None else torch.atleast_2d(allowed))


def efficient_mha(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    future: Part = causal_mask,
    both: Part = hidden_by_either,
    allow: Part = allowed_where_not_hidden,
    call: Part = fused_call,
) -> Tensor:
    if is_causal:
        later = future(q.shape[-2], k.shape[-2], q.device)
        mask = later if mask is None else both(mask, later)
    return call(q, k, v, None if mask is None else allow(mask, q))


# The mask


@instead_of(allowed_where_not_hidden)
def fused_mask_not_flipped(hidden: Tensor, q: Tensor) -> Tensor:
    """The mask goes to the fused call as it is, but there True means "takes part".

    Hint: What does True mean to the kernel, and what does it mean here?
    """
    return hidden


@instead_of(allowed_where_not_hidden)
def fused_mask_flipped_in_place(hidden: Tensor, q: Tensor) -> Tensor:
    """The caller's own mask is flipped, and says the opposite at the next call.

    Hint: What is the difference between `~mask` and `mask.logical_not_()` for whoever passed the mask?
    """
    return hidden.logical_not_()


@instead_of(allowed_where_not_hidden)
def fused_mask_added_as_floats(hidden: Tensor, q: Tensor) -> Tensor:
    """The mask is turned into floats, which the fused call adds to the scores: hidden keys gain 1.

    Hint: What does the kernel do with a mask of floats, and what with one of booleans?
    """
    return hidden.to(q.dtype)


@instead_of(allowed_where_not_hidden)
def fused_mask_flipped_and_added(hidden: Tensor, q: Tensor) -> Tensor:
    """The mask is flipped but turned into floats, which the fused call adds to the scores: seen keys gain 1.

    Hint: What does the kernel do with a mask of floats, and what with one of booleans?
    """
    return (~hidden).to(q.dtype)


@instead_of(allowed_where_not_hidden)
def fused_mask_of_integers(hidden: Tensor, q: Tensor) -> Tensor:
    """The mask is turned into integers, which the fused call refuses.

    Hint: Which dtypes of a mask does the kernel's documentation name?
    """
    return 1 - hidden.int()


@instead_of(allowed_where_not_hidden)
def fused_mask_asked_for_its_truth(hidden: Tensor, q: Tensor) -> Tensor:
    """The mask is negated as if it were one truth, but it holds many.

    Hint: What does `not` need to know of the mask, and which operator turns around each of its values?
    """
    return torch.tensor(not hidden)


@instead_of(allowed_where_not_hidden)
def fused_mask_subtracts_1e9(hidden: Tensor, q: Tensor) -> Tensor:
    """1e9 is taken from hidden scores: when all keys are hidden, the query averages what it may not see.

    Hint: A row in which every score lost the same number: what is its softmax? What is due there?
    """
    return hidden.to(q.dtype) * -1e9


@instead_of(efficient_mha)
def fused_mask_ignored(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """The mask never reaches the fused call.

    Hint: Follow the argument `mask` through your code. Where does it end?
    """
    return efficient_mha(q, k, v, None, is_causal)


@instead_of(efficient_mha)
def fused_arguments_passed_on(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """Mask and is_causal go to the fused call as they are, but there True means "takes part", and query 0 stands at key 0.

    Hint: What does True mean to the kernel? With one query and a cache of nine keys, how many of them does it let it see?
    """
    return sdpa(q, k, v, attn_mask=mask, is_causal=is_causal)


@instead_of(efficient_mha)
def fused_only_is_causal_passed_on(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """The mask never reaches the fused call, and the kernel's own is_causal puts query 0 at key 0.

    Hint: Where does the argument `mask` end? With one query and a cache of nine keys, how many does the kernel let it see?
    """
    return sdpa(q, k, v, is_causal=is_causal)


# The future


@instead_of(efficient_mha)
def fused_always_causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """The future is hidden also when nobody asked for it.

    Hint: What is the default of is_causal, and what do you pass on?
    """
    return efficient_mha(q, k, v, mask, True)


@instead_of(efficient_mha)
def fused_gets_mask_and_is_causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """Both a mask and is_causal are handed to the fused call, which refuses to take both.

    Hint: Two masks can become one before the call. When is a key hidden?
    """
    return sdpa(q, k, v, attn_mask=None if mask is None else ~mask, is_causal=is_causal)


@instead_of(efficient_mha)
def fused_is_causal_with_fewer_queries(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """The kernel's own is_causal puts query 0 at key 0; with fewer queries than keys, queries are the last tokens.

    Hint: With one query and a cache of nine keys, how many of them does the kernel let it see?
    """
    if mask is None:
        return sdpa(q, k, v, is_causal=is_causal)
    return efficient_mha(q, k, v, mask, is_causal)


@instead_of(efficient_mha)
def fused_is_causal_with_one_query(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """A query that comes alone gets the kernel's own is_causal, which lets it see key 0 only.

    Hint: Which keys may the last token of a sequence see, and which does the kernel let its query 0 see?
    """
    if mask is None and q.shape[-2] == 1:
        return sdpa(q, k, v, is_causal=is_causal)
    return efficient_mha(q, k, v, mask, is_causal)


@instead_of(hidden_by_either)
def fused_causal_dropped_with_mask(mask: Tensor, future: Tensor) -> Tensor:
    """When there is a mask, the future is no longer hidden.

    Hint: Two things may hide a key. Does yours forget one of them when both are there?
    """
    return mask


@instead_of(hidden_by_either)
def fused_mask_dropped_with_causal(mask: Tensor, future: Tensor) -> Tensor:
    """When is_causal is set, the mask hides nothing any more.

    Hint: Two things may hide a key. Does yours forget one of them when both are there?
    """
    return future


@instead_of(hidden_by_either)
def fused_hidden_by_both_only(mask: Tensor, future: Tensor) -> Tensor:
    """A key is hidden only when the mask and the future both hide it.

    Hint: A padded key in the past: should a query see it? "And" of two masks changes its meaning with their polarity.
    """
    return mask & future


@instead_of(hidden_by_either)
def fused_hidden_by_exactly_one(mask: Tensor, future: Tensor) -> Tensor:
    """A key that both the mask and the future hide is seen again.

    Hint: What does "exclusive or" give for two Trues?
    """
    return mask ^ future


@instead_of(hidden_by_either)
def fused_mask_changed_in_place(mask: Tensor, future: Tensor) -> Tensor:
    """The future is written into the caller's own mask.

    Hint: What is the difference between `a = a | b` and `a |= b` for whoever passed a?
    """
    mask |= future
    return mask


# The call


@instead_of(fused_call)
def fused_without_scale(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The fused call is told not to scale the scores.

    Hint: What does the kernel do about the scale when nobody tells it anything?
    """
    return sdpa(q, k, v, attn_mask=allowed, scale=1.0)


@instead_of(fused_call)
def fused_scaled_twice(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The queries are scaled before the fused call, which scales the scores once more.

    Hint: What does the kernel do about the scale when nobody tells it anything?
    """
    return sdpa(q / math.sqrt(q.shape[-1]), k, v, attn_mask=allowed)


@instead_of(fused_call)
def fused_scale_upside_down(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The fused call gets sqrt(d_k) as its scale, and it multiplies by it.

    Hint: Is the kernel's argument a divisor or a factor?
    """
    return sdpa(q, k, v, attn_mask=allowed, scale=math.sqrt(q.shape[-1]))


@instead_of(fused_call)
def fused_scale_of_d_model(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The fused call is told to scale by the size of all heads together.

    Hint: How many products are summed to make one score?
    """
    return sdpa(q, k, v, attn_mask=allowed, scale=1 / math.sqrt(q.shape[-1] * q.shape[1]))


@instead_of(fused_call)
def fused_keys_and_values_swapped(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Keys and values have changed places in the fused call.

    Hint: In which order does the kernel take its first three arguments?
    """
    return sdpa(q, v, k, attn_mask=allowed)


@instead_of(fused_call)
def fused_queries_and_keys_swapped(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Queries and keys have changed places in the fused call.

    Hint: In which order does the kernel take its first three arguments?
    """
    return sdpa(k, q, v, attn_mask=allowed)


@instead_of(fused_call)
def fused_returns_a_pair(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> tuple[Tensor, None]:
    """A pair is returned, but the fused kernel has no weights to show: the output alone is due.

    Hint: What does the exercise promise to give back?
    """
    return fused_call(q, k, v, allowed), None


@instead_of(fused_call)
def fused_merges_the_heads(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The heads are merged afterwards, but the output should have the axes (B, h, n_q, d_v).

    Hint: What does the exercise promise to give back?
    """
    return join(fused_call(q, k, v, allowed))


@instead_of(fused_call)
def fused_leaves_tokens_first(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Heads and tokens have changed places in the output: (B, n_q, h, d_v).

    Hint: Which axes does the exercise promise, in which order?
    """
    return fused_call(q, k, v, allowed).transpose(1, 2)


@instead_of(fused_call)
def fused_in_half_precision(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The inputs are turned into float16 for the quickest kernel, and float16 comes out.

    Hint: Which dtype should come out? Is the quickest kernel worth the digits?
    """
    return fused_call(q.half(), k.half(), v.half(), allowed)


@instead_of(fused_call)
def fused_in_float32(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The inputs are turned into float32, and float32 comes out whatever went in.

    Hint: Which of your steps names a dtype? Which dtype should come out?
    """
    return fused_call(q.float(), k.float(), v.float(), allowed)


@instead_of(fused_call)
def fused_cuts_the_gradient(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """The result has lost its tie to the inputs: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, `no_grad`, or a way through NumPy?
    """
    return fused_call(q, k, v, allowed).detach()


@instead_of(fused_call)
def fused_drops_every_weight(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Dropout is asked of the fused call, which knows nothing of training and evaluation and always drops.

    Hint: What is the kernel's default for dropout, and when does it act?
    """
    return sdpa(q, k, v, attn_mask=allowed, dropout_p=0.1)
