"""Multi-head attention in PyTorch, then the fused kernel.

You will write the NumPy lesson again with tensors that know their gradients, build the module that
Transformers are made of, mask the future, and hand the whole formula to one fused call. Six things to
write:

    split_heads, attention, merge_heads -> causal_mask -> MultiHeadAttention -> efficient_mha

Each of them says what goes in, what comes out and what is promised; the checks test exactly that. Replace
the line `raise NotImplementedError(...)` by your code, then run

    pytest -k torch_attention                      all checks of this file
    grader hint torch_attention.split_heads        a hint, when you are stuck
"""

# %% [markdown]
# # Multi-head attention in PyTorch
#
# The formulas are those of the NumPy lesson. New are gradients, half precision, dropout, and a fused kernel
# with manners of its own.
#
# Letters: `B` sentences, `h` heads, `n_q` queries, `n_k` keys (as many, until there is a cache),
# `d_model = h * d_k` features.

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

# %% [markdown]
# ## 1. Splitting into heads
#
# $(B, n, d_{model}) \to (B, n, h, d_k) \to (B, h, n, d_k)$: first cut the last axis, then swap two axes.
# Going to the last shape in one reshape mixes tokens up without a word, the commonest mistake in all
# multi-head code.
#
# `view` never copies, and so refuses a tensor whose numbers are not stored in the order it needs; `reshape`
# copies when it must. And `.T` turns *all* axes round; say which two you mean.


# %%
def split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Cut the features of every token into `num_heads` equal slices, one for each head.

    In:  `x` of shape `(B, n, d_model)`.
    Out: shape `(B, h, n, d_k)` with `h = num_heads` and `d_k = d_model / h`.

        out[b, i, t, c] = x[b, t, i*d_k + c]

    Head `i` holds the features `i*d_k .. (i+1)*d_k - 1` of every token. dtype and device stay as they are,
    gradients flow back to `x`, and `x` is left as it was (the result may share its memory). `x` need not be
    contiguous, and any of the sizes may be 1.

    Raises:
        ValueError: when `num_heads` does not divide `d_model`; the message names both numbers.

    >>> x = torch.tensor([[[10, 11, 12, 13], [20, 21, 22, 23]]])
    >>> split_heads(x, 2)[0, 1]
    tensor([[12, 13],
            [22, 23]])
    """
    ### BEGIN SOLUTION
    B, n, d_model = x.shape
    if d_model % num_heads != 0:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
    return x.reshape(B, n, num_heads, d_model // num_heads).transpose(1, 2)
    ### END SOLUTION


# %% [markdown]
# ## 2. Attention, with gradients
#
# $$weights = softmax\left(\frac{q k^T}{\sqrt{d_k}}\right) \qquad output = weights \; v$$
#
# **A row with every key hidden.** Padding on the left under a causal mask makes such rows, and softmax over
# nothing but $-\infty$ is 0/0 = NaN. One NaN in a loss spoils every parameter at the next step, so the row
# has to give zeros, *and* its gradients have to be clean. Here is what to know about the way back:
#
# - NaN times 0 is NaN. Multiplying a NaN away does not help, neither forward nor backward.
# - `masked_fill` replaces. Where it filled, the gradient it sends back is exactly 0, whatever came in.
#
# So think of what the softmax should *never see*, and what should *never leave* it.
#
# **Numbers that fit.** -1e9 instead of $-\infty$ is more than float16 holds, and in float32 it gives a hidden
# row the mean of all values. $-\infty$ exists in every float type. Use it.
#
# **Half precision.** float16 and bfloat16 keep about 3 and 2 decimal digits. Let everything stay in the
# type that came in: constants made by `torch.tensor(...)` in float32 may lift a result out of it, Python
# floats don't.


# %%
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Let every query collect values from the keys that it matches.

    In:  `q` of shape `(..., n_q, d_k)`, `k` of shape `(..., n_k, d_k)`, `v` of shape `(..., n_k, d_v)`. The
         leading axes `...` are the same in all three: none, a batch, or a batch and heads. `n_q`, `n_k`,
         `d_k`, `d_v` are independent.
    Out: the pair `(output, weights)` of shapes `(..., n_q, d_v)` and `(..., n_q, n_k)`.

        weights = softmax(q @ k^T / sqrt(d_k))        output = weights @ v

    - `mask` is boolean, and `True` means *hidden*: that query may not look at that key. The weight of a
      hidden key is 0, and the others sum to 1 as if it were not there. The mask has any shape that
      broadcasts to that of the weights: `(n_q, n_k)` for all heads of all sentences, `(B, 1, 1, n_k)` for
      padding, and so on. `None` hides nothing.
    - A query from which every key is hidden has weights 0 and output 0, never NaN, in every dtype. (No
      check asks for it, but a model that trains needs more: no NaN in the gradients of such a row either.)
    - Weights are finite and right for logits of any size that the dtype holds.
    - Results have the dtype and device of the inputs (float64, float32, float16, bfloat16), and gradients
      flow back to `q`, `k` and `v`.
    - `q`, `k`, `v` and `mask` are left as they were, and none of them need be contiguous.
    - Rule: write the formula out. The fused calls (`F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
      `F.multi_head_attention_forward`) are not allowed here; `torch.softmax` is.

    >>> q, k, v = torch.tensor([[1.0, 0.0]]), torch.eye(2), torch.tensor([[10.0], [20.0]])
    >>> output, weights = attention(q, k, v)
    >>> weights, output
    (tensor([[0.6698, 0.3302]]), tensor([[13.3024]]))
    >>> attention(q, k, v, mask=torch.tensor([[True, False]]))[0]
    tensor([[20.]])

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1 (arXiv 1706.03762).
    """
    ### BEGIN SOLUTION
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., n_q, n_k)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(mask, -math.inf), dim=-1)
        weights = weights.masked_fill(mask, 0.0)  # a row with no key left is NaN until here
    return weights @ v, weights
    ### END SOLUTION


