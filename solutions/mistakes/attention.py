"""Scaled dot-product attention, step by step, and what goes wrong in each step."""

from __future__ import annotations

import math

import numpy as np
import torch

from grader.diagnosis.mistakes import instead_of

from .arrays import Array, Pair, Part, as_float, broadcast, cast, turn, xp
from .hiding import fill_with_minus_inf
from .softmax import shares

TORCH = ("torch_attention", "grouped_query")


def dot_products(q: Array, k: Array) -> Array:
    return q @ k.swapaxes(-2, -1)


def divide_by_sqrt_d_k(scores: Array, q: Array, k: Array, v: Array) -> Array:
    return scores / math.sqrt(q.shape[-1])


def weights_times_v(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    return weights @ v


def output_and_weights(output: Array, weights: Array, q: Array) -> Pair:
    return output, weights


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    *,
    read: Part = as_float,
    score: Part = dot_products,
    scale: Part = divide_by_sqrt_d_k,
    hide: Part = fill_with_minus_inf,
    normalise: Part = shares,
    mix: Part = weights_times_v,
    answer: Part = output_and_weights,
) -> Pair:
    queries, keys, values = read(q), read(k), read(v)
    with np.errstate(all="ignore"):
        scores = scale(score(queries, keys), queries, keys, values)
        if mask is not None:
            scores = hide(scores, mask)
        weights = normalise(scores)
        return answer(mix(weights, values, keys, scores), weights, q)


# The scores


@instead_of(dot_products)
def scores_transposed(q: Array, k: Array) -> Array:
    """Keys ask and queries answer: the scores have the shape (n_k, n_q).

    Hint: A row of the scores belongs to one query. What is a row of yours?
    """
    return k @ q.swapaxes(-2, -1)


@instead_of(dot_products)
def keys_not_transposed(q: Array, k: Array) -> Array:
    """The keys are multiplied without being transposed, so features meet tokens.

    Hint: Each score sums over the d_k features. Write the two shapes side by side: which axes meet?
    """
    return q @ k


@instead_of(dot_products)
def keys_multiplied_number_by_number(q: Array, k: Array) -> Array:
    """Queries and keys are multiplied number by number, and nothing is summed: a product of matrices is due.

    Hint: A score is one number for a query and a key. What is the difference between `*` and `@`?
    """
    return q * k


@instead_of(dot_products, only="numpy_attention")
def keys_of_every_head_for_every_query(q: Array, k: Array) -> Array:
    """Every query meets the keys of all heads and sentences: np.dot does not keep the leading axes apart.

    Hint: np.dot and `@` are the same for two axes. What does each of them do with the axes before the last two?
    """
    return np.dot(q, k.swapaxes(-2, -1))


@instead_of(dot_products)
def keys_with_every_axis_reversed(q: Array, k: Array) -> Array:
    """The keys' axes are all reversed, the leading ones too, where only the last two should change places.

    Hint: What does `.T` do to an array of four axes?
    """
    return q @ turn(k, *reversed(range(k.ndim)))


@instead_of(dot_products)
def keys_reshaped_instead_of_transposed(q: Array, k: Array) -> Array:
    """The keys are reshaped to (d_k, n_k), which has the right shape and mixes numbers of different keys.

    Hint: A column should be one key. Does a reshape make columns out of rows, or does it cut the rows anew?
    """
    return q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])


@instead_of(dot_products)
def keys_swapped_at_axes_1_and_2(q: Array, k: Array) -> Array:
    """Axes 1 and 2 of the keys change places, right for three axes; with heads these are heads and tokens.

    Hint: Count the two axes that should change places from the end: these stay the same under any leading axes.
    """
    return q @ k.swapaxes(1, 2)


@instead_of(dot_products, only=TORCH)
def keys_permuted_for_four_axes_only(q: Array, k: Array) -> Array:
    """The keys are transposed in a way that needs a batch and heads in front.

    Hint: Count the two axes that should change places from the end: these stay the same under any leading axes.
    """
    return q @ k.permute(0, 1, 3, 2)


