"""The layer with a KV cache, what a cache costs, and what goes wrong there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from grader.diagnosis.mistakes import instead_of

from .arrays import Part
from .causal import causal_mask
from .grouped import grouped_query_attention, neighbours_share, refuse_uneven_groups
from .heads import cut, join
from .layers import project, project_out

Cache = tuple[Tensor, Tensor]


def refuse_uneven(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    if d_model % num_heads:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
    refuse_uneven_groups(num_heads, num_kv_heads)


def put_behind(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    return (k, v) if cache is None else (torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2))


def future_of(n: int, n_so_far: int, device: torch.device, *, hide: Part = causal_mask) -> Tensor | None:
    return hide(n, n_so_far, device)


def output_and_cache(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Cache]:
    return output, (k, v)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, *, check: Part = refuse_uneven) -> None:
        nn.Module.__init__(self)
        check(d_model, num_heads, num_kv_heads)
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        d_kv = d_model // num_heads * num_kv_heads
        for name, width in (("W_Q", d_model), ("W_K", d_kv), ("W_V", d_kv), ("W_O", d_model)):
            self.add_module(name, nn.Linear(d_model, width, bias=False))

    def forward(
        self,
        x: Tensor,
        cache: Cache | None = None,
        *,
        projections: Part = project,
        split: Part = cut,
        extend: Part = put_behind,
        future: Part = future_of,
        attend: Part = grouped_query_attention,
        merge: Part = join,
        out: Part = project_out,
        answer: Part = output_and_cache,
    ) -> tuple[Tensor, Cache]:
        q, k, v = projections(self, x)
        q, k, v = split(q, self.num_heads), split(k, self.num_kv_heads), split(v, self.num_kv_heads)
        k, v = extend(cache, k, v)
        heads, _ = attend(q, k, v, future(q.shape[2], k.shape[2], x.device))
        return answer(out(self, merge(heads), x), k, v)


right_init, right_forward = GroupedQueryAttention.__init__, GroupedQueryAttention.forward


# Sizes and parameters


@instead_of(refuse_uneven)
def cached_layer_accepts_uneven_sizes(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """A layer is made although its sizes don't divide.

    Hint: Two divisions must come out even. Which ones, and what does the exercise promise when they don't?
    """


@instead_of(refuse_uneven)
def cached_layer_checks_heads_only(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """The layer checks whether the heads divide the features, but not whether the KV heads divide the heads.

    Hint: Two divisions must come out even. Which is the other one?
    """
    refuse_uneven(d_model, num_heads, num_heads)


@instead_of(refuse_uneven)
def cached_layer_refuses_without_sizes(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """Sizes that don't divide raise a ValueError, but its message doesn't name them.

    Hint: Somebody reads this error at midnight. Which two numbers would tell them what is wrong?
    """
    if d_model % num_heads or num_heads % num_kv_heads:
        raise ValueError("the sizes must divide")


@instead_of(refuse_uneven)
def cached_layer_asserts_even_sizes(d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """Sizes that don't divide are stopped by an assertion, where a ValueError is due.

    Hint: An assertion says that the programmer erred. Which exception says that a caller's value is wrong?
    """
    try:
        refuse_uneven(d_model, num_heads, num_kv_heads)
    except ValueError as error:
        raise AssertionError(str(error)) from None


@instead_of(GroupedQueryAttention.__init__)
def kv_projections_full_size(self: nn.Module, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """W_K and W_V are as large as W_Q, so nothing is saved.

    Hint: How many key heads are there, and how many features do they have together?
    """
    right_init(self, d_model, num_heads, num_kv_heads)
    self.W_K, self.W_V = (nn.Linear(d_model, d_model, bias=False) for _ in "KV")


@instead_of(GroupedQueryAttention.__init__)
def kv_head_size_from_kv_heads(self: nn.Module, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """The size of a head is d_model / h_kv, but keys must be as long as the queries that they meet.

    Hint: How long is a query? From which number of heads does that follow?
    """
    right_init(self, d_model, num_heads, num_kv_heads)
    wide = d_model // num_kv_heads
    self.W_Q, self.W_O = nn.Linear(d_model, num_heads * wide, bias=False), nn.Linear(num_heads * wide, d_model, bias=False)
    self.W_K, self.W_V = (nn.Linear(d_model, d_model, bias=False) for _ in "KV")


@instead_of(GroupedQueryAttention.__init__)
def kv_projections_to_one_head(self: nn.Module, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """W_K and W_V make a single head, whatever the number of KV heads.

    Hint: How many key heads are there, and how many features do they have together?
    """
    right_init(self, d_model, num_heads, num_kv_heads)
    self.W_K, self.W_V = (nn.Linear(d_model, d_model // num_heads, bias=False) for _ in "KV")


@instead_of(GroupedQueryAttention.__init__)
def cached_layer_with_biases(self: nn.Module, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """The projections have biases, which the exercise does not.

    Hint: What does a linear layer add to the product unless it is told not to?
    """
    right_init(self, d_model, num_heads, num_kv_heads)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        setattr(self, name, nn.Linear(d_model, getattr(self, name).out_features))


@instead_of(GroupedQueryAttention.__init__)
def cache_in_state_dict(self: nn.Module, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """A buffer is stored with the parameters in state_dict(), which should hold the four matrices alone.

    Hint: A buffer can be kept out of what is stored. Does the module need to keep it at all?
    """
    right_init(self, d_model, num_heads, num_kv_heads)
    self.register_buffer("mask", causal_mask(8))


# Putting new keys and values to the old ones


@instead_of(put_behind)
def cache_put_in_front(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """New keys and values are put before the old ones, so the newest token stands at position 0.

    Hint: The cache holds the tokens in the order of the sequence. Where do new ones belong?
    """
    return (k, v) if cache is None else (torch.cat([k, cache[0]], dim=2), torch.cat([v, cache[1]], dim=2))


@instead_of(put_behind)
def cache_joined_along_heads(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """Old and new are joined along the heads, not along the tokens.

    Hint: A new token adds one row to every head. Which axis of (B, h_kv, n, d_k) grows?
    """
    return (k, v) if cache is None else (torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1))


@instead_of(put_behind)
def cache_joined_along_features(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """Old and new are joined along the features, not along the tokens: a key gets longer instead of getting company.

    Hint: A new token adds one row to every head. Which axis of (B, h_kv, n, d_k) grows?
    """
    return (k, v) if cache is None else (torch.cat([cache[0], k], dim=-1), torch.cat([cache[1], v], dim=-1))


@instead_of(put_behind)
def cache_of_keys_only(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """Old keys are put before the new ones, but the old values are forgotten.

    Hint: A query that finds an old key wants to take something home. What?
    """
    return (k, v) if cache is None else (torch.cat([cache[0], k], dim=2), v)


@instead_of(put_behind)
def cache_ignored(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """The cache that comes in is never read, so new tokens see only each other.

    Hint: Follow the argument `cache` through your code. Where do its keys meet the new ones?
    """
    return k, v


@instead_of(put_behind)
def cache_never_grows(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """Once there is a cache, new keys and values are not put into it, so new tokens don't even see themselves.

    Hint: After three tokens and one more, how many keys should the query see?
    """
    return (k, v) if cache is None else (cache[0], cache[1])


@instead_of(put_behind)
def cache_keys_and_values_swapped(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """The cache is read in another order than it is written: old values stand before the new keys.

    Hint: Which comes first in the cache, keys or values, when you return it and when you read it?
    """
    return (k, v) if cache is None else (torch.cat([cache[1], k], dim=2), torch.cat([cache[0], v], dim=2))


@instead_of(put_behind)
def cache_drops_the_oldest_token(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """The oldest token falls out of the cache whenever a new one comes.

    Hint: After three tokens and one more, how many keys should there be?
    """
    return (k, v) if cache is None else put_behind((cache[0][:, :, 1:], cache[1][:, :, 1:]), k, v)


@instead_of(put_behind)
def cache_cut_from_the_gradient(cache: Cache | None, k: Tensor, v: Tensor) -> Cache:
    """Keys and values are detached on their way through the cache, so no gradient reaches earlier tokens.

    Hint: When a model only writes text nobody needs gradients. But who decides that, the layer or its caller?
    """
    return put_behind(cache, k.detach(), v.detach())


# Hiding the future


@instead_of(future_of)
def chunk_after_cache_sees_its_future(n: int, n_so_far: int, device: torch.device) -> Tensor | None:
    """With a cache nothing is hidden, right for one new token; when several come at once, they see later ones.

    Hint: Two new tokens after a cache: may the first of them see the second?
    """
    return causal_mask(n, n_so_far, device) if n == n_so_far else None


@instead_of(right_forward)
def future_hidden_in_training_only(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    """In eval mode nothing is hidden: a prompt's tokens see the ones after them.

    Hint: May the answer for a token depend on what comes after it when the model is in use?
    """
    return right_forward(self, x, cache, future=future_of if self.training else lambda *_: None)


@instead_of(future_of)
def new_tokens_see_only_the_cache(n: int, n_so_far: int, device: torch.device) -> Tensor | None:
    """New tokens see all that is in the cache, but of the new ones none, not even themselves.

    Hint: May a token look at its own position?
    """
    if n == n_so_far:
        return causal_mask(n, n_so_far, device)
    return torch.arange(n_so_far, device=device).expand(n, -1) >= n_so_far - n


@instead_of(future_of)
def new_tokens_see_only_each_other(n: int, n_so_far: int, device: torch.device) -> Tensor | None:
    """New tokens see each other but nothing of the cache, which is hidden from them.

    Hint: Which keys are in a token's past: only those that came in the same call?
    """
    return causal_mask(n, n_so_far, device) | (torch.arange(n_so_far, device=device) < n_so_far - n)


# The answer


@instead_of(output_and_cache)
def cache_not_returned(output: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The output alone is returned; without the cache nobody can go on.

    Hint: How many things does the exercise promise to give back, and in which order?
    """
    return output


