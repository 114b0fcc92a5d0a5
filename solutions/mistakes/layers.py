"""The two `MultiHeadAttention` classes, and what goes wrong when the parts are put together."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from grader.diagnosis.mistakes import instead_of

from .arrays import Array, Pair, Part, as_float
from .attention import attention
from .heads import merge_heads, split_heads

TORCH = ("torch_attention", "grouped_query")


def refuse_uneven_layer(d_model: int, num_heads: int) -> None:
    if d_model % num_heads:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")


def tokens(x: Array) -> Array:
    return as_float(x)


def apply(W: Array | nn.Linear, x: Array) -> Array:
    """NumPy's matrices are (in, out), torch's layers know themselves what to do."""
    return W(x) if isinstance(W, nn.Module) else x @ W


def apply_transposed(W: Array | nn.Linear, x: Array) -> Array:
    return x @ W.weight if isinstance(W, nn.Module) else x @ W.T


def project(layer: object, x: Array) -> tuple[Array, Array, Array]:
    return apply(layer.W_Q, x), apply(layer.W_K, x), apply(layer.W_V, x)


def drop_in_training(layer: object, weights: Array, heads: Array, v: Array) -> Array:
    """The heads' outputs, mixed anew from the weights that dropout has left."""
    p = getattr(layer, "p", 0.0)
    return F.dropout(weights, p) @ v if p and layer.training else heads


def project_out(layer: object, merged: Array, x: Array) -> Array:
    return apply(layer.W_O, merged)


def give_both(output: Array, weights: Array, x: Array) -> Pair:
    """In NumPy the matrices may be of a wider type than x."""
    return (output, weights) if isinstance(x, torch.Tensor) else (output.astype(x.dtype), weights.astype(x.dtype))


def forward(
    self: object,
    x: Array,
    mask: Array | None = None,
    *,
    read: Part = tokens,
    projections: Part = project,
    split: Part = split_heads,
    attend: Part = attention,
    drop: Part = drop_in_training,
    merge: Part = merge_heads,
    out: Part = project_out,
    answer: Part = give_both,
) -> Pair:
    x = read(x)
    q, k, v = (split(part, self.num_heads) for part in projections(self, x))
    heads, weights = attend(q, k, v, mask)
    return answer(out(self, merge(drop(self, weights, heads, v)), x), weights, x)


class NumpyMultiHeadAttention:
    def __init__(self, d_model: int, num_heads: int, rng: object = None, *, check: Part = refuse_uneven_layer) -> None:
        check(d_model, num_heads)
        self.num_heads = num_heads
        rng = np.random.default_rng() if rng is None else rng
        self.W_Q, self.W_K, self.W_V, self.W_O = rng.standard_normal((4, d_model, d_model)) / d_model**0.5

    forward = forward


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, *, check: Part = refuse_uneven_layer) -> None:
        nn.Module.__init__(self)
        check(d_model, num_heads)
        self.num_heads, self.p = num_heads, dropout
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            self.add_module(name, nn.Linear(d_model, d_model, bias=False))

    forward = forward


# Sizes


@instead_of(refuse_uneven_layer)
def layer_accepts_uneven_heads(d_model: int, num_heads: int) -> None:
    """A layer is made although its heads don't divide the features.

    Hint: What is left over when 14 features are dealt out to 4 heads? Test for that first.
    """


@instead_of(refuse_uneven_layer)
def layer_asserts_even_heads(d_model: int, num_heads: int) -> None:
    """Sizes that don't divide are stopped by an assertion, where a ValueError is due.

    Hint: An assertion says that the programmer erred. Which exception says that a caller's value is wrong?
    """
    if d_model % num_heads:
        raise AssertionError(f"{d_model} must be divisible by {num_heads}")


@instead_of(refuse_uneven_layer)
def layer_refuses_without_sizes(d_model: int, num_heads: int) -> None:
    """Sizes that don't divide raise a ValueError, but its message doesn't name them.

    Hint: Somebody reads this error at midnight. Which two numbers would tell them what is wrong?
    """
    if d_model % num_heads:
        raise ValueError("the sizes must divide")


# The projections of queries, keys and values


