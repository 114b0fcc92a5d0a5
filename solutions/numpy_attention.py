"""Multi-head attention in NumPy: every number in sight.

You will learn how one wide vector becomes several heads, how every head attends on its own, and how the
heads become one vector again. You will write five things, each of which uses the ones before it:

    softmax -> split_heads -> attention -> merge_heads -> MultiHeadAttention

Each of them says what goes in, what comes out and what is promised; the checks test exactly that. Replace
the line `raise NotImplementedError(...)` by your code, then run

    pytest -k numpy_attention                  all checks of this file
    grader hint numpy_attention.softmax        a hint, when you are stuck
"""

# %% [markdown]
# # Multi-head attention
#
# You know attention with one head: each token asks with a query `q`, is found by a key `k`, and hands over
# a value `v`.
#
# ## Several questions at once
#
# *The letters on the desk were hers.* To write "were" and not "was", the model must look back at "letters",
# past the nearer "desk". For "hers" it must find out whose, perhaps some sentences back. And "desk" belongs
# with the words right before it. These are different questions, and one head has a single set of weights a
# token: they sum to 1, so what goes to the neighbours is missing for the subject. With $h$ heads every
# token gets $h$ sets of weights. Each comes from its own slice of the features, all are computed at the
# same time, and in the end their results stand side by side.
#
# ## Letters and shapes
#
# `B` sentences of `n` tokens, `d_model` features a token, `h` heads of $d_k = d_{model} / h$ features each
# (BERT-Base: 768 = 12 x 64).
#
# | step | shape | with B = 2, n = 10, d_model = 512, h = 8 |
# |---|---|---|
# | input `x`, then `x @ W_Q`, `x @ W_K`, `x @ W_V` | `(B, n, d_model)` | (2, 10, 512) |
# | split into heads | `(B, h, n, d_k)` | (2, 8, 10, 64) |
# | scores and weights of each head | `(B, h, n, n)` | (2, 8, 10, 10) |
# | each head's output | `(B, h, n, d_v)` | (2, 8, 10, 64) |
# | merge the heads, then `@ W_O` | `(B, n, d_model)` | (2, 10, 512) |
#
# Only the steps in the middle know of heads. To NumPy a head is one more leading axis, like the batch, and
# `@` works on the last two axes whatever stands before them. That is all the parallelism there is to write.
#
# ## The example to follow
#
# One sentence, three tokens, four features, two heads. All four matrices are the identity, so
# $Q = K = V = X$ and you can check each number by hand. The checks follow it step by step.
#
# $$X = \begin{pmatrix} 1 & 0 & 1 & 0 \\ 0 & 1 & 0 & 1 \\ 1 & 1 & 0 & 0 \end{pmatrix}$$

# %%
import numpy as np


def as_float(x: np.ndarray) -> np.ndarray:
    """Given: integers and booleans become float64, floats stay as they are."""
    return x if np.issubdtype(x.dtype, np.floating) else x.astype(np.float64)


# %% [markdown]
# ## 1. Softmax
#
# A head compares a query with every key and gets one score a key, any number at all. Softmax makes shares
# of them: positive, with the sum 1, the larger score with the larger share.
#
# $$softmax(x)_j = \frac{e^{x_j}}{\sum_l e^{x_l}}$$
#
# Two scores 0 and $\ln 3$ become 1/4 and 3/4. Two scores of 1000 should become 1/2 and 1/2, but $e^{1000}$
# is more than a float holds. Softmax only feels *differences*: take the same number from all scores of a
# row and nothing changes, since $e^{x - m} = e^x / e^m$ above and below the line. So take away the row's
# largest. Then the largest power is $e^0 = 1$, and the others may vanish but not overflow. It has to be
# each row's *own* largest: one maximum for the whole array lets a row of small scores vanish altogether,
# and 0/0 is NaN.
#
# One more case. The score $-\infty$ will mean *hidden* (share 0). When a whole row is hidden there is
# nothing to share, and the honest answer is zeros.


