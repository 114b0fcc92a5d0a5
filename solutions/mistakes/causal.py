"""Hiding the future, and what goes wrong there."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.diagnosis.mistakes import instead_of

from .arrays import Part

Device = torch.device | str | None


def last_positions(n_q: int, n_k: int, device: Device) -> Tensor:
    """Where the queries stand in the whole sequence, as a column: they are its last n_q tokens."""
    return torch.arange(n_k - n_q, n_k, device=device)[:, None]


def later(keys: Tensor, queries: Tensor) -> Tensor:
    return keys > queries


def as_asked(mask: Tensor) -> Tensor:
    return mask


def causal_mask(
    n_q: int,
    n_k: int | None = None,
    device: Device = None,
    *,
    positions: Part = last_positions,
    hidden: Part = later,
    finish: Part = as_asked,
) -> Tensor:
    n_k = n_q if n_k is None else n_k
    return finish(hidden(torch.arange(n_k, device=device), positions(n_q, n_k, device)))


# Which keys are hidden


@instead_of(later)
def causal_marks_the_visible(keys: Tensor, queries: Tensor) -> Tensor:
    """The mask says True where a query may look, but True means hidden.

    Hint: What does True mean in this course's masks? Which triangle is it then?
    """
    return keys <= queries


@instead_of(later)
def causal_hides_itself(keys: Tensor, queries: Tensor) -> Tensor:
    """The diagonal is hidden too: no token sees itself, and the first sees nothing at all.

    Hint: May a token look at its own position?
    """
    return keys >= queries


@instead_of(later)
def causal_leaks_one_step(keys: Tensor, queries: Tensor) -> Tensor:
    """Every token sees the next one: the future leaks by one step.

    Hint: Which is the first key that query 0 must not see?
    """
    return keys > queries + 1


@instead_of(later)
def causal_hides_the_past(keys: Tensor, queries: Tensor) -> Tensor:
    """The past is hidden and the future seen: it is the other triangle.

    Hint: Which triangle of the matrix lies in the future, the upper or the lower one? Rows are queries.
    """
    return keys < queries


@instead_of(later)
def causal_hides_nothing(keys: Tensor, queries: Tensor) -> Tensor:
    """Nothing is hidden: every token sees the whole future.

    Hint: When query 0 has done its work, which keys may it have seen?
    """
    return keys < 0 * queries


@instead_of(later)
def causal_sees_itself_only(keys: Tensor, queries: Tensor) -> Tensor:
    """Every token sees itself and nothing else.

    Hint: Which tokens come before query 3? May it look at them?
    """
    return keys != queries


@instead_of(later)
def causal_sees_two_tokens_only(keys: Tensor, queries: Tensor) -> Tensor:
    """A token sees itself and the one before it, but nothing that lies further back.

    Hint: A diagonal matrix of ones and the one beside it are a band. What should be left of a triangle?
    """
    return (keys > queries) | (keys < queries - 1)


# Where the queries stand


@instead_of(last_positions)
def causal_aligned_top_left(n_q: int, n_k: int, device: Device) -> Tensor:
    """Query 0 is put at position 0; with a cache the queries are the last tokens, not the first.

    Hint: With 2 queries and 5 keys, which position has the last query in the whole sequence?
    """
    return torch.arange(n_q, device=device)[:, None]


@instead_of(last_positions)
def causal_offset_subtracted(n_q: int, n_k: int, device: Device) -> Tensor:
    """The offset between queries and keys has the wrong sign, so the queries stand before the sequence.

    Hint: With 2 queries and 5 keys, at which position does query 0 stand: at 3 or at -3?
    """
    return torch.arange(n_q, device=device)[:, None] - (n_k - n_q)


@instead_of(last_positions)
def causal_queries_after_the_keys(n_q: int, n_k: int, device: Device) -> Tensor:
    """The queries are put behind all keys, as if the keys did not hold their own tokens.

    Hint: Do the n_k keys include those of the queries' own tokens? Which position has the last query?
    """
    return torch.arange(n_q, device=device)[:, None] + (n_k if n_k > n_q else 0)


# Size and type


@instead_of(causal_mask)
def causal_square_of_queries(n_q: int, n_k: int | None = None, device: Device = None) -> Tensor:
    """The mask is (n_q, n_q): the number of keys plays no part.

    Hint: A query has a place in the mask for every key. How many columns is that?
    """
    return causal_mask(n_q, n_q, device)


@instead_of(causal_mask)
def causal_square_of_keys(n_q: int, n_k: int | None = None, device: Device = None) -> Tensor:
    """The mask is (n_k, n_k): it has rows for tokens that ask nothing any more.

    Hint: The mask has a row for every query. How many is that?
    """
    return causal_mask(n_k or n_q, None, device)


@instead_of(causal_mask)
def causal_sizes_swapped(n_q: int, n_k: int | None = None, device: Device = None) -> Tensor:
    """The mask is (n_k, n_q): queries and keys have changed places.

    Hint: Rows of a mask are queries. How many rows has yours?
    """
    return causal_mask(n_q, n_k, device).T


@instead_of(causal_mask)
def causal_needs_n_k(n_q: int, n_k: int | None = None, device: Device = None) -> Tensor:
    """The number of keys is used without asking whether it was given.

    Hint: What is n_k when a caller passes one number only? What should it be?
    """
    return causal_mask(n_q, int(n_k), device)


@instead_of(as_asked)
def causal_mask_of_floats(mask: Tensor) -> Tensor:
    """The mask holds floats, 0 and 1, where booleans are due.

    Hint: Functions that make ones or zeros make floats unless told otherwise. Which dtype has a mask?
    """
    return mask.float()


@instead_of(as_asked)
def causal_mask_of_integers(mask: Tensor) -> Tensor:
    """The mask holds integers, 0 and 1, where booleans are due.

    Hint: Which dtype has a mask?
    """
    return mask.long()


@instead_of(as_asked)
def causal_mask_to_be_added(mask: Tensor) -> Tensor:
    """The mask holds 0 and minus infinity, ready to be added to scores, where booleans are due.

    Hint: Which two values has a mask in this course?
    """
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)


@instead_of(as_asked)
def causal_mask_of_four_axes(mask: Tensor) -> Tensor:
    """The mask has axes for batch and heads in front, which nobody asked for.

    Hint: Broadcasting adds axes at the left by itself. How many has the mask that is promised?
    """
    return mask[None, None]


@instead_of(causal_mask)
def causal_device_ignored(n_q: int, n_k: int | None = None, device: Device = None) -> Tensor:
    """The mask is made on the default device, whichever was asked for.

    Hint: Where does a call that makes a tensor learn where to make it?
    """
    return causal_mask(n_q, n_k)