@instead_of(dot_products)
def queries_compared_with_queries(q: Array, k: Array) -> Array:
    """The queries are compared with themselves; the keys play no part.

    Hint: Which two things does one score compare?
    """
    return q @ q.swapaxes(-2, -1)


@instead_of(dot_products)
def keys_compared_with_keys(q: Array, k: Array) -> Array:
    """The keys are compared with themselves; the queries play no part.

    Hint: Which two things does one score compare?
    """
    return k @ k.swapaxes(-2, -1)


@instead_of(dot_products)
def scores_are_cosines(q: Array, k: Array) -> Array:
    """Queries and keys are brought to length 1 before they are multiplied, so long vectors count no more than short ones.

    Hint: A dot product is the cosine times the two lengths. Does the formula divide by lengths?
    """
    q, k = (x / (x**2).sum(axis=-1, keepdims=True) ** 0.5 for x in (q, k))
    return dot_products(q, k)


@instead_of(dot_products)
def scores_are_absolute(q: Array, k: Array) -> Array:
    """The scores have lost their sign, so the worst match counts as much as the best.

    Hint: What does it say when query and key point in opposite directions?
    """
    return abs(dot_products(q, k))


# The scale


@instead_of(divide_by_sqrt_d_k)
def scale_missing(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are not scaled.

    Hint: A score sums d_k products, so it grows with d_k. By what, if each product is about 1 in size?
    """
    return scores


@instead_of(divide_by_sqrt_d_k, only="torch_attention")
def scale_by_a_float32_root(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The root is taken of a tensor in torch's default float32, so float64 scores keep only 7 digits.

    Hint: Which dtype has torch.tensor(5) after a root? What does math.sqrt(5) give?
    """
    return scores / torch.sqrt(torch.tensor(q.shape[-1]))


@instead_of(divide_by_sqrt_d_k)
def scale_by_d_k(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by d_k, which is too much.

    Hint: The spread of a sum of d_k random products grows more slowly than d_k. How does it grow?
    """
    return scores / q.shape[-1]


@instead_of(divide_by_sqrt_d_k)
def scale_upside_down(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are multiplied by sqrt(d_k) instead of being divided by it.

    Hint: Scaling should keep the scores from growing with d_k. Do yours become smaller?
    """
    return scores * math.sqrt(q.shape[-1])


@instead_of(divide_by_sqrt_d_k)
def scale_by_sqrt_d_model(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by sqrt(d_model), the features of all heads together, but one head has only d_k.

    Hint: How many products are summed to make one score?
    """
    heads = q.shape[1] if q.ndim == 4 else 1
    return scores / math.sqrt(q.shape[-1] * heads)


@instead_of(divide_by_sqrt_d_k)
def scale_by_sqrt_n_k(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by the root of the number of keys.

    Hint: How many products are summed to make one score? Does that depend on how many keys there are?
    """
    return scores / math.sqrt(k.shape[-2])


@instead_of(divide_by_sqrt_d_k)
def scale_by_sqrt_n_q(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by the root of the number of queries.

    Hint: How many products are summed to make one score? Does that depend on how many queries there are?
    """
    return scores / math.sqrt(q.shape[-2])


@instead_of(divide_by_sqrt_d_k)
def scale_by_sqrt_d_v(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by the root of the values' size, but the values have no part in them.

    Hint: Whose features are multiplied to make one score?
    """
    return scores / math.sqrt(v.shape[-1])


@instead_of(divide_by_sqrt_d_k)
def scale_by_sqrt_of_axis_1(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by the root of q's axis 1; with a batch and heads that is the number of heads.

    Hint: Which axis of q has the features of one head? Count from the end.
    """
    return scores / math.sqrt(q.shape[1])


@instead_of(divide_by_sqrt_d_k)
def scale_by_half_d_k(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by half of d_k, not by its root.

    Hint: In Python, `**` binds tighter than `/`. What is `9 ** 1 / 2`?
    """
    return scores / (q.shape[-1] / 2)


@instead_of(divide_by_sqrt_d_k)
def scale_by_twice_d_k(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by d_k and then by 2, not by the root of d_k.

    Hint: In Python, `**` binds tighter than `/`, and `/` goes from left to right. What is `90 / 9 ** 1 / 2`?
    """
    return scores / (2 * q.shape[-1])


@instead_of(divide_by_sqrt_d_k)
def scale_by_fourth_root(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by the fourth root of d_k: only one of the two factors is scaled.

    Hint: If q and k each get a part of the scale, what must the two parts make when multiplied?
    """
    return scores / q.shape[-1] ** 0.25


@instead_of(divide_by_sqrt_d_k)
def scale_fixed_at_8(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by 8 whatever the size of a head, which is right for heads of 64 only.

    Hint: From which axis of q can you read the size of a head?
    """
    return scores / 8


@instead_of(divide_by_sqrt_d_k)
def scale_rounded_down(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The root of d_k is rounded down to a whole number.

    Hint: The root of 5 is 2.236. What is it in your code?
    """
    return scores / math.isqrt(q.shape[-1])


@instead_of(divide_by_sqrt_d_k)
def scale_by_logarithm(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The scores are divided by a logarithm of d_k.

    Hint: The spread of a sum of d_k random products grows with d_k. As its logarithm, as its root, or as d_k?
    """
    return scores / math.log(1 + q.shape[-1])


@instead_of(divide_by_sqrt_d_k, only="numpy_attention")
def scale_makes_float64(scores: Array, q: Array, k: Array, v: Array) -> Array:
    """The divisor is a NumPy float64, which turns float32 scores into float64.

    Hint: What is the type of `np.sqrt(4)`? Python's own floats leave an array's dtype as it is.
    """
    return scores / np.sqrt(q.shape[-1])


@instead_of(attention)
def scale_after_softmax(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """It is the weights that are divided by sqrt(d_k), after the softmax, so they no longer sum to 1.

    Hint: What is scaled: the scores or the weights?
    """
    q, k, v = as_float(q), as_float(k), as_float(v)
    scores = dot_products(q, k)
    weights = shares(scores if mask is None else fill_with_minus_inf(scores, mask)) / math.sqrt(q.shape[-1])
    return weights @ v, weights


@instead_of(attention)
def scale_changes_q(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The caller's queries are scaled in place.

    Hint: What is the difference between `q = q / s` and `q /= s` for whoever passed q?
    """
    q /= math.sqrt(q.shape[-1])
    return attention(q, k, v, mask, scale=scale_missing)


# Types


@instead_of(as_float)
def attention_in_float64(x: Array) -> Array:
    """Everything is turned into float64, so float64 comes out whatever goes in.

    Hint: Which of your steps names a dtype? Which dtype should come out?
    """
    return cast(x, "float64")


@instead_of(as_float)
def attention_in_float32(x: Array) -> Array:
    """Everything is turned into float32, so float64 loses half of its digits.

    Hint: Which of your steps names a dtype? Which dtype should come out?
    """
    return cast(x, "float32")


@instead_of(output_and_weights)
def weights_left_in_float32(output: Array, weights: Array, q: Array) -> Pair:
    """The weights are left in float32, whatever the type of the inputs.

    Hint: A softmax may well be taken in another dtype. What has to happen to its result?
    """
    return output, cast(weights, "float32")


@instead_of(output_and_weights, only="numpy_attention")
def integers_truncated(output: Array, weights: Array, q: Array) -> Pair:
    """For integer inputs the results are turned into integers too, which makes nearly every weight 0.

    Hint: Which dtype can hold 0.25? What do integer inputs count as?
    """
    return output.astype(q.dtype), weights.astype(q.dtype)


# The mixture of the values


@instead_of(weights_times_v)
def weights_times_keys(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The keys are mixed, not the values.

    Hint: A key says what can be found, a value what is taken home. Which are mixed?
    """
    return weights @ k


@instead_of(weights_times_v)
def weights_transposed(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The weights are transposed before the values are mixed.

    Hint: A row of the weights belongs to one query. Which axis should meet the values' tokens?
    """
    return weights.swapaxes(-2, -1) @ v


@instead_of(weights_times_v)
def scores_times_values(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The values are mixed by the scores, and the softmax is only returned.

    Hint: Which of your two arrays sums to 1 along its rows, and which do you multiply by the values?
    """
    return scores @ v


@instead_of(weights_times_v)
def best_value_only(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """Every query takes the value of its best key alone.

    Hint: If two keys have the weights 0.6 and 0.4, what does the query take home?
    """
    best = xp(weights).where(weights == xp(weights).amax(weights, -1, keepdims=True), 1.0, 0.0 * weights)
    return best @ v


@instead_of(weights_times_v)
def output_divided_by_n_k(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The mixture is divided by the number of keys once more.

    Hint: The weights sum to 1, so their sum of values is a mean already.
    """
    return weights @ v / weights.shape[-1]


@instead_of(weights_times_v)
def output_adds_the_plain_mean(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The mean of all values is added to every query's mixture.

    Hint: Which values does the formula add, and each how often?
    """
    return weights @ v + v.mean(-2)[..., None, :]


@instead_of(weights_times_v)
def values_in_opposite_order(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The weights meet the values in the opposite order: the first weight meets the last token.

    Hint: Weight j belongs to key j. Which value belongs to key j?
    """
    return xp(weights).flip(weights, (-1,)) @ v


# The answer


@instead_of(output_and_weights)
def only_output_returned(output: Array, weights: Array, q: Array) -> Array:
    """The output alone is returned.

    Hint: How many things does the exercise promise to give back, and in which order?
    """
    return output


@instead_of(output_and_weights)
def only_weights_returned(output: Array, weights: Array, q: Array) -> Array:
    """The weights alone are returned.

    Hint: How many things does the exercise promise to give back, and in which order?
    """
    return weights


@instead_of(output_and_weights)
def weights_returned_first(output: Array, weights: Array, q: Array) -> Pair:
    """The weights come first and the output second.

    Hint: In which order does the exercise promise the two?
    """
    return weights, output


@instead_of(output_and_weights)
def weights_returned_transposed(output: Array, weights: Array, q: Array) -> Pair:
    """The output is right, but the weights are returned transposed: (n_k, n_q).

    Hint: A row of the weights belongs to one query. What is a row of those that you return?
    """
    return output, weights.swapaxes(-2, -1)


@instead_of(output_and_weights)
def weights_averaged_over_heads(output: Array, weights: Array, q: Array) -> Pair:
    """The output is right, but the weights are returned as their mean over the heads.

    Hint: Every head has weights of its own. How many axes should they have?
    """
    return output, weights.mean(1) if weights.ndim == 4 else weights


@instead_of(output_and_weights)
def output_shaped_like_q(output: Array, weights: Array, q: Array) -> Pair:
    """The output is pressed into the shape of q, which has d_k features; the values have d_v.

    Hint: How many features does the sum of values have?
    """
    return output.reshape(q.shape), weights


@instead_of(output_and_weights)
def weights_shaped_square(output: Array, weights: Array, q: Array) -> Pair:
    """The weights are pressed into a square, as if there were as many keys as queries.

    Hint: Every query has a weight for every key. How many rows and how many columns is that?
    """
    return output, weights.reshape(*weights.shape[:-1], weights.shape[-2])


@instead_of(attention)
def scores_returned_as_weights(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The output is right, but the scores are returned in place of the weights.

    Hint: The exercise promises numbers that sum to 1 along each row. Which of your arrays are these?
    """
    scores = divide_by_sqrt_d_k(dot_products(as_float(q), as_float(k)), q, k, v)
    scores = scores if mask is None else fill_with_minus_inf(scores, mask)
    return shares(scores) @ as_float(v), scores


@instead_of(attention)
def attention_across_heads(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The heads of one token look at each other, where the tokens of one head should.

    Hint: Products run over the last two axes. Which axes stand there when you multiply?
    """
    return attention(*(x.swapaxes(-3, -2) for x in (q, k, v)), mask)


@instead_of(attention)
def attention_for_four_axes_only(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The shape is unpacked into four sizes, so attention fails without a batch or without heads.

    Hint: Which sizes do you really need, and at which places do they stand when you count from the end?
    """
    _, _, _, _ = q.shape
    return attention(q, k, v, mask)


@instead_of(attention)
def one_head_for_all(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """Axis 1 gets the weights of its first entry throughout: every head looks where head 0 looks.

    Hint: Change the second head's queries. Do its weights change?
    """
    _, weights = attention(q, k, v, mask)
    weights = broadcast(weights[:, :1], weights.shape) if weights.ndim > 3 else weights
    return weights @ as_float(v), weights


@instead_of(attention)
def one_sentence_for_all(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """Axis 0 gets the weights of its first entry throughout: every sentence is read as the first.

    Hint: Change the second sentence. Do its weights change?
    """
    _, weights = attention(q, k, v, mask)
    weights = broadcast(weights[:1], weights.shape) if weights.ndim > 2 else weights
    return weights @ as_float(v), weights


# Gradients


@instead_of(attention, only=TORCH)
def attention_cuts_the_gradient(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The results have lost their tie to the inputs: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, `no_grad`, or a way through NumPy?
    """
    with torch.no_grad():
        return attention(q, k, v, mask)


@instead_of(weights_times_v, only=TORCH)
def weights_detached_from_output(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The weights are cut off from the gradient before the values are mixed, so queries and keys learn nothing.

    Hint: Which way does the gradient of the output go to reach q?
    """
    return weights.detach() @ v


@instead_of(weights_times_v, only=TORCH)
def values_detached_from_output(weights: Array, v: Array, k: Array, scores: Array) -> Array:
    """The values are cut off from the gradient, so they learn nothing.

    Hint: Which way does the gradient of the output go to reach v?
    """
    return weights @ v.detach()


# A mask that comes too late or does too much


@instead_of(attention)
def mask_after_softmax(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """Hidden weights are set to 0 after the softmax, so the others no longer sum to 1.

    Hint: The hidden keys' part was shared out already. Who should have got it?
    """
    _, weights = attention(q, k, v)
    weights = weights if mask is None else weights * ~mask
    return weights @ as_float(v), weights


@instead_of(attention, only="numpy_attention")
def mask_after_softmax_divided_anew(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """Hidden weights are set to 0 after the softmax and the rest is divided by its sum: 0 / 0 where nothing is left.

    Hint: If a hidden key had all of the weight, what is left for the others? Hide before you exponentiate.
    """
    _, weights = attention(q, k, v)
    if mask is not None:
        weights = weights * ~mask
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ as_float(v), weights


@instead_of(attention)
def mask_hides_from_output_only(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The mask is used for the output, but the weights that are returned know nothing of it.

    Hint: Which weights made the output? Return those.
    """
    return attention(q, k, v, mask)[0], attention(q, k, v)[1]


@instead_of(attention)
def mask_zeroes_values_too(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The value of a key that is hidden from some query is set to 0 for all of them.

    Hint: Hidden keys have the weight 0 already. Does anything have to happen to the values?
    """
    output, weights = attention(q, k, v, mask)
    if mask is None:
        return output, weights
    hidden = broadcast(mask, weights.shape).any(-2)[..., None]
    return weights @ xp(v).where(hidden, 0.0, as_float(v)), weights


@instead_of(attention)
def mask_before_scores(q: Array, k: Array, v: Array, mask: Array | None = None) -> Pair:
    """The queries are set to 0 where the mask hides something, instead of the scores.

    Hint: A mask speaks of pairs of a query and a key. Where in the code does such a pair have a number of its own?
    """
    if mask is None:
        return attention(q, k, v)
    hidden = broadcast(mask, (*q.shape[:-1], k.shape[-2])).any(-1)[..., None]
    return attention(xp(q).where(hidden, 0.0, as_float(q)), k, v)