# %%
def softmax(x: np.ndarray) -> np.ndarray:
    """Turn each row of logits into weights that are positive and sum to 1.

    In:  `x` of shape `(..., n)`.
    Out: the same shape; the softmax is taken over the last axis.

        softmax(x)[j] = exp(x[j] - m) / sum_l exp(x[l] - m)        m = the largest of the row

    - The result is finite and right for logits of any finite size, such as 10,000 or -10,000, also when
      rows of very different sizes stand in one array.
    - `-inf` is a legal logit: it gets the weight 0. A row that is all `-inf` gives zeros, not NaN.
    - float32 stays float32 and float16 stays float16; integers count as float64. `x` is left as it was.

    >>> softmax(np.array([0.0, np.log(3.0)])).round(2)
    array([0.25, 0.75])
    >>> softmax(np.array([[1000, 1000], [-1000, -1000]]))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> softmax(np.array([-np.inf, -np.inf]))
    array([0., 0.])
    """
    ### BEGIN SOLUTION
    x = as_float(x)
    largest = x.max(axis=-1, keepdims=True)
    largest = np.where(largest == -np.inf, 0.0, largest)  # -inf - -inf would be NaN
    with np.errstate(over="ignore"):  # a gap too wide for the dtype becomes -inf, and exp(-inf) is 0: right
        powers = np.exp(x - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0.0, 1.0, total)  # 0 / 1, where a row has no weight to share out
    ### END SOLUTION


# %% [markdown]
# ## 2. Splitting into heads
#
# One matrix $W_Q$ of size $d_{model} \times d_{model}$ does the work of $h$ small ones of size
# $d_{model} \times d_k$: put the small ones side by side and the products stand side by side too. One large
# product keeps a processor busier than many small ones, so everybody stores them fused. What is left for
# you is to cut the *last* axis into slices. Of the example, head 0 takes the first two features and head 1
# the others:
#
# $$q_0 = \begin{pmatrix} 1 & 0 \\ 0 & 1 \\ 1 & 1 \end{pmatrix} \qquad
# q_1 = \begin{pmatrix} 1 & 0 \\ 0 & 1 \\ 0 & 0 \end{pmatrix}$$
#
# Beware of asking `reshape` for `(B, h, n, d_k)` at once. It keeps the numbers in the order in which they
# are stored, a token after the other, and so would give head 0 the rows `[1 0] [1 0] [0 1]`: token 0 whole
# and half of token 1. The shape is right and the model even trains, badly. `reshape` may cut an axis; only
# `transpose` may change the order of axes.
#
# ### Why not one wide head?
#
# - A wide head has one set of weights. In the example, token 0 of a single head of width 4 weighs the
#   tokens 0.51, 0.19, 0.31: a compromise between what its two halves want, 0.40, 0.20, 0.40 and 0.50, 0.25,
#   0.25.
# - Slices are free to look for different things, and if one of them finds nothing useful, others still do.
# - The products cost the same: $h$ heads of $d_k$ features multiply as much as one of $h d_k$. The weights
#   do not: there are $h$ times as many.
#
# More heads are not always better, though. With $d_{model} = 512$, Vaswani et al. (table 3, rows A)
# translated best with 8 or 16 heads; one head lost 0.9 BLEU, and 32 heads of 16 features 0.4: such narrow
# slices say too little about a token.


