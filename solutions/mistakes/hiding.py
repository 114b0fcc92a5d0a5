"""What a mask does to the scores, and what goes wrong there."""

from __future__ import annotations

import numpy as np
import torch

from grader.diagnosis.mistakes import instead_of

from .arrays import Array, broadcast, cast, xp

TORCH = ("torch_attention", "grouped_query")


def fill(scores: Array, where: Array, value: float) -> Array:
    return scores.masked_fill(where, value) if isinstance(scores, torch.Tensor) else np.where(where, value, scores)


def fill_with_minus_inf(scores: Array, mask: Array) -> Array:
    return fill(scores, mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_polarity_inverted(scores: Array, mask: Array) -> Array:
    """The mask is read the wrong way round: what should be hidden is seen, and the rest is hidden.

    Hint: In this course, does True mean "may look" or "may not look"?
    """
    return fill(scores, ~mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_ignored(scores: Array, mask: Array) -> Array:
    """The mask changes nothing: hidden keys still have their weight.

    Hint: Is the masked array the one that goes on? Some calls change an array, others give you a new one.
    """
    return scores


@instead_of(fill_with_minus_inf)
def mask_fills_zero(scores: Array, mask: Array) -> Array:
    """Hidden scores become 0, but e^0 is 1, so hidden keys still have weight.

    Hint: Which score has the power 0?
    """
    return fill(scores, mask, 0.0)


@instead_of(fill_with_minus_inf)
def mask_multiplied_in(scores: Array, mask: Array) -> Array:
    """The scores are multiplied by the mask: hidden ones stay as they are and all the others become 0.

    Hint: What is a score times True, and what is it times False? Which score has the weight 0?
    """
    return scores * mask


@instead_of(fill_with_minus_inf)
def mask_added_as_a_number(scores: Array, mask: Array) -> Array:
    """The mask is added to the scores as 0 and 1, which makes hidden keys a little stronger.

    Hint: What would you have to add to a score so that nothing is left of its power?
    """
    return scores + mask


@instead_of(fill_with_minus_inf)
def mask_fills_minus_10(scores: Array, mask: Array) -> Array:
    """Hidden scores become -10, which is not small enough: hidden keys keep some weight.

    Hint: How large is e^-10 beside the others, and what when the others are below -10 themselves?
    """
    return fill(scores, mask, -10.0)


@instead_of(fill_with_minus_inf)
def mask_fills_1e_9(scores: Array, mask: Array) -> Array:
    """Hidden scores become 1e-9, which is nearly 0, so hidden keys still have weight.

    Hint: Of a number in the form 1e-9, what is small: the number or its exponent? Where does the sign belong?
    """
    return fill(scores, mask, 1e-9)


@instead_of(fill_with_minus_inf)
def mask_fills_minus_1e9(scores: Array, mask: Array) -> Array:
    """Hidden scores become a number such as -1e9: when all keys are hidden, the query averages what it may not see.

    Hint: A row in which every score is the same number: what is its softmax? And does float16 hold that number?
    """
    return fill(scores, mask, -1e9)


@instead_of(fill_with_minus_inf, only=TORCH)
def mask_fills_the_least_number(scores: Array, mask: Array) -> Array:
    """Hidden scores become the least number of the dtype: when all keys are hidden, they get equal weights.

    Hint: A row in which every score is the same number: what is its softmax? What is due when every key is hidden?
    """
    return fill(scores, mask, torch.finfo(scores.dtype).min)


@instead_of(fill_with_minus_inf)
def mask_fills_plus_1e9(scores: Array, mask: Array) -> Array:
    """Hidden scores become huge instead of hugely negative, so hidden keys take all of the weight.

    Hint: Is e^x near 0 for large x, or for large negative x?
    """
    return fill(scores, mask, 1e9)


@instead_of(fill_with_minus_inf)
def mask_subtracts_1e9(scores: Array, mask: Array) -> Array:
    """1e9 is taken from hidden scores: when all keys are hidden, their differences come back as if no mask were there.

    Hint: Take the same number from all scores of a row: does its softmax change? What is due when every key is hidden?
    """
    return scores + cast(mask, scores.dtype) * -1e9


@instead_of(fill_with_minus_inf)
def mask_subtracts_10000(scores: Array, mask: Array) -> Array:
    """10000 is taken from hidden scores: when all keys are hidden, their differences come back as if no mask were there.

    Hint: Take the same number from all scores of a row: does its softmax change? What is due when every key is hidden?
    """
    return scores + cast(mask, scores.dtype) * -10000.0


@instead_of(fill_with_minus_inf)
def mask_times_minus_inf(scores: Array, mask: Array) -> Array:
    """The mask is multiplied by minus infinity, and 0 times infinity is NaN.

    Hint: What does the product give where the mask is False?
    """
    return scores + cast(mask, scores.dtype) * -np.inf


@instead_of(fill_with_minus_inf, only="numpy_attention")
def mask_makes_float64(scores: Array, mask: Array) -> Array:
    """Under a mask float32 becomes float64: an array of -inf that was made for it has a type of its own.

    Hint: Which dtype do `np.full` and `np.zeros` take when nobody says which?
    """
    return np.where(mask, np.full(scores.shape, -np.inf), scores)


@instead_of(fill_with_minus_inf)
def mask_fills_nan(scores: Array, mask: Array) -> Array:
    """Hidden scores become NaN, which spoils the sum of the whole row.

    Hint: Which score has the power 0?
    """
    return fill(scores, mask, np.nan)


@instead_of(fill_with_minus_inf)
def mask_transposed(scores: Array, mask: Array) -> Array:
    """The mask is transposed: its queries and its keys have changed places.

    Hint: Rows of the mask are queries, columns are keys. What are the rows of the scores?
    """
    return fill(scores, mask.swapaxes(-2, -1), -np.inf)


@instead_of(fill_with_minus_inf)
def padding_hides_queries(scores: Array, mask: Array) -> Array:
    """A padding mask hides the padded queries, where it should hide the padded keys from all queries.

    Hint: A padding mask has one row for all queries. Along which axis of the scores does it lie?
    """
    return fill(scores, mask.swapaxes(-2, -1) if mask.ndim > 1 and mask.shape[-2] == 1 else mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_of_three_axes_read_as_batch(scores: Array, mask: Array) -> Array:
    """A mask of three axes gets a new one after the first, as if its first axis were the batch.

    Hint: Broadcasting lines axes up from the right. Which axis of the scores does the first of three meet?
    """
    return fill(scores, mask[:, None] if mask.ndim == 3 else mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_always_gets_a_heads_axis(scores: Array, mask: Array) -> Array:
    """The mask always gets a new axis at place 1, also when it has one for the heads already, or none for the batch.

    Hint: Broadcasting lines axes up from the right and fills in what is missing. Does the mask need your help?
    """
    return fill(scores, mask[:, None], -np.inf)


@instead_of(fill_with_minus_inf)
def mask_needs_the_full_shape(scores: Array, mask: Array) -> Array:
    """The mask is used as an index, which works only if it has the very shape of the scores.

    Hint: An index does not broadcast. Which ways to fill hidden places do?
    """
    scores = scores + 0.0
    scores[mask] = -np.inf
    return scores


@instead_of(fill_with_minus_inf)
def mask_of_first_sentence_for_all(scores: Array, mask: Array) -> Array:
    """The first sentence's mask is used for every sentence.

    Hint: Which axis of the mask counts the sentences? What do you take of it?
    """
    return fill(scores, mask[:1] if mask.ndim == scores.ndim else mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_of_first_head_for_all(scores: Array, mask: Array) -> Array:
    """The first head's mask is used for every head.

    Hint: Which axis of the mask counts the heads? What do you take of it?
    """
    return fill(scores, mask[..., :1, :, :] if mask.ndim > 2 else mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_of_first_query_for_all(scores: Array, mask: Array) -> Array:
    """The first query's row of the mask is used for every query.

    Hint: Which axis of the mask counts the queries? What do you take of it?
    """
    return fill(scores, mask[..., :1, :] if mask.ndim > 1 else mask, -np.inf)


@instead_of(fill_with_minus_inf)
def mask_asked_for_its_truth(scores: Array, mask: Array) -> Array:
    """The mask is used as a condition, but an array of many booleans is neither true nor false.

    Hint: What do you want to know: whether there is a mask at all, or what is in it?
    """
    return fill_with_minus_inf(scores, mask) if mask else scores


@instead_of(fill_with_minus_inf)
def mask_inverted_in_place(scores: Array, mask: Array) -> Array:
    """The caller's own mask is turned around.

    Hint: Which calls change the mask itself, and which give you a new one?
    """
    xp(mask).logical_not(mask, out=mask)
    return fill(scores, ~mask, -np.inf)


@instead_of(fill_with_minus_inf, only=TORCH)
def hidden_rows_see_everything(scores: Array, mask: Array) -> Array:
    """A query from which every key is hidden is allowed to see them all.

    Hint: The softmax must not divide 0 by 0 there. But what should such a query bring home?
    """
    hidden = broadcast(mask, scores.shape)
    return fill(scores, hidden & ~hidden.all(-1)[..., None], -np.inf)


@instead_of(fill_with_minus_inf)
def mask_hides_whole_rows(scores: Array, mask: Array) -> Array:
    """A query from which one key is hidden sees no key at all.

    Hint: The mask speaks of pairs of a query and a key. How many scores does one True concern?
    """
    return fill(scores, broadcast(mask, scores.shape).any(-1)[..., None], -np.inf)


@instead_of(fill_with_minus_inf)
def mask_hides_whole_columns(scores: Array, mask: Array) -> Array:
    """A key that is hidden from one query is hidden from all of them.

    Hint: The mask speaks of pairs of a query and a key. How many scores does one True concern?
    """
    return fill(scores, broadcast(mask, scores.shape).any(-2)[..., None, :], -np.inf)
