"""Cutting features into heads and putting them back: what goes wrong there.

The exercises are `split_heads` and `merge_heads`. Layers use `cut` and `join`, which are the same without what only
shows when somebody calls the exercise itself (sizes that don't divide, odd strides, types).
"""

from __future__ import annotations

from grader.diagnosis.mistakes import instead_of

from .arrays import Array, Part, flip, new, turn, xp

TORCH = ("torch_attention", "grouped_query")


def cut(x: Array, num_heads: int) -> Array:
    B, n, d_model = x.shape
    return turn(x.reshape(B, n, num_heads, d_model // num_heads), 0, 2, 1, 3)


def join(x: Array) -> Array:
    B, h, n, d_v = x.shape
    return turn(x, 0, 2, 1, 3).reshape(B, n, h * d_v)


def refuse_uneven_heads(d_model: int, num_heads: int) -> None:
    if d_model % num_heads:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")


def split_heads(x: Array, num_heads: int, *, check: Part = refuse_uneven_heads, arrange: Part = cut) -> Array:
    check(x.shape[-1], num_heads)
    return arrange(x, num_heads)


def merge_heads(x: Array, *, arrange: Part = join) -> Array:
    return arrange(x)


# Splitting: the wrong order of axes or features


@instead_of(cut)
def split_without_transpose(x: Array, num_heads: int) -> Array:
    """The features are read straight into the shape (B, h, n, d_k), so a head gets pieces of several tokens.

    Hint: A reshape keeps the numbers in their order in memory. Which axis may it cut, and what must then change places?
    """
    return x.reshape(x.shape[0], num_heads, x.shape[1], x.shape[2] // num_heads)


@instead_of(cut)
def split_heads_strided(x: Array, num_heads: int) -> Array:
    """Head i gets every h-th feature instead of a slice of neighbours.

    Hint: When one axis is cut into two, the second of the new axes runs fastest. Which should it be, the head or the feature?
    """
    B, n, d_model = x.shape
    return turn(x.reshape(B, n, d_model // num_heads, num_heads), 0, 3, 1, 2)


@instead_of(cut)
def split_leaves_tokens_first(x: Array, num_heads: int) -> Array:
    """The features are cut, but the heads stay behind the tokens: (B, n, h, d_k).

    Hint: Attention multiplies along the last two axes. Which two should they be inside one head?
    """
    B, n, d_model = x.shape
    return x.reshape(B, n, num_heads, d_model // num_heads)


@instead_of(cut)
def split_swaps_head_count_and_size(x: Array, num_heads: int) -> Array:
    """The number of heads and the size of a head have changed places.

    Hint: With 20 features and 4 heads, how many features has a head, and which of the two numbers is axis 1 of the result?
    """
    B, n, d_model = x.shape
    return turn(x.reshape(B, n, d_model // num_heads, num_heads), 0, 2, 1, 3)


@instead_of(cut)
def split_reverses_every_axis(x: Array, num_heads: int) -> Array:
    """Every axis is turned around, the batch too, where only tokens and heads should change places.

    Hint: What does `.T` do to an array of four axes? Name the two that should move.
    """
    B, n, d_model = x.shape
    return turn(x.reshape(B, n, num_heads, d_model // num_heads), 3, 2, 1, 0)


@instead_of(cut)
def split_reverses_heads(x: Array, num_heads: int) -> Array:
    """The heads come in the opposite order: head 0 holds the last features.

    Hint: Which features does the exercise promise to head 0?
    """
    return flip(cut(x, num_heads), 1)


@instead_of(cut)
def split_puts_features_before_tokens(x: Array, num_heads: int) -> Array:
    """Inside a head, features and tokens have changed places: (B, h, d_k, n).

    Hint: One row of a head should be one token. What is a row of yours?
    """
    return cut(x, num_heads).swapaxes(2, 3)


@instead_of(cut)
def split_swaps_batch_and_tokens(x: Array, num_heads: int) -> Array:
    """The batch and the tokens have changed places, and the heads have stayed.

    Hint: After cutting the axes are (B, n, h, d_k), numbered from 0. Which two numbers must be exchanged?
    """
    return split_leaves_tokens_first(x, num_heads).swapaxes(0, 1)


@instead_of(cut)
def split_swaps_batch_and_heads(x: Array, num_heads: int) -> Array:
    """The heads have changed places with the batch instead of with the tokens.

    Hint: After cutting the axes are (B, n, h, d_k), numbered from 0. Which two numbers must be exchanged?
    """
    return split_leaves_tokens_first(x, num_heads).swapaxes(0, 2)


@instead_of(cut)
def split_stacks_heads_in_front(x: Array, num_heads: int) -> Array:
    """The slices are right, but they are stacked in front of the batch: (h, B, n, d_k).

    Hint: Stacking makes a new axis. At which place should it stand?
    """
    return turn(cut(x, num_heads), 1, 0, 2, 3)


@instead_of(cut)
def split_mixes_heads_and_batch(x: Array, num_heads: int) -> Array:
    """The heads' slices are laid behind each other along the batch, head by head, and read back sentence by sentence.

    Hint: After joining slices along the batch, what stands second: sentence 1 of head 0, or head 1 of sentence 0?
    """
    B, n, d_model = x.shape
    return split_stacks_heads_in_front(x, num_heads).reshape(B, num_heads, n, d_model // num_heads)


@instead_of(cut)
def split_folds_heads_into_batch(x: Array, num_heads: int) -> Array:
    """Heads and batch are left as one axis: (B * h, n, d_k).

    Hint: How many axes has the result that the exercise promises?
    """
    B, n, d_model = x.shape
    return cut(x, num_heads).reshape(B * num_heads, n, d_model // num_heads)


@instead_of(cut)
def split_cuts_the_tokens(x: Array, num_heads: int) -> Array:
    """The sentence is cut into pieces, not the features: a head sees some tokens with all of their features.

    Hint: Every head should see every token. Of what does it see only a part?
    """
    B, n, d_model = x.shape
    return x.reshape(B, num_heads, n // num_heads, d_model)


@instead_of(cut)
def split_gives_every_head_everything(x: Array, num_heads: int) -> Array:
    """Every head gets a copy of the whole vector.

    Hint: A head has d_k = d_model / h features. Which ones belong to head i?
    """
    return xp(x).stack([x] * num_heads, 1)


@instead_of(cut)
def split_gives_every_head_the_first_slice(x: Array, num_heads: int) -> Array:
    """Every head holds the same slice, the first.

    Hint: Where does the slice of head i begin? Does your start depend on i?
    """
    d_k = x.shape[2] // num_heads
    return xp(x).stack([x[..., :d_k]] * num_heads, 1)


@instead_of(cut)
def split_slices_overlap(x: Array, num_heads: int) -> Array:
    """The slice of head i begins at feature i, so neighbouring heads share features and the last features are lost.

    Hint: Head 0 ends before feature d_k. Where must head 1 begin, and where head i?
    """
    d_k = x.shape[2] // num_heads
    return xp(x).stack([x[..., i : i + d_k] for i in range(num_heads)], 1)


@instead_of(cut)
def split_with_head_size_fixed(x: Array, num_heads: int) -> Array:
    """The size of a head is a fixed number, right for one model only.

    Hint: From which two numbers does the size of a head follow?
    """
    return turn(x.reshape(x.shape[0], x.shape[1], num_heads, 64), 0, 2, 1, 3)


@instead_of(cut)
def split_with_fractional_head_size(x: Array, num_heads: int) -> Array:
    """The size of a head is computed as a float, and no shape takes one.

    Hint: Python has two divisions. Which of them gives an int?
    """
    B, n, d_model = x.shape
    return turn(x.reshape(B, n, num_heads, d_model / num_heads), 0, 2, 1, 3)


# Splitting: what only a caller of the exercise sees


@instead_of(split_heads)
def uneven_features_dropped(x: Array, num_heads: int) -> Array:
    """Where the heads don't divide the features, those left over are dropped in silence.

    Hint: 10 features in 4 heads: what does the exercise promise then?
    """
    d_k = x.shape[2] // num_heads
    return cut(x[..., : d_k * num_heads], num_heads)


@instead_of(refuse_uneven_heads)
def uneven_heads_asserted(d_model: int, num_heads: int) -> None:
    """Sizes that don't divide are stopped by an assertion, where a ValueError is due.

    Hint: An assertion says that the programmer erred. Which exception says that a caller's value is wrong?
    """
    if d_model % num_heads:
        raise AssertionError(f"{d_model} must be divisible by {num_heads}")


@instead_of(refuse_uneven_heads)
def uneven_heads_refused_without_sizes(d_model: int, num_heads: int) -> None:
    """Sizes that don't divide raise a ValueError, but its message doesn't name them.

    Hint: Somebody reads this error at midnight. Which two numbers would tell them what is wrong?
    """
    if d_model % num_heads:
        raise ValueError("the sizes must divide")


@instead_of(refuse_uneven_heads)
def uneven_heads_a_type_error(d_model: int, num_heads: int) -> None:
    """Sizes that don't divide raise a TypeError, but the type is right and the value is not.

    Hint: Python names its exceptions by what is wrong with an argument, its type or its value.
    """
    if d_model % num_heads:
        raise TypeError(f"{d_model} must be divisible by {num_heads}")


@instead_of(refuse_uneven_heads)
def even_heads_refused(d_model: int, num_heads: int) -> None:
    """Sizes that divide are refused: the condition is the wrong way round.

    Hint: What does 20 % 4 give, and for which remainder is an error due?
    """
    if d_model % num_heads == 0:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")


@instead_of(refuse_uneven_heads)
def uneven_heads_not_refused(d_model: int, num_heads: int) -> None:
    """Nothing checks whether the heads divide the features, and a later line fails with words that help nobody.

    Hint: What is left over when 10 features are dealt out to 4 heads? Test for that first.
    """


@instead_of(split_heads, only=TORCH)
def split_cuts_the_gradient(x: Array, num_heads: int) -> Array:
    """The result has lost its tie to the input: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, or a way through NumPy?
    """
    return split_heads(x.detach(), num_heads)


@instead_of(split_heads)
def split_into_default_type(x: Array, num_heads: int) -> Array:
    """The heads are copied into fresh zeros, which have the library's default type and not that of the input.

    Hint: What is the dtype of zeros that are made without saying which?
    """
    right = split_heads(x, num_heads)
    result = new(x, *right.shape)
    result[:] = right
    return result


@instead_of(split_heads, only="numpy_attention")
def split_reshapes_the_input(x: Array, num_heads: int) -> Array:
    """The shape of the caller's own array is changed.

    Hint: Does your line make a new view of x, or does it change x itself?
    """
    refuse_uneven_heads(x.shape[-1], num_heads)
    x.shape = (*x.shape[:2], num_heads, x.shape[2] // num_heads)
    return x.swapaxes(1, 2)


# Merging


@instead_of(join)
def merge_without_transpose(x: Array) -> Array:
    """The heads are read straight into the shape (B, n, h * d_v), so a token gets pieces of other tokens.

    Hint: Which axis must stand beside the features before a reshape may melt the two into one?
    """
    B, h, n, d_v = x.shape
    return x.reshape(B, n, h * d_v)


@instead_of(join)
def merge_transposes_last_axes(x: Array) -> Array:
    """Tokens and features change places before the reshape, where tokens and heads should.

    Hint: Name the four axes of x. Which two must be neighbours, in which order, before they melt into one?
    """
    B, h, n, d_v = x.shape
    return x.swapaxes(2, 3).reshape(B, n, h * d_v)


@instead_of(join)
def merge_transposes_batch_and_heads(x: Array) -> Array:
    """The batch and the heads change places before the reshape, so sentences mix.

    Hint: Axis 0 is the batch. Should it move at all?
    """
    B, h, n, d_v = x.shape
    return x.swapaxes(0, 1).reshape(B, n, h * d_v)


@instead_of(join)
def merge_interleaves_heads(x: Array) -> Array:
    """The heads' features are interleaved: first feature 0 of all heads, then feature 1 of all heads.

    Hint: Of the two axes that melt into one, the second runs fastest. Which should it be, the head or the feature?
    """
    B, h, n, d_v = x.shape
    return turn(x, 0, 2, 3, 1).reshape(B, n, h * d_v)


@instead_of(join)
def merge_averages_heads(x: Array) -> Array:
    """The heads are averaged, which throws away what each of them found.

    Hint: Six heads of 8 features: how many features should a token have afterwards?
    """
    return x.mean(1)


@instead_of(join)
def merge_adds_heads(x: Array) -> Array:
    """The heads are added up, which throws away what each of them found.

    Hint: Six heads of 8 features: how many features should a token have afterwards?
    """
    return x.sum(1)


@instead_of(join)
def merge_keeps_one_head(x: Array) -> Array:
    """Only head 0 comes through.

    Hint: Which axis of the result has room for all the heads?
    """
    return x[:, 0]


@instead_of(join)
def merge_along_tokens(x: Array) -> Array:
    """The heads are laid behind each other along the tokens: (B, h * n, d_v).

    Hint: The number of tokens should stay. Along which axis do the heads stand side by side?
    """
    B, h, n, d_v = x.shape
    return x.reshape(B, h * n, d_v)


@instead_of(join)
def merge_into_tokens(x: Array) -> Array:
    """The axes change places as they should, but then the heads melt into the tokens: (B, n * h, d_v).

    Hint: The axes are (B, n, h, d_v) by then. Which two of them become one?
    """
    B, h, n, d_v = x.shape
    return turn(x, 0, 2, 1, 3).reshape(B, n * h, d_v)


@instead_of(join)
def merge_along_batch(x: Array) -> Array:
    """The heads are laid behind each other along the batch: (h * B, n, d_v).

    Hint: The number of sentences should stay. Along which axis do the heads stand side by side?
    """
    B, h, n, d_v = x.shape
    return x.swapaxes(0, 1).reshape(h * B, n, d_v)


@instead_of(join)
def merge_loses_the_batch(x: Array) -> Array:
    """The batch has melted into the tokens: (B * n, h * d_v).

    Hint: A -1 in a shape takes all that is left over. How much is left over in yours?
    """
    return join(x).reshape(-1, x.shape[1] * x.shape[3])


@instead_of(join)
def merge_believes_tokens_first(x: Array) -> Array:
    """The axes are read as (B, n, h, d_v), but the heads come before the tokens.

    Hint: In which order do the axes of x stand, and in which order did you unpack them?
    """
    B, n, h, d_v = x.shape
    return x.reshape(B, n, h * d_v)


@instead_of(join)
def merge_unpacks_tokens_before_heads(x: Array) -> Array:
    """The sizes are unpacked as (B, n, h, d_v), but in x the heads come before the tokens.

    Hint: In which order do the axes of x stand, and in which order did you unpack them?
    """
    B, n, h, d_v = x.shape
    return turn(x, 0, 2, 1, 3).reshape(B, n, h * d_v)


@instead_of(join)
def merge_does_nothing(x: Array) -> Array:
    """The heads are not merged: they come out as they went in, (B, h, n, d_v).

    Hint: A token's features should stand side by side again. How many axes has x, and how many has the result?
    """
    return x


@instead_of(join)
def merge_leaves_four_axes(x: Array) -> Array:
    """Tokens and heads have changed places, but heads and features are still two axes.

    Hint: How many axes has the result that the exercise promises?
    """
    return turn(x, 0, 2, 1, 3)


@instead_of(join)
def merge_reverses_heads(x: Array) -> Array:
    """The heads are put together in the opposite order: the last one's features come first.

    Hint: Whose features does the exercise promise to come first?
    """
    return join(flip(x, 1))


@instead_of(join)
def merge_puts_features_before_tokens(x: Array) -> Array:
    """Features stand before tokens in the result: (B, h * d_v, n).

    Hint: One row of the result should be one token. What is a row of yours?
    """
    return join(x).swapaxes(1, 2)


@instead_of(merge_heads, only=TORCH)
def merge_views_after_transpose(x: Array) -> Array:
    """A view is taken after the transpose, when the numbers no longer lie in memory in one piece.

    Hint: There are two ways to another shape; one of them copies when it must.
    """
    return x.transpose(1, 2).view(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


@instead_of(merge_heads, only=TORCH)
def merge_cuts_the_gradient(x: Array) -> Array:
    """The result has lost its tie to the input: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, or a way through NumPy?
    """
    return join(x.detach())


@instead_of(merge_heads)
def merge_into_default_type(x: Array) -> Array:
    """The heads are copied into fresh zeros, which have the library's default type and not that of the input.

    Hint: What is the dtype of zeros that are made without saying which?
    """
    right = join(x)
    result = new(x, *right.shape)
    result[:] = right
    return result


@instead_of(merge_heads)
def merge_head_size_is_head_count(x: Array) -> Array:
    """The result is given h * h features, as if a head had as many features as there are heads.

    Hint: Which axis of x says how many features a head has?
    """
    B, h, n, _ = x.shape
    return turn(x, 0, 2, 1, 3).reshape(B, n, h * h)