# %%
def split_heads(x: np.ndarray, num_heads: int) -> np.ndarray:
    """Cut the features of every token into `num_heads` equal slices, one for each head.

    In:  `x` of shape `(B, n, d_model)`.
    Out: shape `(B, h, n, d_k)` with `h = num_heads` and `d_k = d_model / h`.

        out[b, i, t, c] = x[b, t, i*d_k + c]

    Head `i` holds the features `i*d_k .. (i+1)*d_k - 1` of every token. The numbers move, none changes: a
    floating dtype stays as it is, and `x` is left as it was (the result may share its memory). `B`, `n`,
    `h` and `d_k` may be any sizes, 1 too, and `x` need not be contiguous.

    Raises:
        ValueError: when `num_heads` does not divide `d_model`; the message names both numbers.

    >>> x = np.array([[[10.0, 11.0, 12.0, 13.0], [20.0, 21.0, 22.0, 23.0]]])  # 1 sentence, 2 tokens
    >>> split_heads(x, 2)[0, 1]  # head 1: the last two features
    array([[12., 13.],
           [22., 23.]])
    """
    ### BEGIN SOLUTION
    B, n, d_model = x.shape
    if d_model % num_heads != 0:
        raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
    x = x.reshape(B, n, num_heads, d_model // num_heads)  # cuts the last axis only
    return x.transpose(0, 2, 1, 3)  # (B, h, n, d_k)
    ### END SOLUTION


# %% [markdown]
# ## 3. Attention
#
# Every query is compared with every key by a dot product, the scores become weights, and the weights mix
# the values:
#
# $$weights = softmax\left(\frac{q k^T}{\sqrt{d_k}}\right) \qquad output = weights \; v$$
#
# **Why the root?** A sum of $d_k$ products of independent numbers of size 1 has the size $\sqrt{d_k}$: 8
# for 64 features. Softmax turns such gaps into nearly all or nothing: among 10 random keys of 64 features
# the best one gets 86 % of the weight, on average. Divided by 8, it gets 32 %, and there is something left
# to learn from. It is the size of one *head* that counts here, not $d_{model}$.
#
# **The example**, divided by $\sqrt 2 = 1.414$:
#
# | | scores | weights | output |
# |---|---|---|---|
# | head 0, token 0 | 0.707 0 0.707 | 0.401 0.198 0.401 | 0.802 0.599 |
# | head 0, token 1 | 0 0.707 0.707 | 0.198 0.401 0.401 | 0.599 0.802 |
# | head 0, token 2 | 0.707 0.707 1.414 | 0.248 0.248 0.503 | 0.752 0.752 |
# | head 1, token 0 | 0.707 0 0 | 0.503 0.248 0.248 | 0.503 0.248 |
# | head 1, token 1 | 0 0.707 0 | 0.248 0.503 0.248 | 0.248 0.503 |
# | head 1, token 2 | 0 0 0 | 0.333 0.333 0.333 | 0.333 0.333 |
#
# The first row by hand: $e^{0.707} = 2.028$ twice and $e^0 = 1$ once make 5.056, and
# $2.028 / 5.056 = 0.401$. In head 1 token 2 is all zeros: it matches nothing better than anything else and
# gets the plain mean.
#
# **Masks.** In this course `True` means *hidden*. A hidden key must have no share in the sum either, so it
# is taken out *before* the softmax: its score becomes $-\infty$, and $e^{-\infty} = 0$. A large negative
# number such as -1e9 is a common stand-in, but it does not fit into float16, and in a row that is all
# hidden it gives every key the same share: the mean of what nobody was to see.
#
# **A trap of NumPy 2**: `np.sqrt(5)` is a float64 of its own and turns a float32 array into float64. A
# Python float does not.


# %%
def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
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
    - A query from which every key is hidden has weights 0 and output 0, never NaN.
    - float32 stays float32 and float16 stays float16; integers count as float64.
    - `q`, `k`, `v` and `mask` are left as they were.

    >>> q, k, v = np.array([[1, 0]]), np.array([[1, 0], [0, 1]]), np.array([[10], [20]])
    >>> output, weights = attention(q, k, v)
    >>> weights.round(3), output.round(3)                   # e^0.707 = 2.028 against e^0 = 1
    (array([[0.67, 0.33]]), array([[13.302]]))
    >>> attention(q, k, v, mask=np.array([[True, False]]))[0]
    array([[20.]])

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1 (arXiv 1706.03762).
    """
    ### BEGIN SOLUTION
    q, k, v = as_float(q), as_float(k), as_float(v)
    scores = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5  # (..., n_q, n_k)
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)  # softmax gives -inf the weight 0
    weights = softmax(scores)
    return weights @ v, weights
    ### END SOLUTION


# %% [markdown]
# ## 4. Merging the heads
#
# Now go back: for each token, head 0's features, then head 1's, in one row. In the example:
#
# $$merged = \begin{pmatrix} 0.802 & 0.599 & 0.503 & 0.248 \\ 0.599 & 0.802 & 0.248 & 0.503 \\
# 0.752 & 0.752 & 0.333 & 0.333 \end{pmatrix}$$
#
# The same care as before, the other way round: first make heads and features neighbours, then join them. A
# wrong split and a wrong merge can undo each other, so that a round trip looks fine while every head saw
# nonsense. That is why the checks look at each of them alone.


# %%
def merge_heads(x: np.ndarray) -> np.ndarray:
    """Put the heads' results side by side, token by token: the way back from `split_heads`.

    In:  `x` of shape `(B, h, n, d_v)`.
    Out: shape `(B, n, h * d_v)`, in every token head 0's features first, then head 1's, and so on.

        out[b, t, i*d_v + c] = x[b, i, t, c]

    The numbers move, none changes: a floating dtype stays as it is, and `x` is left as it was (the result
    may share its memory). `d_v` may be any size, and `x` need not be contiguous.

    >>> x = np.array([[[[1.0, 2.0]], [[3.0, 4.0]]]])        # 1 sentence, 2 heads, 1 token, 2 features a head
    >>> merge_heads(x)
    array([[[1., 2., 3., 4.]]])
    """
    ### BEGIN SOLUTION
    B, h, n, d_v = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, n, h * d_v)  # the heads go beside their features first
    ### END SOLUTION


# %% [markdown]
# ## 5. The whole thing
#
# ```mermaid
# flowchart TB
#     X["tokens x: (B, n, d_model)"]
#     X -->|"@ W_Q"| Q["queries"]
#     X -->|"@ W_K"| K["keys"]
#     X -->|"@ W_V"| V["values"]
#     Q & K & V --> S["split_heads: (B, h, n, d_k) each"]
#     S -->|"slice 0"| A0["attention of head 0"]
#     S -->|"slice 1"| A1["attention of head 1"]
#     S -->|"slice h-1"| A2["attention of head h-1"]
#     A0 & A1 & A2 --> M["merge_heads: (B, n, d_model)"]
#     M -->|"@ W_O"| Y["output: (B, n, d_model)"]
# ```
#
# **What is $W_O$ for?** After the merge each feature comes from one head alone. $W_O$ lets every feature of
# the output draw on all heads, and so decides what each head's finding is worth. (Written as a sum,
# $output = \sum_i head_i W_O^{(i)}$: head $i$ speaks through its own $d_v$ rows of $W_O$.) With $W_O = I$
# the output of the example is the merged matrix above.
#
# Input and output have the same shape, so layers can be stacked. Attention only moves information between
# tokens; in a Transformer a feed-forward network then works on each token by itself, and both are needed.
# (In spite of the paper's title it is the larger part: with the usual $4 d_{model}$ features inside it holds
# $8 d_{model}^2$ numbers, twice as many as the four matrices here.)
#
# The four matrices hold $4 d_{model}^2$ numbers, whatever $h$ is. They start random, divided by
# $\sqrt{d_{model}}$, by the argument of section 3: a sum of $d_{model}$ products stays of size 1.


# %%
class MultiHeadAttention:
    """Multi-head self-attention: project, split, attend, merge, project.

    `MultiHeadAttention(d_model, num_heads, rng=None)` has four attributes `W_Q`, `W_K`, `W_V`, `W_O`, each
    an array of shape `(d_model, d_model)` and used as `x @ W`. They are drawn from the generator `rng`
    (from a fresh `np.random.default_rng()` when it is `None`) and scaled by `1 / sqrt(d_model)`, so that a
    projection neither blows its input up nor shrinks it. `forward` uses what the attributes hold when it is
    called: they may be set anew.

    Raises:
        ValueError: when `num_heads` does not divide `d_model`; the message names both numbers.

    >>> mha = MultiHeadAttention(d_model=12, num_heads=3, rng=np.random.default_rng(0))
    >>> output, weights = mha.forward(np.ones((2, 5, 12)))
    >>> output.shape, weights.shape
    ((2, 5, 12), (2, 3, 5, 5))

    Source: Vaswani et al. 2017, section 3.2.2 (arXiv 1706.03762).
    """

    W_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray

    def __init__(self, d_model: int, num_heads: int, rng: np.random.Generator | None = None) -> None:
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
        self.num_heads = num_heads
        rng = np.random.default_rng() if rng is None else rng
        self.W_Q, self.W_K, self.W_V, self.W_O = rng.standard_normal((4, d_model, d_model)) / d_model**0.5
        ### END SOLUTION

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Let the tokens of every sentence look at each other.

        In:  `x` of shape `(B, n, d_model)`.
        Out: the pair `(output, weights)` of shapes `(B, n, d_model)` and `(B, h, n, n)`.

            q, k, v = split(x @ W_Q), split(x @ W_K), split(x @ W_V)
            output = merge(attention(q, k, v, mask)) @ W_O

        - `mask` is boolean, `True` means hidden, and it broadcasts against `(B, h, n, n)`. A query from
          which every key is hidden has weights 0 and output 0.
        - Both results have the dtype of `x` when the matrices have it too; integers count as float64.
        - `x`, `mask` and the four matrices are left as they were.
        """
        ### BEGIN SOLUTION
        x = as_float(x)
        q = split_heads(x @ self.W_Q, self.num_heads)  # (B, h, n, d_k)
        k = split_heads(x @ self.W_K, self.num_heads)
        v = split_heads(x @ self.W_V, self.num_heads)
        heads, weights = attention(q, k, v, mask)
        output = merge_heads(heads) @ self.W_O
        return output.astype(x.dtype), weights.astype(x.dtype)
        ### END SOLUTION


# %% [markdown] question="one-wide-head" points=2
# ## In your own words: why not one wide head?
#
# A colleague wants it simple: "With `d_model = 512`, one head of 512 features costs as many products as
# eight heads of 64. Let us take one." What would the model lose? Give a sentence in which one token needs
# two things at once, and say what a single set of weights has to do there. (Three or four sentences, for a
# person to read and grade.)

# %% [markdown] question="what-is-w-o-for" points=2
# ## In your own words: what is $W_O$ for?
#
# Another colleague leaves $W_O$ out, because the merged heads have the right shape without it. On which
# heads can a given feature of the output then draw? What can a layer with $W_O$ do that this one can't?

# %% [markdown]
# ## Take with you
#
# - split, attend, merge: `(B, n, d_model)` -> `(B, h, n, d_k)` -> `(B, n, d_model)`. Only the last axis is
#   ever cut.
# - Hide before the softmax, divide by the root of a *head's* size, subtract each row's own largest.
# - $W_O$ is where the heads meet.
#
# To read: Vaswani et al. 2017, section 3.2 (arXiv 1706.03762), and *The Annotated Transformer* (Harvard
# NLP), the same paper line by line in PyTorch. Next: `torch_attention.py`.

# %%
if __name__ == "__main__":  # try it: in the notebook, or by `python numpy_attention.py`
    X = np.array([[[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]])
    mha = MultiHeadAttention(d_model=4, num_heads=2)
    mha.W_Q = mha.W_K = mha.W_V = mha.W_O = np.eye(4)
    output, weights = mha.forward(X)
    print(f"weights {weights.shape}\n{weights.round(3)}\noutput {output.shape}\n{output.round(3)}")