@instead_of(project)
def one_projection_for_all(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """Queries, keys and values all come from W_Q.

    Hint: How many matrices has the layer, and which of them does your forward use?
    """
    return (apply(layer.W_Q, x),) * 3


@instead_of(project, only="numpy_attention")
def matrices_on_the_left(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The matrices stand on the left of x, where they mix tokens; on the right they mix a token's features.

    Hint: In a @ b the last axis of a is summed. Which axis of x should that be?
    """
    return layer.W_Q @ x, layer.W_K @ x, layer.W_V @ x


@instead_of(project)
def keys_from_w_q(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The keys come from W_Q, so every token asks for itself.

    Hint: Which matrix belongs to the keys?
    """
    return apply(layer.W_Q, x), apply(layer.W_Q, x), apply(layer.W_V, x)


@instead_of(project)
def values_from_w_k(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The values come from W_K.

    Hint: Which matrix belongs to the values?
    """
    return apply(layer.W_Q, x), apply(layer.W_K, x), apply(layer.W_K, x)


@instead_of(project)
def queries_and_keys_swapped(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """Queries come from W_K and keys from W_Q.

    Hint: In which order do you make the three, and in which order do you take them?
    """
    return apply(layer.W_K, x), apply(layer.W_Q, x), apply(layer.W_V, x)


@instead_of(project)
def keys_and_values_swapped(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """Keys come from W_V and values from W_K.

    Hint: In which order do you make the three, and in which order do you take them?
    """
    return apply(layer.W_Q, x), apply(layer.W_V, x), apply(layer.W_K, x)


@instead_of(project)
def queries_and_values_swapped(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """Queries come from W_V and values from W_Q.

    Hint: In which order do you make the three, and in which order do you take them?
    """
    return apply(layer.W_V, x), apply(layer.W_K, x), apply(layer.W_Q, x)


@instead_of(project)
def projections_rotated(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The three projections are each taken for the next one: keys for queries, values for keys, queries for values.

    Hint: In which order do you make the three, and in which order do you take them?
    """
    return apply(layer.W_K, x), apply(layer.W_V, x), apply(layer.W_Q, x)


@instead_of(project)
def projections_rotated_back(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The three projections are each taken for the one before: values for queries, queries for keys, keys for values.

    Hint: In which order do you make the three, and in which order do you take them?
    """
    return apply(layer.W_V, x), apply(layer.W_Q, x), apply(layer.W_K, x)


@instead_of(project)
def nothing_projected(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """Queries, keys and values are all the input itself.

    Hint: The layer has three matrices that turn a token into its query, key and value. Where are they used?
    """
    return x, x, x


@instead_of(project)
def values_not_projected(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The values are the input itself.

    Hint: Which matrix belongs to the values, and where is it used?
    """
    return apply(layer.W_Q, x), apply(layer.W_K, x), x


@instead_of(project)
def queries_not_projected(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The queries are the input itself.

    Hint: Which matrix belongs to the queries, and where is it used?
    """
    return x, apply(layer.W_K, x), apply(layer.W_V, x)


@instead_of(project)
def projections_chained(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """Each projection is fed the one before: keys are made from queries, values from keys.

    Hint: All three come from the same tokens. What goes into the second one?
    """
    q = apply(layer.W_Q, x)
    k = apply(layer.W_K, q)
    return q, k, apply(layer.W_V, k)


@instead_of(project)
def projections_of_qkv_transposed(layer: object, x: Array) -> tuple[Array, Array, Array]:
    """The three matrices of queries, keys and values are used transposed.

    Hint: Is the matrix stored as (in, out) or as (out, in)? A square one never complains.
    """
    return apply_transposed(layer.W_Q, x), apply_transposed(layer.W_K, x), apply_transposed(layer.W_V, x)


# The way out


@instead_of(project_out)
def output_projection_missing(layer: object, merged: Array, x: Array) -> Array:
    """The merged heads are returned without the output projection.

    Hint: Which matrix lets the heads' results mix with each other?
    """
    return merged


@instead_of(project_out)
def output_matrix_transposed(layer: object, merged: Array, x: Array) -> Array:
    """The output matrix is used transposed.

    Hint: Is the matrix stored as (in, out) or as (out, in)? A square one never complains.
    """
    return apply_transposed(layer.W_O, merged)


@instead_of(project_out)
def output_through_w_v(layer: object, merged: Array, x: Array) -> Array:
    """The merged heads pass through W_V once more, not through W_O.

    Hint: Which of the four matrices belongs to the output?
    """
    return apply(layer.W_V, merged)


@instead_of(project_out)
def output_projected_twice(layer: object, merged: Array, x: Array) -> Array:
    """The output projection is applied twice.

    Hint: Follow the merged heads to the return. How often do they meet W_O?
    """
    return apply(layer.W_O, apply(layer.W_O, merged))


@instead_of(project_out)
def residual_added(layer: object, merged: Array, x: Array) -> Array:
    """The input is added to the output. A Transformer block does that, but around this layer, not inside it.

    Hint: Read the formula of the output again. Does x stand in it by itself?
    """
    return project_out(layer, merged, x) + x


@instead_of(project_out)
def output_rectified(layer: object, merged: Array, x: Array) -> Array:
    """Negative outputs are cut off at 0. Attention has no activation function; the feed-forward layer after it has.

    Hint: Read the formula of the output again. What comes after W_O?
    """
    return project_out(layer, merged, x).clip(0, None)


@instead_of(project_out)
def output_normalised(layer: object, merged: Array, x: Array) -> Array:
    """Every output is brought to mean 0 and variance 1. A Transformer block does that, but not inside this layer.

    Hint: Read the formula of the output again. What comes after W_O?
    """
    out = project_out(layer, merged, x)
    centred = out - out.mean(-1)[..., None]
    return centred / ((centred**2).mean(-1)[..., None] + 1e-5) ** 0.5


# The whole way


@instead_of(forward)
def every_matrix_transposed(self: object, x: Array, mask: Array | None = None) -> Pair:
    """All four matrices are used transposed.

    Hint: Is a matrix stored as (in, out) or as (out, in)? A square one never complains.
    """
    return forward(self, x, mask, projections=projections_of_qkv_transposed, out=output_matrix_transposed)


@instead_of(forward)
def heads_look_at_heads(self: object, x: Array, mask: Array | None = None) -> Pair:
    """The heads of each token look at each other, where the tokens should: tokens never meet.

    Hint: After cutting the axes are (B, n, h, d_k). Along which axis does attention run, and which should it be?
    """
    x = as_float(x)
    q, k, v = (part.reshape(*x.shape[:2], self.num_heads, -1) for part in project(self, x))
    heads, weights = attention(q, k, v, mask)
    return give_both(project_out(self, heads.reshape(x.shape), x), weights, x)


@instead_of(forward)
def one_wide_head(self: object, x: Array, mask: Array | None = None) -> Pair:
    """The features are never cut: the layer works as a single wide head.

    Hint: How many matrices of weights should there be for one sentence?
    """
    x = as_float(x)
    output, weights = attention(*project(self, x), mask)
    return give_both(project_out(self, output, x), weights, x)


@instead_of(forward)
def sentences_mixed(self: object, x: Array, mask: Array | None = None) -> Pair:
    """All sentences of the batch are laid behind each other, and their tokens look at one another.

    Hint: Change the second sentence. Does the first one's output change?
    """
    output, weights = forward(self, x.reshape(1, -1, x.shape[-1]), mask)
    return output.reshape(x.shape), weights


@instead_of(forward)
def future_always_hidden(self: object, x: Array, mask: Array | None = None) -> Pair:
    """The future is always hidden, also when nobody asked for it.

    Hint: Which keys may a token see when the mask is None?
    """
    future = ~np.tri(x.shape[1], dtype=bool)
    future = torch.from_numpy(future) if isinstance(x, torch.Tensor) else future
    return forward(self, x, future if mask is None else mask | future)


@instead_of(give_both)
def layer_returns_only_output(output: Array, weights: Array, x: Array) -> Array:
    """The output alone is returned.

    Hint: How many things does the exercise promise to give back, and in which order?
    """
    return give_both(output, weights, x)[0]


@instead_of(give_both)
def layer_returns_weights_first(output: Array, weights: Array, x: Array) -> Pair:
    """The weights come first and the output second.

    Hint: In which order does the exercise promise the two?
    """
    return give_both(output, weights, x)[::-1]


@instead_of(give_both, only="numpy_attention")
def layer_always_float64(output: Array, weights: Array, x: Array) -> Pair:
    """float32 comes in, the matrices are float32 too, and float64 goes out.

    Hint: Which step makes numbers of another dtype than its inputs have?
    """
    return output.astype(np.float64), weights.astype(np.float64)


@instead_of(tokens, only="numpy_attention")
def integer_tokens_stay_integers(x: Array) -> Array:
    """Results are turned back into integers when x holds integers, which makes nearly every weight 0.

    Hint: Which dtype can hold 0.25? What do integer inputs count as?
    """
    return x


@instead_of(forward, only=TORCH)
def layer_cuts_the_gradient(self: object, x: Array, mask: Array | None = None) -> Pair:
    """The results have lost their tie to the input: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, `no_grad`, or a way through NumPy?
    """
    with torch.no_grad():
        return forward(self, x, mask)


# NumPy's matrices


@instead_of(NumpyMultiHeadAttention.__init__)
def matrices_start_at_zero(self: object, d_model: int, num_heads: int, rng: object = None) -> None:
    """All four matrices start as zeros, so every output is 0.

    Hint: Where should the numbers of the matrices come from?
    """
    refuse_uneven_layer(d_model, num_heads)
    self.num_heads = num_heads
    self.W_Q, self.W_K, self.W_V, self.W_O = np.zeros((4, d_model, d_model))


@instead_of(NumpyMultiHeadAttention.__init__)
def matrices_start_as_identity(self: object, d_model: int, num_heads: int, rng: object = None) -> None:
    """All four matrices start as the identity and nothing is drawn.

    Hint: Where should the numbers of the matrices come from?
    """
    refuse_uneven_layer(d_model, num_heads)
    self.num_heads = num_heads
    self.W_Q, self.W_K, self.W_V, self.W_O = np.stack([np.eye(d_model)] * 4)


@instead_of(NumpyMultiHeadAttention.__init__)
def matrices_all_the_same(self: object, d_model: int, num_heads: int, rng: object = None) -> None:
    """One matrix is drawn and serves as all four.

    Hint: Queries, keys and values ask for different things of a token. How many draws is that?
    """
    NumpyMultiHeadAttention.__init__(self, d_model, num_heads, rng)
    self.W_K = self.W_V = self.W_O = self.W_Q


@instead_of(NumpyMultiHeadAttention.__init__)
def matrices_of_one_head(self: object, d_model: int, num_heads: int, rng: object = None) -> None:
    """The matrices have the columns of one head only.

    Hint: One matrix makes the queries of all heads at once. How many columns is that?
    """
    NumpyMultiHeadAttention.__init__(self, d_model, num_heads, rng)
    self.W_Q, self.W_K, self.W_V, self.W_O = (W[:, : d_model // num_heads] for W in (self.W_Q, self.W_K, self.W_V, self.W_O))


# torch's parameters


@instead_of(MultiHeadAttention.__init__)
def projections_with_biases(self: nn.Module, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
    """The projections have biases, which the exercise does not.

    Hint: What does a linear layer add to the product unless it is told not to?
    """
    MultiHeadAttention.__init__(self, d_model, num_heads, dropout)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        setattr(self, name, nn.Linear(d_model, d_model))


@instead_of(MultiHeadAttention.__init__)
def output_projection_with_bias(self: nn.Module, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
    """The output projection has a bias, which the exercise does not.

    Hint: What does a linear layer add to the product unless it is told not to?
    """
    MultiHeadAttention.__init__(self, d_model, num_heads, dropout)
    self.W_O = nn.Linear(d_model, d_model)


class ProjectionsFused(MultiHeadAttention):
    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, dropout)
        del self.W_Q, self.W_K, self.W_V
        self.W_QKV = nn.Linear(d_model, 3 * d_model, bias=False)

    def forward(self, x: Array, mask: Array | None = None) -> Pair:
        return forward(self, x, mask, projections=lambda layer, x: layer.W_QKV(x).chunk(3, -1))


@instead_of(MultiHeadAttention)
def projections_fused(d_model: int, num_heads: int, dropout: float = 0.0) -> nn.Module:
    """Queries, keys and values come from one wide layer, but the exercise names three parameters.

    Hint: Which names of parameters does the exercise promise? Somebody else's weights have to fit in.
    """
    return ProjectionsFused(d_model, num_heads, dropout)


class ProjectionsInAPlainList(MultiHeadAttention):
    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.layers = [self.W_Q, self.W_K, self.W_V, self.W_O]
        del self.W_Q, self.W_K, self.W_V, self.W_O

    def forward(self, x: Array, mask: Array | None = None) -> Pair:
        *qkv, W_O = self.layers
        return forward(
            self,
            x,
            mask,
            projections=lambda layer, x: [W(x) for W in qkv],
            out=lambda layer, merged, x: W_O(merged),
        )


@instead_of(MultiHeadAttention)
def projections_not_registered(d_model: int, num_heads: int, dropout: float = 0.0) -> nn.Module:
    """The module has no parameters: its projections are made in every call, or kept where the module can't find them.

    Hint: Where must a layer be made so that it lives as long as the module, and how does the module learn of it?
    """
    return ProjectionsInAPlainList(d_model, num_heads, dropout)


@instead_of(MultiHeadAttention.__init__)
def projections_to_one_head(self: nn.Module, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
    """Queries, keys and values are projected to the size of one head.

    Hint: One layer makes the queries of all heads at once. How many features is that?
    """
    MultiHeadAttention.__init__(self, d_model, num_heads, dropout)
    for name in ("W_Q", "W_K", "W_V"):
        setattr(self, name, nn.Linear(d_model, d_model // num_heads, bias=False))


@instead_of(MultiHeadAttention.__init__)
def one_layer_under_three_names(self: nn.Module, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
    """W_Q, W_K and W_V are one and the same layer under three names.

    Hint: Assigning a layer to three names makes no copies. How many layers do you make?
    """
    MultiHeadAttention.__init__(self, d_model, num_heads, dropout)
    self.W_K = self.W_V = self.W_Q


@instead_of(MultiHeadAttention.__init__)
def buffer_in_state_dict(self: nn.Module, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
    """A buffer is stored with the parameters in state_dict(), which should hold the four matrices alone.

    Hint: A buffer can be kept out of what is stored. Does it need to be a tensor at all?
    """
    MultiHeadAttention.__init__(self, d_model, num_heads, dropout)
    self.register_buffer("scale", torch.tensor((d_model // num_heads) ** -0.5))


@instead_of(MultiHeadAttention.__init__)
def module_not_initialised(self: nn.Module, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
    """Layers are assigned before nn.Module has been initialised.

    Hint: What must the first line in the `__init__` of every module be?
    """
    refuse_uneven_layer(d_model, num_heads)
    self.num_heads = num_heads
    self.W_Q = nn.Linear(d_model, d_model, bias=False)


# Dropout


@instead_of(drop_in_training, only="torch_attention")
def dropout_missing(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """Nothing is ever dropped.

    Hint: Follow the argument `dropout` through your code. Where does it act?
    """
    return heads


@instead_of(drop_in_training, only="torch_attention")
def dropout_in_eval(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """Weights are dropped in evaluation too.

    Hint: The functional dropout knows nothing of the module. How does it learn whether the module is training?
    """
    return F.dropout(weights, layer.p) @ v if layer.p else heads


@instead_of(drop_in_training, only="torch_attention")
def dropout_of_head_outputs(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """Features of the heads' outputs are dropped, not weights.

    Hint: What does the exercise say is dropped, and at which moment?
    """
    return F.dropout(heads, layer.p) if layer.p and layer.training else heads


@instead_of(drop_in_training, only="torch_attention")
def dropout_not_scaled_up(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """Weights are dropped, but those that are kept are not scaled up, so outputs shrink in training.

    Hint: If half of the weights are dropped, what must happen to the others so that the mean stays?
    """
    return F.dropout(weights, layer.p) * (1 - layer.p) @ v if layer.p and layer.training else heads


@instead_of(drop_in_training, only="torch_attention")
def dropout_with_the_share_that_stays(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """A weight is dropped with the probability 1 - dropout: what should stay goes.

    Hint: With dropout=0.1, how many of ten weights should be left?
    """
    return F.dropout(weights, 1 - layer.p) @ v if layer.p and layer.training else heads


@instead_of(drop_in_training, only="torch_attention")
def dropout_divided_by_its_probability(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """The weights that are kept are divided by dropout, where 1 - dropout is due.

    Hint: With dropout=0.1, nine of ten weights stay. By how much must they grow for the mean to stay?
    """
    return F.dropout(weights, layer.p) * (1 - layer.p) / layer.p @ v if layer.p and layer.training else heads


@instead_of(drop_in_training, only="torch_attention")
def dropout_only_in_eval(layer: nn.Module, weights: Array, heads: Array, v: Array) -> Array:
    """Weights are dropped in evaluation and kept in training: the modes are mixed up.

    Hint: In which of its two modes is a module when `training` is True?
    """
    return F.dropout(weights, layer.p) @ v if layer.p and not layer.training else heads


@instead_of(forward, only="torch_attention")
def dropout_of_the_output(self: nn.Module, x: Array, mask: Array | None = None) -> Pair:
    """The finished output is dropped out, not the weights.

    Hint: What does the exercise say is dropped, and at which moment?
    """
    output, weights = forward(self, x, mask, drop=dropout_missing)
    return F.dropout(output, self.p, self.training), weights