@instead_of(output_and_cache)
def cache_returned_first(output: Tensor, k: Tensor, v: Tensor) -> tuple[Cache, Tensor]:
    """The cache comes first and the output second.

    Hint: In which order does the exercise promise the two?
    """
    return (k, v), output


@instead_of(output_and_cache)
def cache_not_a_pair_of_its_own(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Output, keys and values are returned as three things, where the cache should be a pair by itself.

    Hint: How many things does the exercise promise to give back? What is inside the second?
    """
    return output, k, v


@instead_of(output_and_cache)
def cache_returned_values_first(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Cache]:
    """The cache is returned as (values, keys), in the opposite order.

    Hint: Which comes first in the cache that the exercise promises?
    """
    return output, (v, k)


@instead_of(output_and_cache)
def cache_holds_keys_twice(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Cache]:
    """The keys are returned as the values too.

    Hint: What do the two parts of the cache hold?
    """
    return output, (k, k)


@instead_of(output_and_cache)
def cache_with_tokens_first(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Cache]:
    """In the cache that is returned tokens stand before heads: (B, n, h_kv, d_k).

    Hint: Which axes does the exercise promise, in which order?
    """
    return output, (k.transpose(1, 2), v.transpose(1, 2))


@instead_of(output_and_cache)
def cache_with_heads_merged(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Cache]:
    """The cache that is returned has no axis for the heads: (B, n, h_kv * d_k).

    Hint: How many axes does the exercise promise?
    """
    return output, (join(k), join(v))


@instead_of(output_and_cache)
def cache_as_one_tensor(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values are stacked into one tensor, where the cache should be a pair.

    Hint: What should the second result be, and how does your code read it when it comes back?
    """
    return output, torch.stack([k, v])


@instead_of(output_and_cache)
def only_last_token_returned(output: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Cache]:
    """Only the last token's output is returned.

    Hint: When three new tokens come in, how many outputs should go out?
    """
    return output[:, -1:], (k, v)


# The whole way


@instead_of(GroupedQueryAttention.forward)
def cache_of_new_tokens_only(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    """The cache that is returned holds only the new tokens, so the call after the next has forgotten the first.

    Hint: After three calls of one token each, how many keys should the cache hold?
    """
    output, (k, v) = right_forward(self, x, cache)
    return output, (k[:, :, -x.shape[1] :], v[:, :, -x.shape[1] :])


@instead_of(GroupedQueryAttention.forward)
def cache_returned_unchanged(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    """The new tokens see the old ones, but the cache that is returned is the one that came in.

    Hint: After three tokens and one more, how many keys should the returned cache hold?
    """
    output, longer = right_forward(self, x, cache)
    return output, longer if cache is None else cache


@instead_of(GroupedQueryAttention.forward)
def cache_of_repeated_heads(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    """The cache holds the heads after they were repeated for the queries, so nothing is saved.

    Hint: How many heads do the cached keys have, and how many different ones are among them?
    """
    q, k, v = project(self, x)
    q, k, v = cut(q, self.num_heads), cut(k, self.num_kv_heads), cut(v, self.num_kv_heads)
    k, v = put_behind(cache, neighbours_share(k, self.num_heads), neighbours_share(v, self.num_heads))
    heads, _ = grouped_query_attention(q, k, v, future_of(q.shape[2], k.shape[2], x.device))
    return project_out(self, join(heads), x), (k, v)


@instead_of(GroupedQueryAttention.forward, remembers=True)
def cache_kept_in_the_module(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    """The module remembers earlier calls by itself, so a new sequence goes on where another ended.

    Hint: Where should all that the layer remembers between two calls be?
    """
    output, self.remembered = right_forward(self, x, getattr(self, "remembered", cache))
    return output, self.remembered


@instead_of(GroupedQueryAttention.forward)
def cached_layer_cuts_the_gradient(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    """The results have lost their tie to the input: no gradient flows back.

    Hint: Which of your steps leaves torch's bookkeeping: a detach, `.data`, `no_grad`, or a way through NumPy?
    """
    with torch.no_grad():
        return right_forward(self, x, cache)


@instead_of(GroupedQueryAttention.forward)
def cached_layer_returns_weights(self: nn.Module, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor]:
    """The weights are returned where the cache is due.

    Hint: What does this layer promise to give back beside the output?
    """
    seen = []

    def attend(*args: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(grouped_query_attention(*args))
        return seen[0]

    return right_forward(self, x, cache, attend=attend)[0], seen[0][1]


# What it costs


def kv_cache_bytes(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    return 2 * num_layers * num_kv_heads * head_dim * seq_len * batch * bytes_per_value


@instead_of(kv_cache_bytes)
def cache_bytes_of_keys_only(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Only one of the two is counted, keys or values.

    Hint: What does a layer keep for every token? Two things.
    """
    return num_layers * num_kv_heads * head_dim * seq_len * batch * bytes_per_value


@instead_of(kv_cache_bytes)
def cache_bytes_of_one_layer(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Only one layer is counted.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(1, num_kv_heads, head_dim, seq_len, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_of_one_head(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Only one KV head is counted.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(num_layers, 1, head_dim, seq_len, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_without_head_size(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """A head is counted as a single number.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, 1, seq_len, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_of_one_token(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Only one token is counted.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, 1, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_of_one_sequence(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Only one sequence is counted, whatever the batch.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, 1, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_counted_in_values(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Numbers are counted, not bytes.

    Hint: How many bytes does one number take, and who says so?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, 1)


@instead_of(kv_cache_bytes)
def cache_bytes_always_two_a_value(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Every number is counted as 2 bytes, whatever was asked for.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch)


@instead_of(kv_cache_bytes)
def cache_bytes_always_four_a_value(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Every number is counted as 4 bytes, whatever was asked for.

    Hint: Which of the six arguments does your result not depend on?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, 4)


@instead_of(kv_cache_bytes)
def cache_counted_in_bits(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Bits are counted, not bytes.

    Hint: Is the argument `bytes_per_value` in bits?
    """
    return 8 * kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_as_a_float(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> float:
    """The number is right, but it is a float.

    Hint: Python has two divisions, and one of them always gives a float. Is any division needed?
    """
    return float(kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, bytes_per_value))


@instead_of(kv_cache_bytes)
def cache_counted_in_mebibytes(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> float:
    """Mebibytes are given, not bytes.

    Hint: Which unit is in the function's name?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, bytes_per_value) / 2**20


@instead_of(kv_cache_bytes)
def cache_bytes_of_square_attention(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """The number of tokens is squared. That is the size of the weights; the cache has one entry a token.

    Hint: When a text becomes twice as long, how much longer is the list of its keys?
    """
    return kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len**2, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_counted_doubly_twice(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Keys and values are counted twice over.

    Hint: Two things are kept for each token. How many factors 2 are in your formula, and what is each for?
    """
    return 2 * kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, bytes_per_value)


@instead_of(kv_cache_bytes)
def cache_bytes_with_queries(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Three things are counted for each token, but queries are not kept.

    Hint: When a token has had its answer, does anybody need its query again?
    """
    return 3 * kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch, bytes_per_value) // 2
