"""Grouped-query attention, multi-query attention and the KV cache.

A model that writes text keeps the keys and values of every token so far. You will let several query heads
share one key and value head, which makes that memory many times smaller, and you will write the cache
itself. Four things to write:

    repeat_kv -> grouped_query_attention -> GroupedQueryAttention, kv_cache_bytes

Each of them says what goes in, what comes out and what is promised; the checks test exactly that. Replace
the line `raise NotImplementedError(...)` by your code, then run

    pytest -k grouped_query                    all checks of this file
    grader hint grouped_query.repeat_kv        a hint, when you are stuck
"""

# %% [markdown]
# # Grouped-query attention and the KV cache
#
# ## What writing text costs
#
# A language model writes one token at a time. The new token's query needs the keys and values of *all*
# earlier tokens, and computing them anew for each token would be a waste: they don't change, because no
# token sees a later one. So they are kept: the **KV cache**. (Why no cache of queries? An old query has had
# its answer.)
#
# The cache is large. Llama-3-70B has 80 layers, `d_model` 8192, and 64 query heads of 128 features. With as
# many key and value heads, it would keep
#
# $$2 \cdot 80 \cdot 64 \cdot 128 \cdot 2 \text{ bytes} = 2.5 \text{ MiB a token}$$
#
# and for each new token all of it has to travel from memory to the processor. Products are cheap beside that.
#
# The way out: many heads for asking, fewer for being asked. Let $r = h / h_{kv}$ query heads share one
# key/value head.
#
# | | KV heads | who | Llama-3-70B, a token | 8,192 tokens |
# |---|---|---|---|---|
# | multi-head (MHA) | $h_{kv} = h$ | the original Transformer | 64 heads: 2.5 MiB | 20 GiB |
# | grouped-query (GQA) | between | Llama-3-70B and Falcon-40B: 8 KV heads | 8 heads: 320 KiB | 2.5 GiB |
# | multi-query (MQA) | $h_{kv} = 1$ | Falcon-7B: 71 query heads, 1 KV head | 1 head: 40 KiB | 0.31 GiB |
#
# (Llama-3-70B is the middle row, $r = 8$; the others show what it would cost.) Each query head still has
# weights of its own, so the heads still ask different questions. What they share is what can be found.
# Ainslie et al. found groups nearly as good as full MHA and nearly as fast as MQA.

# %%
import math

import torch
from torch import nn

# %% [markdown]
# ## 1. Who shares with whom
#
# Query head $i$ uses KV head $\lfloor i / r \rfloor$: neighbours share. With 6 query heads and 2 KV heads,
# $r = 3$:
#
# | query head | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | KV head | 0 | 0 | 0 | 1 | 1 | 1 |
#
# Repeating the whole row of heads, 0 1 0 1 0 1, has the same shape and is wrong: query head 1 was trained
# to look into KV head 0. Loading a real model's weights into such code gives fluent nonsense and no error.
# Try it with sizes where $r \ne h_{kv}$, and you will see which is which.


