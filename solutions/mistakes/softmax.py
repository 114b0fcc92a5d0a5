"""From scores to weights: what goes wrong in a softmax.

The exercise is NumPy's `softmax`. Attention uses `shares`, which is the same without what only shows when somebody
calls the exercise itself (types, an input that is changed).
"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.mistakes import instead_of

from .arrays import Array, Part, as_float, cast, xp

Axis = int | tuple[int, ...]


def last_axis(x: Array) -> Axis:
    return -1


def row_maximum(x: Array, axis: Axis) -> Array:
    """The largest of every row, and 0 for a row that is all -inf, from which nothing can be taken away."""
    largest = xp(x).amax(x, axis, keepdims=True)
    return xp(x).where(largest == -np.inf, 0.0, largest)


def exponential(x: Array) -> Array:
    return xp(x).exp(x)


def row_sum(powers: Array, axis: Axis) -> Array:
    return powers.sum(axis=axis, keepdims=True)


def divide_but_not_by_zero(powers: Array, total: Array) -> Array:
    return powers / xp(total).where(total == 0.0, 1.0, total)


def shares(
    x: Array,
    *,
    along: Part = last_axis,
    shift: Part = row_maximum,
    power: Part = exponential,
    total: Part = row_sum,
    share: Part = divide_but_not_by_zero,
) -> Array:
    """The softmax. Half types are summed up in float32, as torch does it."""
    exact = cast(x, "float32") if xp(x) is not np and x.element_size() == 2 else x
    axis = along(x)
    with np.errstate(all="ignore"):
        powers = power(exact - shift(exact, axis))
        return cast(share(powers, total(powers, axis)), x.dtype)


def keep_type(weights: Array, x: Array) -> Array:
    return weights


def softmax(x: Array, *, rows: Part = shares, finish: Part = keep_type) -> Array:
    return finish(rows(as_float(x)), x)


# Over which axis


@instead_of(last_axis)
def softmax_over_queries(x: Array) -> Axis:
    """The softmax runs over the second to last axis, the queries, so the weights of one query don't sum to 1.

    Hint: One query shares out its attention over the keys. Which axis of the scores counts the keys?
    """
    return -2


@instead_of(last_axis)
def softmax_over_axis_0(x: Array) -> Axis:
    """The softmax runs over axis 0, the first one, which with a batch means over its sentences.

    Hint: One query shares out its attention over the keys. Which axis counts the keys, whatever comes before it?
    """
    return 0


@instead_of(last_axis)
def softmax_over_axis_1(x: Array) -> Axis:
    """The softmax runs over axis 1 whatever the shape; of (B, h, n_q, n_k) that is the heads.

    Hint: Count the axis of the keys from the end: it is always the same one there.
    """
    return 1


@instead_of(last_axis)
def softmax_over_axis_3(x: Array) -> Axis:
    """The softmax runs over axis 3 whatever the shape, which is right with a batch and heads and fails without.

    Hint: Count the axis of the keys from the end: it is always the same one there.
    """
    return 3


@instead_of(last_axis)
def softmax_over_everything(x: Array) -> Axis:
    """All numbers of the array together share one sum, where every row should sum to 1 by itself.

    Hint: A maximum or a sum without an axis takes the whole array. Which axis should it run along?
    """
    return tuple(range(x.ndim))


# What is taken away first


@instead_of(row_maximum)
def softmax_without_maximum(x: Array, axis: Axis) -> Array:
    """The maximum is not taken away before exponentiating, so large logits overflow.

    Hint: e^1000 is too large for any float. What can you take away from all logits of a row without changing the result?
    """
    return 0.0 * xp(x).zeros_like(x)


@instead_of(row_maximum)
def softmax_with_one_maximum_for_all(x: Array, axis: Axis) -> Array:
    """The largest logit of the whole array is taken away from every row, so rows of much smaller logits vanish.

    Hint: A row at -1000 beside one at +1000: what is left of it? Whose maximum does a row need?
    """
    return x.max()


@instead_of(row_maximum)
def softmax_with_maximum_over_queries(x: Array, axis: Axis) -> Array:
    """The maximum is taken along another axis than the sum, so the logits of one row are shifted by different amounts.

    Hint: A shift leaves the softmax of a row unchanged only if all of the row is shifted by the same number.
    """
    return row_maximum(x, -2)


@instead_of(row_maximum)
def softmax_shifted_upwards(x: Array, axis: Axis) -> Array:
    """The maximum is added where it should be taken away, so large logits overflow sooner.

    Hint: After the shift the largest logit of a row should be 0.
    """
    return -row_maximum(x, axis)


@instead_of(softmax)
def softmax_of_clipped_logits(x: Array) -> Array:
    """The logits are clipped to a range, so all that lie beyond it become equal, and -inf becomes a number.

    Hint: Which two rows of logits does clipping make alike? There is a shift that needs no clipping.
    """
    return shares(as_float(x).clip(-50, 50))


# The powers


@instead_of(exponential)
def softmax_to_base_2(x: Array) -> Array:
    """The powers are those of 2, not of e.

    Hint: Which number raised to the logit does the formula name?
    """
    return 2.0**x


@instead_of(shares)
def softmax_of_negated_scores(x: Array) -> Array:
    """The scores' sign is turned, so the worst match gets the largest weight.

    Hint: Should a weight grow or shrink with its score?
    """
    return shares(-x)


@instead_of(shares)
def softmax_without_exponential(x: Array) -> Array:
    """The scores themselves are divided by their sum, without exponentiating.

    Hint: Scores may be negative. What makes every one of them positive and keeps their order?
    """
    return x / x.sum(axis=-1, keepdims=True)


@instead_of(shares)
def softmax_of_positive_scores(x: Array) -> Array:
    """Negative scores are cut off at 0 before the softmax.

    Hint: Are -1 and -5 the same to a softmax?
    """
    return shares(x.clip(0, None))


@instead_of(shares)
def sigmoid_instead_of_softmax(x: Array) -> Array:
    """Every score passes a sigmoid alone, so the weights of a row don't sum to 1.

    Hint: When one key's score rises, what should happen to the weights of the others?
    """
    return 1 / (1 + xp(x).exp(-x))


@instead_of(shares)
def softmax_missing(x: Array) -> Array:
    """There is no softmax: the scores themselves are used as weights.

    Hint: Weights are positive and sum to 1. Which step makes them so?
    """
    return x


@instead_of(shares)
def softmax_twice(x: Array) -> Array:
    """The softmax is applied twice, which makes the weights nearly equal.

    Hint: Follow the scores through your code. How often are they exponentiated?
    """
    return shares(shares(x))


@instead_of(shares)
def softmax_left_as_logarithm(x: Array) -> Array:
    """The logarithm of the softmax is given: negative numbers that don't sum to 1.

    Hint: Weights are positive. What undoes a logarithm?
    """
    return xp(x).log(shares(x))


@instead_of(shares)
def softmax_made_hard(x: Array) -> Array:
    """The best key gets all of the weight and the others none.

    Hint: A softmax is called soft since the second best gets a part too. How large is it?
    """
    return cast(x == xp(x).amax(x, -1, keepdims=True), x.dtype)


# The sum, and dividing by it


@instead_of(row_sum)
def softmax_sum_without_keepdims(powers: Array, axis: Axis) -> Array:
    """The row sums have lost their axis, so they line up with the columns or with nothing.

    Hint: (4, 6) divided by (4,) fails, and (4, 4) by (4,) divides by the wrong sum. Which shape would fit?
    """
    return powers.sum(axis=axis)


@instead_of(row_sum)
def softmax_sum_over_queries(powers: Array, axis: Axis) -> Array:
    """The powers are divided by sums over the queries, not over the keys.

    Hint: For one query, the weights over all keys should sum to 1. Along which axis do you add?
    """
    return powers.sum(axis=-2, keepdims=True)


@instead_of(row_sum)
def softmax_sum_over_everything(powers: Array, axis: Axis) -> Array:
    """The powers of every row are divided by the sum over the whole array.

    Hint: A sum without an axis takes the whole array. Which axis should it run along?
    """
    return powers.sum()


@instead_of(row_sum)
def softmax_with_one_in_denominator(powers: Array, axis: Axis) -> Array:
    """1 is added to the sum, so the weights of a row sum to less than 1.

    Hint: What do the weights of one row sum to? Follow the denominator.
    """
    return 1 + row_sum(powers, axis)


@instead_of(row_sum)
def softmax_with_epsilon_1e_9(powers: Array, axis: Axis) -> Array:
    """A small number, 1e-9, is added to the sum, so the weights don't quite sum to 1.

    Hint: After the largest logit is taken away, how small can the sum of a row get? When only is it 0?
    """
    return 1e-9 + row_sum(powers, axis)


@instead_of(row_sum)
def softmax_with_epsilon_1e_8(powers: Array, axis: Axis) -> Array:
    """A small number, 1e-8, is added to the sum, so the weights don't quite sum to 1.

    Hint: After the largest logit is taken away, how small can the sum of a row get? When only is it 0?
    """
    return 1e-8 + row_sum(powers, axis)


@instead_of(row_sum)
def softmax_with_epsilon_1e_6(powers: Array, axis: Axis) -> Array:
    """A small number, 1e-6, is added to the sum, so the weights don't quite sum to 1.

    Hint: After the largest logit is taken away, how small can the sum of a row get? When only is it 0?
    """
    return 1e-6 + row_sum(powers, axis)


@instead_of(row_sum)
def softmax_divided_by_maximum(powers: Array, axis: Axis) -> Array:
    """The powers are divided by the largest of their row, so the best key always gets the weight 1.

    Hint: What should the weights of one row sum to?
    """
    return xp(powers).amax(powers, axis, keepdims=True)


@instead_of(row_sum)
def softmax_divided_by_mean(powers: Array, axis: Axis) -> Array:
    """The powers are divided by their mean, so the weights of a row sum to the number of keys.

    Hint: What should the weights of one row sum to?
    """
    return powers.mean(axis=axis, keepdims=True)


@instead_of(row_sum)
def softmax_divided_by_length(powers: Array, axis: Axis) -> Array:
    """The powers are divided by their Euclidean length, so it is their squares that sum to 1.

    Hint: What should the weights of one row sum to?
    """
    return row_sum(powers**2, axis) ** 0.5


@instead_of(divide_but_not_by_zero)
def hidden_rows_nan(powers: Array, total: Array) -> Array:
    """Where no key is left to look at, 0 is divided by 0: NaN, where zeros are due.

    Hint: If all logits of a row are -inf, what is the sum of their powers? What should the weights be then?
    """
    return powers / total


# What only a caller of the exercise sees


@instead_of(keep_type)
def softmax_always_float64(weights: Array, x: Array) -> Array:
    """float32 comes in and float64 goes out.

    Hint: What is the dtype of each number that you bring in: of a constant, of fresh zeros, of a cast?
    """
    return cast(weights, "float64")


@instead_of(keep_type)
def softmax_always_float32(weights: Array, x: Array) -> Array:
    """float64 comes in and float32 goes out, with half of the digits.

    Hint: Which of your steps names a dtype? Which dtype should come out?
    """
    return cast(weights, "float32")


@instead_of(keep_type)
def softmax_of_float16_in_float32(weights: Array, x: Array) -> Array:
    """float16 comes in and float32 goes out.

    Hint: Which of your steps names a dtype? Which dtype should come out?
    """
    return cast(weights, "float32") if x.dtype == np.float16 else weights


@instead_of(keep_type)
def softmax_of_integers_truncated(weights: Array, x: Array) -> Array:
    """For integer logits the weights are turned into integers too, which makes nearly all of them 0.

    Hint: Which dtype can hold 0.25? What do integer inputs count as?
    """
    return cast(weights, x.dtype)


@instead_of(softmax)
def softmax_changes_its_input(x: Array) -> Array:
    """The caller's own array is changed on the way.

    Hint: What is the difference between `x = x - m` and `x -= m` for whoever passed x?
    """
    x -= row_maximum(x, -1).astype(x.dtype)
    return shares(as_float(x))


@instead_of(softmax)
def softmax_of_empty_row_uniform(x: Array) -> Array:
    """A row that is all -inf gets equal weights, where zeros are due.

    Hint: A query from which everything is hidden should bring nothing home. What are its weights?
    """
    return np.where((x == -np.inf).all(-1)[..., None], 1.0 / x.shape[-1], shares(as_float(x))).astype(as_float(x).dtype)


@instead_of(softmax)
def softmax_maximum_without_keepdims(x: Array) -> Array:
    """The row maxima have lost their axis, so they line up with the columns or with nothing.

    Hint: (4, 6) minus (4,) fails, and (4, 4) minus (4,) shifts every column. Which shape would fit?
    """
    return shares(as_float(x), shift=lambda x, axis: x.max(axis))


@instead_of(softmax)
def softmax_without_keepdims(x: Array) -> Array:
    """Both the maxima and the sums of the rows have lost their axis: they line up with the columns or with nothing.

    Hint: (4, 6) minus (4,) fails, and (4, 4) minus (4,) shifts every column. Which shape would fit?
    """
    return shares(as_float(x), shift=lambda x, axis: x.max(axis), total=softmax_sum_without_keepdims)


@instead_of(softmax)
def softmax_of_maximum_minus_logits(x: Array) -> Array:
    """The logits are taken from the maximum, not the maximum from them: the worst match wins, and far ones overflow.

    Hint: Should the exponent of the largest logit be the largest or the smallest of its row?
    """
    return shares(as_float(x), power=lambda x: np.exp(-x))


@instead_of(softmax)
def softmax_shifted_by_mean(x: Array) -> Array:
    """The mean is taken away instead of the maximum, so one large logit in a row still overflows.

    Hint: Which number, taken away, makes sure that no logit is above 0?
    """
    return shares(as_float(x), shift=lambda x, axis: x.mean(axis=axis, keepdims=True))
