"""Sharing key and value heads, and what goes wrong there."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.diagnosis.mistakes import instead_of

from .arrays import Part, new
from .attention import attention
from .heads import refuse_uneven_heads

Pair = tuple[Tensor, Tensor]


def refuse_uneven_groups(num_heads: int, num_kv_heads: int) -> None:
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} query heads can't share {num_kv_heads} key/value heads equally")


def neighbours_share(x: Tensor, num_heads: int) -> Tensor:
    return x.repeat_interleave(num_heads // x.shape[1], dim=1)


def repeat_kv(x: Tensor, num_heads: int, *, check: Part = refuse_uneven_groups, arrange: Part = neighbours_share) -> Tensor:
    check(num_heads, x.shape[1])
    return arrange(x, num_heads)


def repeat_both(k: Tensor, v: Tensor, num_heads: int, *, repeat: Part = repeat_kv) -> Pair:
    return repeat(k, num_heads), repeat(v, num_heads)


def grouped_query_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, share: Part = repeat_both, attend: Part = attention
) -> Pair:
    k, v = share(k, v, q.shape[1])
    return attend(q, k, v, mask)


# Who shares with whom


@instead_of(neighbours_share)
def kv_heads_tiled(x: Tensor, num_heads: int) -> Tensor:
    """The row of KV heads is repeated as a whole, 0 1 0 1, where neighbours should share: 0 0 1 1.

    Hint: With 6 query heads and 2 KV heads, which KV head serves query head 1?
    """
    return x.repeat(1, num_heads // x.shape[1], 1, 1)


@instead_of(neighbours_share)
def kv_repeated_along_tokens(x: Tensor, num_heads: int) -> Tensor:
    """The tokens are repeated, not the heads.

    Hint: Which axis of x should grow from h_kv to h?
    """
    return x.repeat_interleave(num_heads // x.shape[1], dim=2)


@instead_of(neighbours_share)
def kv_repeated_along_batch(x: Tensor, num_heads: int) -> Tensor:
    """The sentences are repeated, not the heads.

    Hint: Which axis of x should grow from h_kv to h?
    """
    return x.repeat_interleave(num_heads // x.shape[1], dim=0)


@instead_of(neighbours_share)
def kv_repeated_along_features(x: Tensor, num_heads: int) -> Tensor:
    """The features are repeated, not the heads.

    Hint: Which axis of x should grow from h_kv to h?
    """
    return x.repeat_interleave(num_heads // x.shape[1], dim=-1)


@instead_of(neighbours_share)
def kv_repeated_without_axis(x: Tensor, num_heads: int) -> Tensor:
    """Every number is repeated and all axes are lost.

    Hint: Along which axis should be repeated, and what happens when you don't say?
    """
    return x.repeat_interleave(num_heads // x.shape[1])


@instead_of(neighbours_share)
def kv_repeated_h_kv_times(x: Tensor, num_heads: int) -> Tensor:
    """Each KV head is repeated h_kv times, where h / h_kv query heads share it.

    Hint: How many query heads use one KV head? Try 6 on 2: is it 2 or 3?
    """
    return x.repeat_interleave(x.shape[1], dim=1)


@instead_of(neighbours_share)
def kv_repeated_h_times(x: Tensor, num_heads: int) -> Tensor:
    """Each KV head is repeated h times, so there are h * h_kv heads.

    Hint: How many heads should there be in the end, and how many are there before?
    """
    return x.repeat_interleave(num_heads, dim=1)


@instead_of(neighbours_share)
def kv_tiled_h_times(x: Tensor, num_heads: int) -> Tensor:
    """The row of KV heads is repeated h times as a whole, so there are h * h_kv heads.

    Hint: How many heads should there be in the end, and in which order?
    """
    return x.repeat(1, num_heads, 1, 1)


@instead_of(neighbours_share)
def kv_repeated_once_too_often(x: Tensor, num_heads: int) -> Tensor:
    """Each KV head is repeated once more than needed.

    Hint: How many query heads use one KV head? The KV head itself is one of its copies.
    """
    return x.repeat_interleave(num_heads // x.shape[1] + 1, dim=1)


@instead_of(neighbours_share)
def first_kv_head_for_all(x: Tensor, num_heads: int) -> Tensor:
    """Every query head gets KV head 0.

    Hint: When there are 2 KV heads, who uses the second?
    """
    return x[:, :1].expand(-1, num_heads, -1, -1)


@instead_of(neighbours_share)
def last_kv_head_for_the_rest(x: Tensor, num_heads: int) -> Tensor:
    """The first query heads get one KV head each and all the others get the last one.

    Hint: How many query heads use one KV head, and is it as many for each?
    """
    rest = x[:, -1:].expand(-1, num_heads - x.shape[1], -1, -1)
    return torch.cat([x, rest], dim=1)


@instead_of(neighbours_share)
def kv_heads_averaged(x: Tensor, num_heads: int) -> Tensor:
    """Every query head gets the mean of all KV heads.

    Hint: Does the exercise compute anything new, or does it only hand out copies?
    """
    return x.mean(1, keepdim=True).expand(-1, num_heads, -1, -1)


@instead_of(neighbours_share)
def kv_heads_not_repeated(x: Tensor, num_heads: int) -> Tensor:
    """Nothing is repeated: broadcasting does it only where there is a single KV head.

    Hint: 6 query heads meet 2 KV heads: can the two axes be lined up?
    """
    return x


@instead_of(neighbours_share)
def kv_heads_padded_with_zeros(x: Tensor, num_heads: int) -> Tensor:
    """The missing heads are filled up with zeros.

    Hint: What should query head 5 find when there are only 2 KV heads?
    """
    missing = x.new_zeros(x.shape[0], num_heads - x.shape[1], *x.shape[2:])
    return torch.cat([x, missing], dim=1)


@instead_of(neighbours_share)
def kv_heads_in_reverse(x: Tensor, num_heads: int) -> Tensor:
    """Neighbours share, but the KV heads come in the opposite order.

    Hint: Which KV head serves query head 0?
    """
    return neighbours_share(x.flip(1), num_heads)


@instead_of(neighbours_share)
def kv_groups_left_as_an_axis(x: Tensor, num_heads: int) -> Tensor:
    """Groups and their members are left as two axes: (B, h_kv, r, n, d).

    Hint: How many axes has the result that is promised? Which two of yours should melt into one?
    """
    return x[:, :, None].expand(-1, -1, num_heads // x.shape[1], -1, -1)


@instead_of(neighbours_share)
def kv_expanded_and_viewed(x: Tensor, num_heads: int) -> Tensor:
    """Expanded axes are melted by a view, which has no copies that it could show.

    Hint: An expanded axis takes no memory. What has to happen before two axes can become one?
    """
    copies = x[:, :, None].expand(-1, -1, num_heads // x.shape[1], -1, -1)
    return copies.view(x.shape[0], num_heads, *x.shape[2:])


# What only a caller of the exercise sees


@instead_of(refuse_uneven_groups)
def uneven_groups_not_refused(num_heads: int, num_kv_heads: int) -> None:
    """Nothing checks whether the KV heads divide the query heads, and too few heads come out.

    Hint: 6 query heads, 4 KV heads: how many share each? What does the exercise promise then?
    """


@instead_of(refuse_uneven_groups)
def uneven_groups_asserted(num_heads: int, num_kv_heads: int) -> None:
    """Sizes that don't divide are stopped by an assertion, where a ValueError is due.

    Hint: An assertion says that the programmer erred. Which exception says that a caller's value is wrong?
    """
    if num_heads % num_kv_heads:
        raise AssertionError(f"{num_heads} must be divisible by {num_kv_heads}")


@instead_of(refuse_uneven_groups)
def uneven_groups_refused_without_sizes(num_heads: int, num_kv_heads: int) -> None:
    """Sizes that don't divide raise a ValueError, but its message doesn't name them.

    Hint: Somebody reads this error at midnight. Which two numbers would tell them what is wrong?
    """
    if num_heads % num_kv_heads:
        raise ValueError("the sizes must divide")


@instead_of(refuse_uneven_groups)
def groups_checked_upside_down(num_heads: int, num_kv_heads: int) -> None:
    """The test asks whether the query heads divide the KV heads, and refuses what is right.

    Hint: There are at least as many query heads as KV heads. Which number is divided by which?
    """
    refuse_uneven_heads(num_kv_heads, num_heads)


@instead_of(repeat_kv)
def repeating_cuts_the_gradient(x: Tensor, num_heads: int) -> Tensor:
    """The copies have lost their tie to the input: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, or a way through NumPy?
    """
    return repeat_kv(x.detach(), num_heads)


@instead_of(repeat_kv)
def repeating_into_default_type(x: Tensor, num_heads: int) -> Tensor:
    """The heads are copied into fresh zeros, which are float32 whatever the type of the input.

    Hint: What is the dtype of zeros that are made without saying which?
    """
    right = repeat_kv(x, num_heads)
    result = new(x, *right.shape)
    result[:] = right
    return result


# Keys and values


@instead_of(repeat_both)
def values_tiled_keys_not(k: Tensor, v: Tensor, num_heads: int) -> Pair:
    """The keys are shared by neighbours but the values are tiled, so a head takes home another head's values.

    Hint: Query head 1 looks into one KV head. Whose values should it mix?
    """
    return repeat_kv(k, num_heads), repeat_kv(v, num_heads, arrange=kv_heads_tiled)


@instead_of(repeat_both)
def keys_tiled_values_not(k: Tensor, v: Tensor, num_heads: int) -> Pair:
    """The values are shared by neighbours but the keys are tiled, so a head looks into another head's keys.

    Hint: Query head 1 mixes the values of one KV head. Whose keys should it look into?
    """
    return repeat_kv(k, num_heads, arrange=kv_heads_tiled), repeat_kv(v, num_heads)


@instead_of(grouped_query_attention)
def query_heads_averaged(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """The query heads of a group are averaged, so there are only h_kv heads left.

    Hint: Sharing is for keys and values. How many query heads should the output have?
    """
    refuse_uneven_groups(q.shape[1], k.shape[1])
    return attention(q.unflatten(1, (k.shape[1], -1)).mean(2), k, v, mask)


@instead_of(grouped_query_attention)
def query_heads_dropped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """Only the first h_kv query heads are used.

    Hint: Sharing is for keys and values. How many query heads should the output have?
    """
    refuse_uneven_groups(q.shape[1], k.shape[1])
    return attention(q[:, : k.shape[1]], k, v, mask)


@instead_of(grouped_query_attention)
def grouped_output_out_of_order(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """Each query head uses the right KV head, but the heads come back in another order, group by group interleaved.

    Hint: When the axes (h_kv, r) melt into h, which of them runs fastest? Is it the same on the way in?
    """
    order = torch.arange(q.shape[1]).reshape(k.shape[1], -1).T.flatten()
    output, weights = grouped_query_attention(q, k, v, mask)
    return output[:, order], weights[:, order]


@instead_of(grouped_query_attention)
def grouped_queries_out_of_order(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """The query heads are dealt to the KV heads in turn, and come back group by group.

    Hint: When the axis h is cut into (h_kv, r), which of the two runs fastest? Is it the same on the way back?
    """
    refuse_uneven_groups(q.shape[1], k.shape[1])
    order = torch.arange(q.shape[1]).reshape(-1, k.shape[1]).T.flatten()
    return grouped_query_attention(q[:, order], k, v, mask)


@instead_of(grouped_query_attention)
def mask_of_first_heads_for_all(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Pair:
    """A mask for each head is cut down to the KV heads and then repeated, so query heads get others' masks.

    Hint: Keys and values are shared by a group. Is the mask?
    """
    if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
        mask = mask[..., : k.shape[1], :, :].repeat_interleave(q.shape[1] // k.shape[1], dim=-3)
    return grouped_query_attention(q, k, v, mask)
