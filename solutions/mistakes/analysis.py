"""What heads cost and what they learn, and what goes wrong in counting, classifying and pruning them."""

from __future__ import annotations

import numpy as np

from grader.diagnosis.mistakes import instead_of

from .arrays import Array, Part
from .grouped import refuse_uneven_groups
from .heads import refuse_uneven_heads

Counts = dict[str, int]
Matrices = tuple[Array, Array, Array, Array]


# Parameters


def refuse_uneven(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    if d_model % num_heads:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
    refuse_uneven_groups(num_heads, num_kv_heads)


def attention_parameters(d_model: int, num_heads: int, num_kv_heads: int | None = None, *, check: Part = refuse_uneven) -> Counts:
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    check(d_model, num_heads, num_kv_heads)
    d_kv = d_model // num_heads * num_kv_heads
    return {"qkv": d_model * (d_model + 2 * d_kv), "output": d_model * d_model}


@instead_of(refuse_uneven)
def counting_uneven_sizes(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """Parameters are counted for a layer that can't be, since its sizes don't divide.

    Hint: Two divisions must come out even. Which ones, and what does the exercise promise when they don't?
    """


@instead_of(refuse_uneven)
def counting_checks_heads_only(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """It is not checked whether the KV heads divide the heads.

    Hint: Two divisions must come out even. Which is the other one?
    """
    refuse_uneven(d_model, num_heads, num_heads)


@instead_of(refuse_uneven)
def counting_asserts_even_sizes(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """Sizes that don't divide are stopped by an assertion, where a ValueError is due.

    Hint: An assertion says that the programmer erred. Which exception says that a caller's value is wrong?
    """
    try:
        refuse_uneven(d_model, num_heads, num_kv_heads)
    except ValueError as error:
        raise AssertionError(str(error)) from None


@instead_of(attention_parameters)
def parameters_with_biases(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """Biases are counted, but the layers here have none.

    Hint: What does a projection without a bias consist of?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {"qkv": right["qkv"] + right["qkv"] // d_model, "output": right["output"] + d_model}


@instead_of(attention_parameters)
def parameters_ignore_kv_heads(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """Keys and values are counted as large as the queries, whatever the number of KV heads.

    Hint: Which of the three projections get smaller when heads share keys and values?
    """
    attention_parameters(d_model, num_heads, num_kv_heads)
    return {"qkv": 3 * d_model * d_model, "output": d_model * d_model}


@instead_of(attention_parameters)
def parameters_of_d_model_alone(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """Only d_model is looked at: KV heads make nothing smaller, and sizes that don't divide are not refused.

    Hint: The function takes three numbers. What do the two others change?
    """
    return {"qkv": 3 * d_model * d_model, "output": d_model * d_model}


@instead_of(attention_parameters)
def parameters_shrink_queries_too(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """The queries' projection is counted as small as those of keys and values.

    Hint: Which of the three projections get smaller when heads share keys and values?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {**right, "qkv": 3 * d_model * (d_model // num_heads) * (num_kv_heads or num_heads)}


@instead_of(attention_parameters)
def parameters_shrink_output_too(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """The output projection is counted as small as those of keys and values.

    Hint: How many heads' outputs does W_O read: those of the query heads or those of the KV heads?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {**right, "output": d_model * (d_model // num_heads) * (num_kv_heads or num_heads)}


@instead_of(attention_parameters)
def parameters_of_keys_without_values(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """Only one of keys and values is counted.

    Hint: For which letters does "qkv" stand, and what does each of them cost?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {**right, "qkv": (right["qkv"] + d_model * d_model) // 2}


@instead_of(attention_parameters)
def parameters_times_heads(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """Every head is counted as if it had projections of the full size.

    Hint: What does one head's projection go from and to? And all heads' together?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {**right, "qkv": right["qkv"] * num_heads}


@instead_of(attention_parameters)
def parameters_of_one_head(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """The projections of a single head are counted.

    Hint: How many heads are there? Are the results for one of them or for all?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {**right, "qkv": 3 * d_model * (d_model // num_heads)}


@instead_of(attention_parameters)
def parameters_of_qkv_with_output(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """The output projection is counted among the others too.

    Hint: There are four matrices. Which three belong to "qkv"?
    """
    right = attention_parameters(d_model, num_heads, num_kv_heads)
    return {**right, "qkv": right["qkv"] + right["output"]}


@instead_of(attention_parameters)
def parameters_default_to_one_kv_head(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> Counts:
    """When no number of KV heads is given, one is taken, where every head should have its own.

    Hint: What is plain multi-head attention: as many KV heads as query heads, or one?
    """
    return attention_parameters(d_model, num_heads, num_kv_heads or 1)


@instead_of(attention_parameters)
def parameters_as_floats(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> dict[str, float]:
    """The numbers are right, but they are floats.

    Hint: Python has two divisions, and one of them always gives a float.
    """
    return {name: float(count) for name, count in attention_parameters(d_model, num_heads, num_kv_heads).items()}


@instead_of(attention_parameters)
def parameters_in_one_sum(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> int:
    """One sum is returned, where two numbers with names are due.

    Hint: What does the exercise promise to give back?
    """
    return sum(attention_parameters(d_model, num_heads, num_kv_heads).values())


# The weights' memory


def attention_matrix_bytes(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    return batch * num_heads * n * n * bytes_per_value


@instead_of(attention_matrix_bytes)
def matrix_bytes_of_one_head(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Only one head is counted.

    Hint: Which of the four arguments does your result not depend on?
    """
    return attention_matrix_bytes(1, n, batch, bytes_per_value)


@instead_of(attention_matrix_bytes)
def matrix_bytes_of_one_sentence(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Only one sentence is counted, whatever the batch.

    Hint: Which of the four arguments does your result not depend on?
    """
    return attention_matrix_bytes(num_heads, n, 1, bytes_per_value)


@instead_of(attention_matrix_bytes)
def matrix_bytes_linear(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """One weight a token is counted, where every token has a weight for every other.

    Hint: How many rows and how many columns has the matrix of weights?
    """
    return batch * num_heads * n * bytes_per_value


@instead_of(attention_matrix_bytes)
def matrix_bytes_with_a_caret(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """In Python n ^ 2 is no square: it flips a bit of n.

    Hint: What does Python say that 3 ^ 2 is, and what is 3 ** 2?
    """
    return batch * num_heads * (n ^ 2) * bytes_per_value


@instead_of(attention_matrix_bytes)
def matrix_bytes_with_a_caret_in_a_row(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """In Python ^ makes no square: it flips bits, and comes after *, so all factors before it are taken together.

    Hint: What does Python say that 3 ^ 2 is, and what is 3 ** 2?
    """
    return batch * num_heads * n ^ 2 * bytes_per_value


@instead_of(attention_matrix_bytes)
def matrix_bytes_of_a_triangle(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Only the lower triangle is counted, but a matrix takes its memory whether its numbers are 0 or not.

    Hint: What does the exercise count: weights that are used or numbers that are stored?
    """
    return batch * num_heads * (n * (n + 1) // 2) * bytes_per_value


@instead_of(attention_matrix_bytes)
def matrix_counted_in_values(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Numbers are counted, not bytes.

    Hint: How many bytes does one number take, and who says so?
    """
    return attention_matrix_bytes(num_heads, n, batch, 1)


@instead_of(attention_matrix_bytes)
def matrix_bytes_always_four_a_value(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Every number is counted as 4 bytes, whatever was asked for.

    Hint: Which of the four arguments does your result not depend on?
    """
    return attention_matrix_bytes(num_heads, n, batch)


@instead_of(attention_matrix_bytes)
def matrix_counted_in_bits(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Bits are counted, not bytes.

    Hint: Is the argument `bytes_per_value` in bits?
    """
    return 8 * attention_matrix_bytes(num_heads, n, batch, bytes_per_value)


@instead_of(attention_matrix_bytes)
def matrix_bytes_of_scores_too(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Scores and weights are both counted; the exercise asks for one matrix a head.

    Hint: How many arrays of shape (B, h, n, n) does the exercise speak of?
    """
    return 2 * attention_matrix_bytes(num_heads, n, batch, bytes_per_value)


@instead_of(attention_matrix_bytes)
def matrix_counted_in_gibibytes(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> float:
    """Gibibytes are given, not bytes.

    Hint: Which unit is in the function's name?
    """
    return attention_matrix_bytes(num_heads, n, batch, bytes_per_value) / 2**30


@instead_of(attention_matrix_bytes)
def matrix_bytes_as_a_float(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> float:
    """The number is right, but it is a float.

    Hint: Python has two divisions, and one of them always gives a float. Is any division needed?
    """
    return float(attention_matrix_bytes(num_heads, n, batch, bytes_per_value))


# Entropy


def surprise(weights: Array) -> Array:
    """p log p in nats, and 0 for p = 0."""
    return weights * np.log(np.where(weights > 0, weights, 1.0))


def over_keys(terms: Array) -> Array:
    return -terms.sum(-1)


def over_queries(entropies: Array) -> Array:
    return entropies.mean(-1)


def attention_entropy(weights: Array, *, terms: Part = surprise, keys: Part = over_keys, queries: Part = over_queries) -> Array:
    with np.errstate(all="ignore"):
        return queries(keys(terms(weights)))


@instead_of(surprise)
def entropy_logarithm_of_zero(weights: Array) -> Array:
    """The logarithm of 0 is taken, and 0 times minus infinity is NaN.

    Hint: What does the exercise say that 0 log 0 is? How can those places be left out?
    """
    return weights * np.log(weights)


@instead_of(surprise)
def entropy_with_epsilon_1e_9(weights: Array) -> Array:
    """1e-9 is added to every weight before the logarithm, so the entropies are a little off.

    Hint: The logarithm is in trouble for one weight only. Can you treat that one by itself?
    """
    return weights * np.log(weights + 1e-9)


@instead_of(surprise)
def entropy_with_epsilon_1e_12(weights: Array) -> Array:
    """1e-12 is added to every weight before the logarithm, so the entropies are a little off.

    Hint: The logarithm is in trouble for one weight only. Can you treat that one by itself?
    """
    return weights * np.log(weights + 1e-12)


@instead_of(surprise)
def entropy_of_clipped_weights(weights: Array) -> Array:
    """Weights below 1e-9 count as 1e-9 in the logarithm, so heads with very small weights are a little off.

    Hint: The logarithm is in trouble for one weight only. Can you treat that one by itself?
    """
    return weights * np.log(np.maximum(weights, 1e-9))


@instead_of(surprise)
def entropy_in_bits(weights: Array) -> Array:
    """The entropy is in bits, not in nats.

    Hint: Which logarithm goes with which unit?
    """
    return surprise(weights) / np.log(2)


@instead_of(surprise)
def entropy_of_logarithms_alone(weights: Array) -> Array:
    """The logarithms are added up without being weighted.

    Hint: How often does a key come up whose weight is 0.01? How much should its logarithm count?
    """
    return np.log(np.where(weights > 0, weights, 1.0))


@instead_of(surprise)
def entropy_of_squares(weights: Array) -> Array:
    """The squares of the weights are added up, which measures concentration in another way.

    Hint: Where is the logarithm?
    """
    return weights**2


@instead_of(over_keys)
def entropy_sign_forgotten(terms: Array) -> Array:
    """The entropies are negative.

    Hint: Which sign has the logarithm of a number below 1? Which should an entropy have?
    """
    return terms.sum(-1)


@instead_of(over_keys)
def entropy_averaged_over_keys(terms: Array) -> Array:
    """The terms of one query are averaged over its keys, where they should be added up.

    Hint: Four equal weights: their entropy is log 4. What do you get?
    """
    return -terms.mean(-1)


@instead_of(over_keys)
def entropy_as_perplexity(terms: Array) -> Array:
    """The exponential of the entropy is given: a number of keys, not nats.

    Hint: Four equal weights: their entropy is log 4. What do you get?
    """
    return np.exp(over_keys(terms))


@instead_of(over_keys)
def entropy_relative_to_uniform(terms: Array) -> Array:
    """The entropies are divided by the largest that is possible.

    Hint: Four equal weights: their entropy is log 4. What do you get?
    """
    return over_keys(terms) / np.log(max(terms.shape[-1], 2))


@instead_of(over_queries)
def entropy_added_over_queries(entropies: Array) -> Array:
    """The queries' entropies are added up, where their mean is due.

    Hint: Should a longer text have a larger entropy for being longer?
    """
    return entropies.sum(-1)


@instead_of(over_queries)
def entropy_of_every_query(entropies: Array) -> Array:
    """An entropy is given for every query, where one for every head is due.

    Hint: Which shape does the exercise promise?
    """
    return entropies


@instead_of(over_queries)
def entropy_of_all_heads_together(entropies: Array) -> Array:
    """One number is given for all heads together.

    Hint: Which shape does the exercise promise?
    """
    return entropies.mean()


@instead_of(over_queries)
def entropy_of_heads_averaged_for_queries(entropies: Array) -> Array:
    """The mean is taken over the heads, not over the queries.

    Hint: Which axis should be left when you are done?
    """
    return entropies.mean(0)


@instead_of(over_queries)
def entropy_of_the_last_query(entropies: Array) -> Array:
    """Only the last query's entropy is given.

    Hint: How many queries has a head, and what should become of their entropies?
    """
    return entropies[..., -1]


@instead_of(attention_entropy)
def entropy_nan_made_zero_at_the_end(weights: Array) -> Array:
    """NaN is made 0 at the very end, when a single weight of 0 has spoiled the sum of its whole head.

    Hint: One term of the sum is NaN. When is it too late to replace it by 0?
    """
    with np.errstate(all="ignore"):
        return np.nan_to_num(attention_entropy(weights, terms=lambda weights: weights * np.log(weights)))


@instead_of(attention_entropy)
def entropy_of_the_mean_weights(weights: Array) -> Array:
    """The weights are averaged over the queries first; the entropy of a mean is not the mean of the entropies.

    Hint: Two queries, each sure of another key. How sure is each, and how sure is their mean?
    """
    return over_keys(surprise(weights.mean(-2)))


# Classifying


def sink_strength(weights: Array) -> float:
    return weights[:, 0].mean()


def previous_strength(weights: Array) -> float:
    return np.diagonal(weights, -1).mean() if len(weights) > 1 else 0.0


def own_strength(weights: Array) -> float:
    return np.diagonal(weights).mean()


def spread(weights: Array) -> float:
    return float(attention_entropy(weights[None])[0])


def in_order(sink: float, previous: float, own: float, entropy: float) -> str:
    if sink > 0.4:
        return "attention_sink"
    if previous > 0.3:
        return "prev_token"
    if own > 0.4:
        return "self_attend"
    return "focused" if entropy < 0.5 else "broad"


def classify_head(
    weights: Array,
    *,
    sink: Part = sink_strength,
    previous: Part = previous_strength,
    own: Part = own_strength,
    entropy: Part = spread,
    decide: Part = in_order,
) -> str:
    return decide(sink(weights), previous(weights), own(weights), entropy(weights))


@instead_of(sink_strength)
def sink_read_from_row_0(weights: Array) -> float:
    """The first row is read, where the first query looks, not the first column, who looks at the first token.

    Hint: A sink is a token that all queries look at. Are its weights in a row or in a column?
    """
    return weights[0].mean()


@instead_of(sink_strength)
def sink_in_the_last_column(weights: Array) -> float:
    """The last token is taken for the sink, not the first.

    Hint: Which token is the sink in the exercise's rule?
    """
    return weights[:, -1].mean()


@instead_of(sink_strength)
def sink_column_added_up(weights: Array) -> float:
    """The first column is added up, where its mean is due.

    Hint: Should a longer text have a stronger sink for being longer?
    """
    return weights[:, 0].sum()


@instead_of(sink_strength)
def sink_by_strongest_query(weights: Array) -> float:
    """A single query that looks at the first token makes a sink.

    Hint: The rule speaks of the column's mean. What do you take of it?
    """
    return weights[:, 0].max()


@instead_of(sink_strength)
def sink_without_first_query(weights: Array) -> float:
    """The first query is left out of the sink's mean.

    Hint: How many entries has the column, and how many do you count?
    """
    return weights[1:, 0].mean() if len(weights) > 1 else weights[0, 0]


@instead_of(previous_strength)
def next_token_for_previous(weights: Array) -> float:
    """The diagonal above the main one is read: the weights on the next token.

    Hint: Rows are queries. Where in row 3 is the weight on token 2: left or right of the diagonal?
    """
    return np.diagonal(weights, 1).mean() if len(weights) > 1 else 0.0


@instead_of(previous_strength)
def previous_divided_by_n(weights: Array) -> float:
    """The diagonal below the main one is divided by n, but it has one entry less.

    Hint: How many tokens have a previous one?
    """
    return np.diagonal(weights, -1).sum() / len(weights)


@instead_of(previous_strength)
def previous_added_up(weights: Array) -> float:
    """The diagonal below the main one is added up, where its mean is due.

    Hint: Should a longer text have a stronger pattern for being longer?
    """
    return np.diagonal(weights, -1).sum()


@instead_of(previous_strength)
def previous_two_tokens_back(weights: Array) -> float:
    """The second diagonal below the main one is read: the weights on the token before the last one.

    Hint: How far from the diagonal is the previous token?
    """
    return np.diagonal(weights, -2).mean() if len(weights) > 2 else 0.0


@instead_of(own_strength)
def own_diagonal_added_up(weights: Array) -> float:
    """The diagonal is added up, where its mean is due.

    Hint: Should a longer text have a stronger pattern for being longer?
    """
    return np.trace(weights)


@instead_of(own_strength)
def own_diagonal_from_the_other_corner(weights: Array) -> float:
    """The diagonal from the other corner is read.

    Hint: Where in row 0 is the weight on token 0?
    """
    return np.diagonal(weights[:, ::-1]).mean()


@instead_of(spread)
def classify_by_entropy_in_bits(weights: Array) -> float:
    """The entropy is compared in bits, not in nats.

    Hint: Which logarithm goes with the rule's 0.5?
    """
    return spread(weights) / float(np.log(2))


@instead_of(spread)
def classify_by_entropy_of_all_queries(weights: Array) -> float:
    """The queries' entropies are added up, where their mean is due.

    Hint: Should a longer text be less focused for being longer?
    """
    return spread(weights) * len(weights)


@instead_of(spread)
def classify_by_entropy_that_is_nan(weights: Array) -> float:
    """The logarithm of 0 makes the entropy NaN, and every comparison with NaN is false.

    Hint: What does the exercise say that 0 log 0 is?
    """
    with np.errstate(all="ignore"):
        return float(-(weights * np.log(weights)).sum(-1).mean())


@instead_of(spread)
def classify_by_negative_entropy(weights: Array) -> float:
    """The entropy has the wrong sign, so every head is focused.

    Hint: Which sign has the logarithm of a number below 1? Which should an entropy have?
    """
    return -spread(weights)


@instead_of(in_order)
def classify_previous_before_sink(sink: float, previous: float, own: float, entropy: float) -> str:
    """The rule of the previous token is tried before that of the sink.

    Hint: A head may pass two rules. Which of them decides?
    """
    return "prev_token" if previous > 0.3 else in_order(sink, previous, own, entropy)


@instead_of(in_order)
def classify_own_before_previous(sink: float, previous: float, own: float, entropy: float) -> str:
    """The rule of a token's own weight is tried before that of the previous token.

    Hint: A head may pass two rules. Which of them decides?
    """
    return in_order(sink, 0.0 if own > 0.4 else previous, own, entropy)


@instead_of(in_order)
def classify_own_first(sink: float, previous: float, own: float, entropy: float) -> str:
    """The rule of a token's own weight is tried first of all.

    Hint: A head may pass two rules. Which of them decides?
    """
    return "self_attend" if own > 0.4 else in_order(sink, previous, own, entropy)


@instead_of(in_order)
def classify_focused_first(sink: float, previous: float, own: float, entropy: float) -> str:
    """The rule of the entropy is tried first of all.

    Hint: A head may pass two rules. Which of them decides?
    """
    return "focused" if entropy < 0.5 else in_order(sink, previous, own, entropy)


@instead_of(in_order)
def classify_sink_last(sink: float, previous: float, own: float, entropy: float) -> str:
    """The rule of the sink is tried after those of the previous token and of a token's own weight.

    Hint: A head may pass two rules. Which of them decides?
    """
    first = in_order(0.0, previous, own, entropy)
    return first if first in ("prev_token", "self_attend") else in_order(sink, previous, own, entropy)


@instead_of(in_order)
def classify_by_the_strongest(sink: float, previous: float, own: float, entropy: float) -> str:
    """The strongest of the three patterns decides, where the first rule that holds should.

    Hint: A head may pass two rules. Which of them decides?
    """
    names = {"attention_sink": sink, "prev_token": previous, "self_attend": own}
    best = max(names, key=lambda name: names[name])
    right = in_order(sink, previous, own, entropy)
    return best if right in names else right


@instead_of(in_order)
def classify_focused_and_broad_swapped(sink: float, previous: float, own: float, entropy: float) -> str:
    """A large entropy is called focused and a small one broad.

    Hint: Is the entropy of a head that looks at one key small or large?
    """
    return {"focused": "broad", "broad": "focused"}.get(right := in_order(sink, previous, own, entropy), right)


@instead_of(in_order)
def classify_at_the_bound_already(sink: float, previous: float, own: float, entropy: float) -> str:
    """A mean of exactly 0.4 counts as above 0.4.

    Hint: Is 0.4 above 0.4? Which comparison says so?
    """
    return in_order(*(np.nextafter(mean, 1.0) for mean in (sink, previous, own)), entropy)


@instead_of(in_order)
def classify_previous_above_0_4(sink: float, previous: float, own: float, entropy: float) -> str:
    """The bound of the previous token's rule is 0.4, where 0.3 is due.

    Hint: Not all rules have the same bound. Read the table again.
    """
    return in_order(sink, previous if previous > 0.4 else 0.0, own, entropy)


@instead_of(in_order)
def classify_sink_above_0_3(sink: float, previous: float, own: float, entropy: float) -> str:
    """The bound of the sink's rule is 0.3, where 0.4 is due.

    Hint: Not all rules have the same bound. Read the table again.
    """
    return "attention_sink" if sink > 0.3 else in_order(sink, previous, own, entropy)


@instead_of(in_order)
def classify_own_above_0_3(sink: float, previous: float, own: float, entropy: float) -> str:
    """The bound of the rule of a token's own weight is 0.3, where 0.4 is due.

    Hint: Not all rules have the same bound. Read the table again.
    """
    return in_order(sink, previous, 1.0 if own > 0.3 else own, entropy)


@instead_of(in_order)
def classify_focused_below_1(sink: float, previous: float, own: float, entropy: float) -> str:
    """The bound of the entropy's rule is 1, where 0.5 is due.

    Hint: Read the table of rules again.
    """
    return in_order(sink, previous, own, entropy / 2)


@instead_of(in_order)
def classify_without_broad(sink: float, previous: float, own: float, entropy: float) -> str | None:
    """Nothing is returned when no rule holds.

    Hint: What is a head called that passes none of the rules?
    """
    right = in_order(sink, previous, own, entropy)
    return None if right == "broad" else right


# Pruning


def refuse_missing_heads(d_model: int, num_heads: int, heads: list[int]) -> None:
    refuse_uneven_heads(d_model, num_heads)
    if missing := [head for head in heads if not 0 <= head < num_heads]:
        raise ValueError(f"there is no head {missing} among {num_heads}")


def features_that_stay(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """True at the features of the heads that are kept."""
    return np.repeat([head not in heads for head in range(num_heads)], d_model // num_heads)


def cut_columns_and_rows(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    return W_Q[:, stay], W_K[:, stay], W_V[:, stay], W_O[stay]


def prune_heads(
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    W_O: Array,
    num_heads: int,
    heads: list[int],
    *,
    check: Part = refuse_missing_heads,
    keep: Part = features_that_stay,
    cut: Part = cut_columns_and_rows,
) -> Matrices:
    heads = list(heads)
    check(len(W_O), num_heads, heads)
    return cut(W_Q, W_K, W_V, W_O, keep(len(W_O), num_heads, heads))


@instead_of(refuse_missing_heads)
def prune_missing_heads_in_silence(d_model: int, num_heads: int, heads: list[int]) -> None:
    """A head that does not exist is pruned in silence.

    Hint: Of three heads, which numbers are there? What does the exercise promise for any other?
    """
    refuse_uneven_heads(d_model, num_heads)


@instead_of(refuse_missing_heads)
def prune_accepts_negative_heads(d_model: int, num_heads: int, heads: list[int]) -> None:
    """Heads beyond the last are refused, but negative ones are not.

    Hint: A number can miss the range of heads on two sides. Which one do you test?
    """
    refuse_missing_heads(d_model, num_heads, [head for head in heads if head >= 0])


@instead_of(refuse_missing_heads)
def prune_accepts_the_head_after_the_last(d_model: int, num_heads: int, heads: list[int]) -> None:
    """The head with the number num_heads is not refused, but counting starts at 0.

    Hint: Of three heads, which number has the last one?
    """
    refuse_missing_heads(d_model, num_heads, [head for head in heads if head != num_heads])


@instead_of(refuse_missing_heads)
def prune_missing_head_is_an_index_error(d_model: int, num_heads: int, heads: list[int]) -> None:
    """A head that does not exist raises IndexError, where ValueError is due.

    Hint: Which exception does the exercise promise?
    """
    refuse_uneven_heads(d_model, num_heads)
    if any(not 0 <= head < num_heads for head in heads):
        raise IndexError(f"head out of range of {num_heads}")


@instead_of(refuse_missing_heads)
def prune_accepts_uneven_heads(d_model: int, num_heads: int, heads: list[int]) -> None:
    """It is not checked whether the heads divide the features.

    Hint: How large is a head when 10 features are dealt out to 4? What does the exercise promise then?
    """
    if not all(0 <= head < num_heads for head in heads):
        raise ValueError(f"there is no head {heads} among {num_heads}")


@instead_of(features_that_stay)
def prune_keeps_what_should_go(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """The heads that are named are kept and the others removed.

    Hint: Does the argument name the heads that stay or those that go?
    """
    return ~features_that_stay(d_model, num_heads, heads)


@instead_of(features_that_stay)
def prune_single_features(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """One feature is removed for a head, the one with the head's number.

    Hint: How many features has a head, and where do those of head 2 begin?
    """
    return ~np.isin(np.arange(d_model), heads)


@instead_of(features_that_stay)
def prune_strided_heads(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """Every h-th feature is taken for a head, where a head is a slice of neighbours.

    Hint: Which features belong to head 1 of three: 1, 4, 7 and so on, or a block of neighbours?
    """
    return ~np.isin(np.arange(d_model) % num_heads, heads)


@instead_of(features_that_stay)
def prune_first_head_only(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """Only the first of the heads that are named is removed.

    Hint: When two heads are named, how many features should go?
    """
    return features_that_stay(d_model, num_heads, heads[:1])


@instead_of(features_that_stay)
def prune_as_many_from_the_front(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """As many heads as are named are removed, but always the first ones.

    Hint: Heads 1 and 3 are named. Which features go, and which do in your code?
    """
    return features_that_stay(d_model, num_heads, list(range(len(set(heads)))))


@instead_of(features_that_stay)
def prune_counts_from_1(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """Heads are counted from 1, so the head before the one that is named is removed.

    Hint: Which number has the first head?
    """
    return features_that_stay(d_model, num_heads, [head - 1 for head in heads])


@instead_of(features_that_stay)
def prune_head_size_is_head_count(d_model: int, num_heads: int, heads: list[int]) -> Array:
    """A head is taken to have as many features as there are heads.

    Hint: With 20 features and 4 heads, how many features has a head?
    """
    gone = [head * num_heads + feature for head in heads for feature in range(num_heads)]
    return ~np.isin(np.arange(d_model), gone)


@instead_of(prune_heads)
def prune_renumbers_while_removing(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, num_heads: int, heads: list[int]) -> Matrices:
    """Heads are removed one after the other, and after each the later ones have moved up to other numbers.

    Hint: When head 0 is gone, which number has the head that was number 2?
    """
    heads = list(dict.fromkeys(heads))
    refuse_missing_heads(len(W_O), num_heads, heads)
    d_k, W = len(W_O) // num_heads, (W_Q, W_K, W_V, W_O)
    for head in heads:
        stay = np.arange(len(W[3])) // d_k != head
        W = cut_columns_and_rows(*W, stay)
    return W


@instead_of(cut_columns_and_rows)
def prune_rows_of_projections(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """Rows of W_Q, W_K and W_V are removed, which are inputs; a head's features are columns.

    Hint: In x @ W, which axis of W meets x, and which makes the features of the heads?
    """
    return W_Q[stay], W_K[stay], W_V[stay], W_O[stay]


@instead_of(cut_columns_and_rows)
def prune_columns_of_output(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """Columns of W_O are removed, which are the layer's outputs; the heads come in by its rows.

    Hint: In heads @ W_O, which axis of W_O meets the heads?
    """
    return W_Q[:, stay], W_K[:, stay], W_V[:, stay], W_O[:, stay]


@instead_of(cut_columns_and_rows)
def prune_rows_and_columns_swapped(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """Rows are removed where columns should be, and columns where rows should be, as if W were stored (out, in).

    Hint: The matrices are used as x @ W. Which axis of W makes the features of the heads?
    """
    return W_Q[stay], W_K[stay], W_V[stay], W_O[:, stay]


@instead_of(cut_columns_and_rows)
def prune_output_left_whole(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """W_O is left whole, so it no longer fits what the remaining heads give.

    Hint: How many features come out of the remaining heads, and how many does W_O take?
    """
    return W_Q[:, stay], W_K[:, stay], W_V[:, stay], W_O


@instead_of(cut_columns_and_rows)
def prune_values_left_whole(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """W_V is left whole.

    Hint: Which of the four matrices hold something that belongs to one head?
    """
    return W_Q[:, stay], W_K[:, stay], W_V, W_O[stay]


@instead_of(cut_columns_and_rows)
def prune_by_zeros(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """The heads' parts are set to 0, so the matrices are as large as before and nothing is saved.

    Hint: How many columns should be left?
    """
    return W_Q * stay, W_K * stay, W_V * stay, W_O * stay[:, None]


@instead_of(cut_columns_and_rows)
def prune_cuts_both_axes(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """Rows and columns of every matrix are removed; the layer's inputs and outputs should keep their size.

    Hint: How many features has x after pruning? Which axis of each matrix belongs to the heads?
    """
    return tuple(W[stay][:, stay] for W in (W_Q, W_K, W_V, W_O))


@instead_of(cut_columns_and_rows)
def prune_scales_up_the_rest(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """What is left of W_O is scaled up, as dropout does it; pruned heads should count as zeros.

    Hint: What should the smaller matrices give: the same as the full ones under which condition?
    """
    return W_Q[:, stay], W_K[:, stay], W_V[:, stay], W_O[stay] * (len(stay) / max(stay.sum(), 1))


@instead_of(cut_columns_and_rows)
def prune_writes_into_its_inputs(W_Q: Array, W_K: Array, W_V: Array, W_O: Array, stay: Array) -> Matrices:
    """The caller's own matrices are set to 0 at the heads that go.

    Hint: Which of your steps changes an array that somebody else still uses?
    """
    W_O[~stay] = 0.0
    return cut_columns_and_rows(W_Q, W_K, W_V, W_O, stay)