# %%
def repeat_kv(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Give every query head the key (or value) head of its group.

    In:  `x` of shape `(B, h_kv, n, d)`.
    Out: shape `(B, h, n, d)` with `h = num_heads`.

        out[b, i] = x[b, i // r]        r = h / h_kv

    So KV head `j` serves the query heads `j*r .. (j+1)*r - 1`, which stand next to each other. dtype and
    device stay as they are, gradients flow back to `x` (summed over its copies), and `x` is left as it was
    (the result may share its memory). With `h = h_kv` the result equals `x`.

    Raises:
        ValueError: when `h_kv` does not divide `num_heads`; the message names both numbers.

    >>> x = torch.tensor([[[[7.0]], [[9.0]]]])              # 2 KV heads, 1 token, 1 feature
    >>> repeat_kv(x, 6).flatten()
    tensor([7., 7., 7., 9., 9., 9.])
    """
    ### BEGIN SOLUTION
    num_kv_heads = x.shape[1]
    if num_heads % num_kv_heads != 0:
        raise ValueError(f"{num_heads} query heads can't share {num_kv_heads} key/value heads equally")
    return x.repeat_interleave(num_heads // num_kv_heads, dim=1)
    ### END SOLUTION


# %% [markdown]
# ## 2. Attention with shared heads
#
# When each query head has got its keys and values, the rest is attention as you know it:
#
# $$output_i = softmax\left(\frac{q_i k_j^T}{\sqrt{d_k}}\right) v_j \qquad j = \lfloor i / r \rfloor$$
#
# $d_k$ is still the size of one head. Repeating is the plainest way, though it makes copies; you may as
# well view the queries as $(B, h_{kv}, r, n_q, d_k)$ and let an axis of size 1 broadcast. In MQA,
# $h_{kv} = 1$, plain broadcasting happens to work; for other sizes it raises an error. PyTorch's fused call
# has `enable_gqa=True`, with the same neighbours; the checks compare you with it.
#
# Masks as ever: `True` = hidden, and a row with every key hidden gives zeros and clean gradients.


# %%
def grouped_query_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend with `h` query heads that share `h_kv` key and value heads.

    In:  `q` of shape `(B, h, n_q, d_k)`, `k` of shape `(B, h_kv, n_k, d_k)`, `v` of shape
         `(B, h_kv, n_k, d_v)`.
    Out: the pair `(output, weights)` of shapes `(B, h, n_q, d_v)` and `(B, h, n_q, n_k)`.

        weights[i] = softmax(q[i] @ k[j]^T / sqrt(d_k))
        output[i] = weights[i] @ v[j]                          with j = i // r, r = h / h_kv

    - `h_kv = h` is multi-head attention (MHA), `h_kv = 1` is multi-query attention (MQA).
    - `mask` is boolean, `True` means *hidden*, and it broadcasts against `(B, h, n_q, n_k)`; `None` hides
      nothing. A query from which every key is hidden has weights 0 and output 0, never NaN.
    - Results have the dtype and device of the inputs, gradients flow back to `q`, `k` and `v`, and all
      inputs are left as they were. `n_q`, `n_k`, `d_k` and `d_v` are independent.
    - Rule: write the formula out. The fused calls (`F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
      `F.multi_head_attention_forward`) are not allowed here.

    Raises:
        ValueError: when `h_kv` does not divide `h`; the message names both numbers.

    >>> q, k = torch.zeros(1, 4, 1, 8), torch.zeros(1, 2, 3, 8)  # no match: every weight is 1/3
    >>> v = torch.tensor([[[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]]]])
    >>> grouped_query_attention(q, k, v)[0].flatten()  # heads 0 and 1 use KV head 0
    tensor([ 2.,  2., 20., 20.])

    Source: Ainslie et al. 2023, "GQA" (arXiv 2305.13245); Shazeer 2019 for one KV head (arXiv 1911.02150).
    """
    ### BEGIN SOLUTION
    k, v = repeat_kv(k, q.shape[1]), repeat_kv(v, q.shape[1])  # (B, h, n_k, d)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, h, n_q, n_k)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(mask, -math.inf), dim=-1)
        weights = weights.masked_fill(mask, 0.0)  # a row with no key left is NaN until here
    return weights @ v, weights
    ### END SOLUTION


# %% [markdown]
# ## 3. A layer with a memory
#
# `W_K` and `W_V` are now smaller, $h_{kv} d_k$ rows instead of $h d_k$, and the cache holds their results
# as they are: repeating comes after, or nothing would be saved.
#
# One call reads a *chunk*: the whole prompt, or one token. Its queries are the last `n` positions of a
# sequence of `n_so_far`:
#
# | call | new tokens | queries | keys | who sees what |
# |---|---|---|---|---|
# | the prompt | 3 | 0, 1, 2 | 0 .. 2 | a triangle |
# | one more token | 1 | 3 | 0 .. 3 | everything: no key is later |
# | two at once | 2 | 4, 5 | 0 .. 5 | everything but key 5 for query 4 |
#
# The last row catches many: with a cache *and* several new tokens the mask is neither a plain triangle nor
# nothing, but a triangle at the lower right. How to know that it is right? Feed a sequence at once, feed it
# in pieces, and compare.
#
# Make a new cache rather than changing the old one. Somebody may want to go on from the same place twice,
# and PyTorch needs the old tensors for its gradients.

# %%
Cache = tuple[torch.Tensor, torch.Tensor]  # keys and values, each (B, h_kv, n_so_far, d_k)


class GroupedQueryAttention(nn.Module):
    """Causal self-attention with shared key/value heads and a cache, as large language models run it.

    `GroupedQueryAttention(d_model, num_heads, num_kv_heads)` with `d_k = d_model / num_heads` holds four
    `nn.Linear` layers without biases. Its parameters, and all that `state_dict()` holds, are exactly

        W_Q.weight (h*d_k, d_model)
        W_K.weight (h_kv*d_k, d_model)        W_V.weight (h_kv*d_k, d_model)
        W_O.weight (d_model, h*d_k)

    Heads are slices of the features: query head `i` is features `i*d_k .. (i+1)*d_k - 1` of `W_Q(x)`, KV
    head `j` is features `j*d_k .. (j+1)*d_k - 1` of `W_K(x)` and `W_V(x)`, and `W_O` reads the heads'
    outputs in order.

    Raises:
        ValueError: when `num_heads` does not divide `d_model`, or `num_kv_heads` does not divide
            `num_heads`; the message names the two numbers.

    >>> layer = GroupedQueryAttention(d_model=24, num_heads=6, num_kv_heads=2)
    >>> output, (k, v) = layer(torch.ones(1, 5, 24))                         # five tokens at once
    >>> tuple(output.shape), tuple(k.shape)
    ((1, 5, 24), (1, 2, 5, 4))
    >>> output, (k, v) = layer(torch.ones(1, 1, 24), cache=(k, v))           # then one more
    >>> tuple(output.shape), tuple(k.shape)
    ((1, 1, 24), (1, 2, 6, 4))

    Source: Ainslie et al. 2023 (arXiv 2305.13245).
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"{num_heads} query heads can't share {num_kv_heads} key/value heads equally")
        self.d_k = d_model // num_heads
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_V = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """Read the next `n` tokens, after those that the cache remembers.

        In:  `x` of shape `(B, n, d_model)`; `cache` is `None` at the start of a sequence, then what the
             last call gave.
        Out: the pair `(output, cache)`: the output of the `n` new tokens alone, `(B, n, d_model)`, and the
             cache `(k, v)`, each `(B, h_kv, n_so_far, d_k)`: the keys and values of all tokens so far,
             oldest first, not repeated, `n_so_far` including the `n` new ones.

        - Causal: a token sees itself and every earlier token, those in the cache and those in `x`, and
          nothing later.
        - Feeding a sequence in chunks of any sizes gives the same outputs and the same cache as feeding it
          at once.
        - The cache that is passed in is not changed (the same one can be continued in two ways), nor is
          `x`; nothing is remembered between calls but in the cache.
        - dtype and device out are those of `x`; gradients flow to `x`, to all four parameters and through
          the cache.
        """
        ### BEGIN SOLUTION
        B, n, _ = x.shape
        q, k, v = (W(x).reshape(B, n, -1, self.d_k).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)  # along the tokens
        keys = torch.arange(k.shape[2], device=x.device)
        queries = keys[-n:]  # the new tokens are the last n
        heads, _ = grouped_query_attention(q, k, v, mask=keys > queries[:, None])
        return self.W_O(heads.transpose(1, 2).reshape(B, n, -1)), (k, v)
        ### END SOLUTION


# %% [markdown]
# ## 4. What it costs
#
# Layers x KV heads x features of a head x tokens x sentences, for keys and again for values, each number so
# many bytes. Llama-3-70B in bfloat16:
#
# $$2 \cdot 80 \cdot 8 \cdot 128 \cdot 2 = 327\,680 \text{ bytes} = 320 \text{ KiB a token}$$
#
# The number of *query* heads is not in it. The cache grows with each token and each sentence served at
# once, the model's weights don't: for long texts it is the cache that decides how many users fit on a chip.


# %%
def kv_cache_bytes(
    num_layers: int, num_kv_heads: int, head_dim: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Count the bytes of the keys *and* values that a model keeps for `batch` sequences of `seq_len` tokens.

    In:  six integers; `bytes_per_value` is 2 for float16 and bfloat16.
    Out: an `int`. Every layer keeps, for every token and KV head, one key and one value of `head_dim`
         numbers.

    >>> kv_cache_bytes(num_layers=80, num_kv_heads=8, head_dim=128, seq_len=1)  # Llama-3-70B: 320 KiB
    327680
    """
    ### BEGIN SOLUTION
    keys_and_values = 2
    return keys_and_values * num_layers * num_kv_heads * head_dim * seq_len * batch * bytes_per_value
    ### END SOLUTION


# %% [markdown] question="when-to-share" points=2
# ## In your own words: when to share?
#
# One model answers many users at a time and writes long texts; another reads 128 tokens, puts a label on
# them, and writes nothing. For which of them would you share key/value heads, and why not for the other?
# What is paid for it, and why not go on to a single KV head? (Three or four sentences, for a person to read
# and grade.)

# %% [markdown]
# ## Take with you
#
# - Query heads ask, KV heads are what can be found; only the latter fill the memory. $h_{kv} = h$ is MHA,
#   $h_{kv} = 1$ is MQA.
# - Neighbours share: head $i$ uses KV head $\lfloor i / r \rfloor$.
# - In chunks or at once: the same numbers, or the mask is wrong.
#
# To read: Shazeer 2019, one KV head (arXiv 1911.02150); Ainslie et al. 2023, GQA (arXiv 2305.13245).

# %%
if __name__ == "__main__":  # try it: in the notebook, or by `python grouped_query.py`
    layer = GroupedQueryAttention(d_model=24, num_heads=6, num_kv_heads=2)
    x = torch.randn(1, 9, 24)
    whole, _ = layer(x)
    pieces, cache = [], None
    for chunk in x.split([4, 1, 1, 3], dim=1):
        piece, cache = layer(chunk, cache)
        pieces.append(piece)
    print(f"in pieces or at once: they differ by {(torch.cat(pieces, dim=1) - whole).abs().max():.1e}")
    for kv_heads in (64, 8, 1):
        size = kv_cache_bytes(num_layers=80, num_kv_heads=kv_heads, head_dim=128, seq_len=8192)
        print(f"{kv_heads:2} KV heads: {size / 2**30:5.2f} GiB for 8,192 tokens")