# %% [markdown]
# ## 3. Merging the heads
#
# $(B, h, n, d_v) \to (B, n, h, d_v) \to (B, n, h d_v)$: swap, then join. After the swap the numbers are no
# longer stored in order, which is why `view` complains here and much code says `.contiguous()` first. Take
# $d_v$ from the tensor: it need not be $d_{model} / h$.


# %%
def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Put the heads' results side by side, token by token: the way back from `split_heads`.

    In:  `x` of shape `(B, h, n, d_v)`.
    Out: shape `(B, n, h * d_v)`, in every token head 0's features first, then head 1's, and so on.

        out[b, t, i*d_v + c] = x[b, i, t, c]

    dtype and device stay as they are, gradients flow back to `x`, and `x` is left as it was. It need not be
    contiguous: after a transpose it never is.

    >>> merge_heads(torch.tensor([[[[1, 2]], [[3, 4]]]]))  # 2 heads, 1 token, 2 features a head
    tensor([[[1, 2, 3, 4]]])
    """
    ### BEGIN SOLUTION
    B, h, n, d_v = x.shape
    return x.transpose(1, 2).reshape(B, n, h * d_v)
    ### END SOLUTION


# %% [markdown]
# ## 4. Hiding the future
#
# A model that writes text must not look at what it has yet to write. In training all `n` tokens go through
# at once, and a triangle hides from each the later ones. Note the diagonal: a token may look at itself.
#
# When text is written, the earlier keys are remembered, and only the last few tokens come as queries:
# `n_q < n_k`. The triangle then has to sit at the *lower right*, for the queries are the end of the
# sequence. Two new tokens after three old ones (`x` = hidden):
#
# |          | key 0 | key 1 | key 2 | key 3 | key 4 |
# |---|---|---|---|---|---|
# | query at position 3 | . | . | . | . | x |
# | query at position 4 | . | . | . | . | . |


# %%
def causal_mask(n_q: int, n_k: int | None = None, device: torch.device | str | None = None) -> torch.Tensor:
    """Hide the future: a query may look at its own position and at earlier ones.

    In:  the number of queries and of keys; `n_k` is `n_q` when it is `None`, and never smaller than `n_q`.
         `device` is where the mask is made (`None`: torch's default); any device that torch knows, "meta"
         too.
    Out: a boolean mask of shape `(n_q, n_k)`, `True` = hidden.

    The queries are the *last* `n_q` tokens of a sequence of `n_k`, so the last query sees every key. Query
    `i` stands at position `n_k - n_q + i` of the whole sequence, and

        mask[i, j] = j > n_k - n_q + i

    >>> causal_mask(3)
    tensor([[False,  True,  True],
            [False, False,  True],
            [False, False, False]])
    >>> causal_mask(2, 5)
    tensor([[False, False, False, False,  True],
            [False, False, False, False, False]])
    """
    ### BEGIN SOLUTION
    n_k = n_q if n_k is None else n_k
    positions = torch.arange(n_q, device=device) + (n_k - n_q)
    return torch.arange(n_k, device=device) > positions[:, None]  # (n_k,) against (n_q, 1)
    ### END SOLUTION


# %% [markdown]
# ## 5. The module
#
# Four linear layers, and the functions from above. `nn.Linear` keeps its weight as `(out, in)` and computes
# `x @ W.T`: the transpose of the NumPy lesson's matrices. Head `i`'s queries come from the *rows*
# `i*d_k .. (i+1)*d_k - 1` of `W_Q.weight`; its output goes through the same *columns* of `W_O.weight`. (Many
# code bases also fuse `W_Q`, `W_K`, `W_V` into one layer of `3 * d_model` rows and cut its result in three:
# the same numbers in one larger product. We keep three for their names.)
#
# **Dropout** sets some of the weights to 0 while training, and divides the rest by $1 - p$ to keep the
# mean. So a head can't rely on a single key. It acts on the *weights*, before they meet the values, and
# must be silent in `eval()`: answers should not depend on dice. `nn.Dropout` follows `train()` and `eval()`
# by itself; `F.dropout` has to be told.


# %%
class MultiHeadAttention(nn.Module):
    """Multi-head self-attention as a module: project, split, attend, merge, project.

    `MultiHeadAttention(d_model, num_heads, dropout=0.0)` holds four layers `W_Q`, `W_K`, `W_V`, `W_O`, each
    `nn.Linear(d_model, d_model, bias=False)`. Its parameters, and all that `state_dict()` holds, are exactly

        W_Q.weight  W_K.weight  W_V.weight  W_O.weight        each (d_model, d_model)

    `dropout` is the probability with which a weight is dropped (set to 0, the kept ones divided by
    `1 - dropout`) before the values are summed. It acts in training mode only: after `.eval()` two calls
    give the same, as if it were 0.

    Raises:
        ValueError: when `num_heads` does not divide `d_model`; the message names both numbers.

    >>> output, weights = MultiHeadAttention(d_model=12, num_heads=3)(torch.ones(2, 5, 12))
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 3, 5, 5))

    Source: Vaswani et al. 2017, section 3.2.2 (arXiv 1706.03762).
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
        self.num_heads = num_heads
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, d_model, bias=False)
        self.W_V = nn.Linear(d_model, d_model, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Let the tokens of every sentence look at each other.

        In:  `x` of shape `(B, n, d_model)`, of the dtype and on the device of the parameters.
        Out: the pair `(output, weights)` of shapes `(B, n, d_model)` and `(B, h, n, n)`.

            q, k, v = split(W_Q(x)), split(W_K(x)), split(W_V(x))
            output = W_O(merge(attention(q, k, v, mask)))

        - `mask` is boolean, `True` means hidden, and it broadcasts against `(B, h, n, n)`. A query from
          which every key is hidden has weights 0 and its heads' outputs are 0, never NaN.
        - dtype and device out are those of `x`; gradients flow to `x` and to all four parameters.
        - `x` and `mask` are left as they were.
        - In training with dropout, you may return the weights from before it or after it.
        """
        ### BEGIN SOLUTION
        q = split_heads(self.W_Q(x), self.num_heads)  # (B, h, n, d_k)
        k = split_heads(self.W_K(x), self.num_heads)
        v = split_heads(self.W_V(x), self.num_heads)
        heads, weights = attention(q, k, v, mask)
        if self.training:
            heads = self.dropout(weights) @ v  # attention's own output knows nothing of dropout
        return self.W_O(merge_heads(heads)), weights
        ### END SOLUTION


# %% [markdown]
# ## 6. The fused kernel
#
# The matrix of weights is what hurts: 32 heads and 8,192 tokens make $32 \cdot 8192^2 = 2^{31}$ of them, 8
# GiB in float32 for one layer and one sentence. Yet the softmax can be taken in pieces. Keep the largest
# score so far, the sum so far and the output so far; when a new block of keys brings a larger score,
# rescale the three. FlashAttention does so block by block in the chip's fast memory, and the whole matrix
# never exists. `F.scaled_dot_product_attention` (SDPA) picks a kernel for your inputs, on a CPU too.
#
# How much faster? That depends on the sizes, the dtype and the machine: the cell at the end measures it on
# yours.
#
# SDPA is not a drop-in for `attention`. Five traps:
#
# | trap | what happens |
# |---|---|
# | a boolean `attn_mask` means the opposite | `True` = *takes part*: our mask would show what it hides |
# | a float `attn_mask` is added to the scores | a mask of 0.0 and 1.0 is accepted, and hides nothing |
# | `is_causal` aligns at the *upper left* | one new query of five keys sees key 0 only, not all five |
# | `attn_mask` with `is_causal` | raises an error: merge the two yourself |
# | `dropout_p` is a number, not a mode | it drops in `eval()` too: pass `p if self.training else 0.0` |
#
# The third in numbers: with values 10, 20, 30, 40, 50 and all scores equal it returns 10, and 30 is right.
# `nn.MultiheadAttention`, from the same library, has `True` = hidden as we do. When in doubt, try it on two
# keys: see the docstring's example.
#
# Fast kernels are choosy. A mask already rules some of them out, so it pays to pass `is_causal=True` where
# that says it all (and means the same). With `n_q != n_k`, `torch.nn.attention.bias.causal_lower_right` is
# another way to say it.


# %%
def efficient_mha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    is_causal: bool = False,
) -> torch.Tensor:
    """Compute what `attention` computes through the fused kernel, which never builds the matrix of weights.

    In:  `q` of shape `(B, h, n_q, d_k)`, `k` of shape `(B, h, n_k, d_k)`, `v` of shape `(B, h, n_k, d_v)`.
    Out: the output alone, `(B, h, n_q, d_v)`: there are no weights to return.

    - Rule: the result comes from `F.scaled_dot_product_attention`.
    - `mask` means the same as everywhere in this course: boolean, `True` = *hidden*, of any shape with two
      to four axes that broadcasts against `(B, h, n_q, n_k)`. (The fused call means the opposite by
      `True`.)
    - `is_causal=True` hides the future as `causal_mask(n_q, n_k)` does: the last query sees every key, also
      when `n_q < n_k`. (The fused call's own `is_causal` puts the first query at key 0.)
    - With both, a key is hidden when either of them hides it. (The fused call refuses to take both.)
    - A query from which every key is hidden has output 0, never NaN.
    - dtype and device out = in, gradients flow to `q`, `k` and `v`, all four tensors are left as they were,
      and there is no dropout.

    >>> q, k, v = torch.tensor([[[[1.0, 0.0]]]]), torch.eye(2)[None, None], torch.tensor([[[[10.0], [20.0]]]])
    >>> efficient_mha(q, k, v), efficient_mha(q, k, v, mask=torch.tensor([[True, False]]))
    (tensor([[[[13.3024]]]]), tensor([[[[20.]]]]))

    Source: the page of `torch.nn.functional.scaled_dot_product_attention` in PyTorch's documentation.
    """
    ### BEGIN SOLUTION
    n_q, n_k = q.shape[-2], k.shape[-2]
    if is_causal and mask is None and n_q == n_k:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)  # the quickest kernels take no mask
    if is_causal:
        future = causal_mask(n_q, n_k, device=q.device)
        mask = future if mask is None else mask | future
    allowed = None if mask is None else torch.atleast_2d(~mask)  # here True means: takes part
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    ### END SOLUTION


# %% [markdown]
# ## Take with you
#
# - Reshape cuts and joins axes, transpose orders them. Neither does the other's work.
# - Ask what a mask's `True` means each time you cross into somebody else's function.
# - A causal mask belongs at the lower right; with `n_q = n_k` you can't see the difference, later you will.
# - Use the fused kernel in earnest, and your own `attention` when you want to see the weights.
#
# To read: Vaswani et al. 2017 (arXiv 1706.03762); Dao et al. 2022, FlashAttention (arXiv 2205.14135); Dao
# 2023, FlashAttention-2 (arXiv 2307.08691); the page of `F.scaled_dot_product_attention` in PyTorch's
# documentation. Next: `grouped_query.py`.

# %%
if __name__ == "__main__":  # measure it: in the notebook, or by `python torch_attention.py`
    import time

    device = "cuda" if torch.cuda.is_available() else "cpu"
    q, k, v = torch.randn(3, 1, 8, 2048, 64, device=device)
    hidden = causal_mask(2048, device=device)
    calls = {
        "attention": lambda: attention(q, k, v, hidden)[0],
        "efficient_mha": lambda: efficient_mha(q, k, v, is_causal=True),
    }
    for name, call in calls.items():
        call()  # the first call warms up
        start = time.perf_counter()
        for _ in range(5):
            call().sum().item()  # waits until a GPU is done
        print(f"{name:14} {(time.perf_counter() - start) / 5 * 1000:7.1f} ms a call on {device}")
    print(f"largest difference {(calls['attention']() - calls['efficient_mha']()).abs().max():.1e}")
