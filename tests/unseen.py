"""Thirty wrong solutions that nobody looked into the catalogue for.

They were written from the contract alone, before the catalogue of mistakes was read, the way students (and
language models) write them: whole functions, other idioms than ours, sometimes two faults at once. They
measure how often the grader names the true cause when it meets code that it was not made for. One of the thirty
(nan_to_num after the softmax) proved right on this PyTorch, gradients too, and gave way to nan_to_num of the output.
After the first gradings, phrases that name the true cause in other words than expected were added to `words` of six
entries: both softmaxes over the whole array, heads laid along the batch, top left twice, and the mask beside is_causal.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unseen:
    exercise: str
    source: str  # the whole function or class; the imports and helpers of the exercise file are at hand
    cause: str
    words: tuple[str, ...]  # any of them shows, in any case, that the student was told of the cause


UNSEEN: list[Unseen] = [
    # ------------------------------------------------------------------ numpy_attention
    Unseen(
        "numpy_attention.softmax",
        """
def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)
""",
        "the sum runs over the whole array: all rows together make 1, not each row",
        ("each row", "every row", "whole array", "all rows", "over everything", "rows together", "axis", "row alone"),
    ),
    Unseen(
        "numpy_attention.softmax",
        """
def softmax(x):
    x = np.asarray(x, dtype=float)
    e = np.exp(x - x.max())
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)
""",
        "one maximum for the whole array is taken away: a row far below it underflows to zeros",
        ("own maximum", "own largest", "row's maximum", "each row", "whole array", "underflow", "far below", "row alone"),
    ),
    Unseen(
        "numpy_attention.softmax",
        """
def softmax(x):
    x = np.asarray(x, dtype=np.float64)
    x_max = np.max(x, axis=-1, keepdims=True)
    x_max = np.where(np.isneginf(x_max), 0.0, x_max)
    exp_x = np.exp(x - x_max)
    return exp_x / (np.sum(exp_x, axis=-1, keepdims=True) + 1e-3)
""",
        "a constant against division by zero makes every row sum to less than 1",
        ("less than 1", "below 1", "epsilon", "constant", "0.99", "do not sum to 1", "too small"),
    ),
    Unseen(
        "numpy_attention.split_heads",
        """
def split_heads(x, num_heads):
    batch, n, d_model = x.shape
    if d_model % num_heads:
        raise ValueError(f"d_model={d_model} does not divide into {num_heads} heads")
    d_k = d_model // num_heads
    return np.transpose(x.reshape(batch, n, d_k, num_heads), (0, 3, 1, 2))
""",
        "head i gets every h-th feature instead of d_k neighbouring ones",
        ("every", "neighbour", "interleav", "next to each other", "side by side", "in turn"),
    ),
    Unseen(
        "numpy_attention.split_heads",
        """
def split_heads(x, num_heads):
    B, n, d_model = x.shape
    if d_model % num_heads != 0:
        raise ValueError(f"cannot split d_model={d_model} over num_heads={num_heads}")
    parts = np.array(np.split(x, num_heads, axis=-1))
    return parts.reshape(B, num_heads, n, d_model // num_heads)
""",
        "the axis of heads stands before the batch, and reshape mixes batch items with heads",
        ("batch item", "items of the batch", "mixes the batch", "other items", "along the batch", "of the batch"),
    ),
    Unseen(
        "numpy_attention.attention",
        """
def attention(q, k, v, mask=None):
    q, k, v = as_float(q), as_float(k), as_float(v)
    n_k = k.shape[-2]
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(n_k)
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    weights = softmax(scores)
    return weights @ v, weights
""",
        "the scores are divided by the root of the number of keys instead of sqrt(d_k)",
        ("sqrt(d_k)", "sqrt(n_k)", "number of keys", "scaled", "scale"),
    ),
    Unseen(
        "numpy_attention.attention",
        """
def attention(q, k, v, mask=None):
    q, k, v = as_float(q), as_float(k), as_float(v)
    d_k = q.shape[-1]
    weights = softmax(q @ k.swapaxes(-2, -1) / np.sqrt(d_k))
    if mask is not None:
        weights = weights * np.logical_not(mask)
    output = weights @ v
    return output, weights
""",
        "the mask comes after the softmax: the rows that are left no longer sum to 1",
        ("after the softmax", "before the softmax", "sum to 1", "add up to 1", "normali"),
    ),
    Unseen(
        "numpy_attention.attention",
        """
def attention(q, k, v, mask=None):
    q, k, v = as_float(q), as_float(k), as_float(v)
    scores = np.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores * (1 - mask)
    weights = softmax(scores)
    return np.einsum("...qk,...kd->...qd", weights, v), weights
""",
        "a hidden key's score becomes 0, which still earns weight, instead of minus infinity",
        ("which the mask hides", "hidden key", "-inf", "minus infinity", "still give", "score 0", "score of 0"),
    ),
    Unseen(
        "numpy_attention.attention",
        """
def attention(q, k, v, mask=None):
    q, k, v = as_float(q), as_float(k), as_float(v)
    d_k = k.shape[-1]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    scores = scores - np.max(scores, axis=-2, keepdims=True)
    e = np.exp(scores)
    weights = e / e.sum(axis=-2, keepdims=True)
    return weights @ v, weights
""",
        "two faults: softmax over the queries, and True is read as visible",
        ("over which axis", "columns", "over the queries", "over the keys", "visible", "the other way", "inverted"),
    ),
    Unseen(
        "numpy_attention.attention",
        """
def attention(q, k, v, mask=None):
    q, k, v = as_float(q), as_float(k), as_float(v)
    q /= np.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    weights = softmax(scores)
    return weights @ v, weights
""",
        "the caller's q is divided in place",
        ("in place", "was changed", "is changed", "changes its input", "caller's", "changes the input"),
    ),
    Unseen(
        "numpy_attention.merge_heads",
        """
def merge_heads(x):
    B, h, n, d_v = x.shape
    return np.moveaxis(x, 1, -1).reshape(B, n, h * d_v)
""",
        "the heads vary fastest: one feature of each head in turn, instead of head 0's features first",
        ("interleav", "in turn", "head 0's features", "one feature of each head", "neighbour", "every", "fastest"),
    ),
    Unseen(
        "numpy_attention.merge_heads",
        """
def merge_heads(x):
    batch, seq_len, num_heads, d_v = x.shape
    return x.reshape(batch, seq_len, num_heads * d_v)
""",
        "heads and tokens are taken in the wrong order: axis 1 holds the heads, not the tokens",
        ("shape", "axis of heads", "heads and tokens", "tokens and heads", "axes", "transpose"),
    ),
    Unseen(
        "numpy_attention.MultiHeadAttention",
        """
class MultiHeadAttention:
    def __init__(self, d_model, num_heads, rng=None):
        if d_model % num_heads != 0:
            raise ValueError(f"d_model ({d_model}) must be divisible by num_heads ({num_heads})")
        rng = np.random.default_rng() if rng is None else rng
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (
            rng.normal(scale=d_model**-0.5, size=(d_model, d_model)) for _ in range(4)
        )

    def forward(self, x, mask=None):
        outputs, maps = [], []
        for i in range(self.num_heads):
            part = slice(i * self.d_k, (i + 1) * self.d_k)
            q, k, v = x @ self.W_Q[part].T, x @ self.W_K[part].T, x @ self.W_V[part].T
            head_mask = None if mask is None else np.broadcast_to(
                mask, (len(x), self.num_heads, x.shape[1], x.shape[1]))[:, i]
            out, w = attention(q, k, v, head_mask)
            outputs.append(out)
            maps.append(w)
        return np.concatenate(outputs, axis=-1) @ self.W_O, np.stack(maps, axis=1)
""",
        "the projections use W.T (rows of W for a head) where x @ W is asked, as nn.Linear would",
        ("transpose", "x @ w", ".t", "rows of w", "w_q"),
    ),
    Unseen(
        "numpy_attention.MultiHeadAttention",
        """
class MultiHeadAttention:
    def __init__(self, d_model, num_heads, rng=None):
        if d_model % num_heads:
            raise ValueError(f"{d_model} features cannot be shared by {num_heads} heads")
        rng = rng or np.random.default_rng()
        self.h = num_heads
        self.W_Q = rng.standard_normal((d_model, d_model)) / np.sqrt(d_model)
        self.W_K = rng.standard_normal((d_model, d_model)) / np.sqrt(d_model)
        self.W_V = rng.standard_normal((d_model, d_model)) / np.sqrt(d_model)
        self.W_O = rng.standard_normal((d_model, d_model)) / np.sqrt(d_model)
        self.mask = None

    def forward(self, x, mask=None):
        if mask is not None:
            self.mask = mask
        q = split_heads(x @ self.W_Q, self.h)
        k = split_heads(x @ self.W_K, self.h)
        v = split_heads(x @ self.W_V, self.h)
        out, weights = attention(q, k, v, self.mask)
        return merge_heads(out) @ self.W_O, weights
""",
        "the mask of an earlier call is kept and used again in a call without a mask",
        ("earlier call", "second call", "state", "previous call", "last call", "call before", "stays behind"),
    ),
    # ------------------------------------------------------------------ torch_attention
    Unseen(
        "torch_attention.split_heads",
        """
def split_heads(x, num_heads):
    d_model = x.size(-1)
    if d_model % num_heads != 0:
        raise ValueError(f"num_heads={num_heads} does not divide d_model={d_model}")
    return torch.stack(torch.split(x, num_heads, dim=-1), dim=1)
""",
        "torch.split takes the size of a part, not the number of parts: d_k heads of h features",
        ("size of a part", "size of each", "number of parts", "swapped", "changed places", "shape", "d_k heads"),
    ),
    Unseen(
        "torch_attention.attention",
        """
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    output = torch.nan_to_num(weights @ v, nan=0.0)
    return output, weights
""",
        "the output of a wholly hidden query is repaired, the weights that are returned hold NaN",
        ("nan",),
    ),
    Unseen(
        "torch_attention.attention",
        """
def attention(q, k, v, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    with torch.no_grad():
        biggest = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        e = torch.exp(scores - biggest)
        weights = e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
    return weights @ v, weights
""",
        "the softmax runs under no_grad: q and k get no gradient, v does",
        ("gradient", "no_grad", "detach"),
    ),
    Unseen(
        "torch_attention.attention",
        """
def attention(q, k, v, mask=None):
    d_k = q.size(-1)
    scores = torch.matmul(q.float(), k.float().transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
        hidden = mask.expand(scores.shape).all(dim=-1, keepdim=True)
        weights = F.softmax(scores.masked_fill(hidden, 0.0), dim=-1).masked_fill(hidden, 0.0)
    else:
        weights = F.softmax(scores, dim=-1)
    output = torch.matmul(weights, v.float())
    return output, weights
""",
        "everything becomes float32: float16 and float64 inputs do not get their own dtype back",
        ("dtype", "float32", "float16", "float64"),
    ),
    Unseen(
        "torch_attention.merge_heads",
        """
def merge_heads(x):
    batch, heads, n, d_v = x.shape
    return x.permute(0, 3, 2, 1).reshape(batch, n, heads * d_v)
""",
        "the wrong axes are swapped: features stand before the tokens, so tokens are mixed",
        ("token", "axes", "transpose", "order", "mixed", "interleav"),
    ),
    Unseen(
        "torch_attention.causal_mask",
        """
def causal_mask(n_q, n_k=None, device=None):
    if n_k is None:
        n_k = n_q
    return torch.triu(torch.ones(n_q, n_k, dtype=torch.bool, device=device), diagonal=n_k - n_q)
""",
        "the diagonal is hidden too: a query does not see its own key",
        ("itself", "own key", "own position", "diagonal", "one key too", "its own"),
    ),
    Unseen(
        "torch_attention.causal_mask",
        """
def causal_mask(n_q, n_k=None, device=None):
    n_k = n_k or n_q
    rows = torch.arange(n_q, device=device).unsqueeze(1)
    cols = torch.arange(n_k, device=device).unsqueeze(0)
    return cols > rows
""",
        "with more keys than queries the first query, not the last, is lined up with the end: top left alignment",
        ("last query", "top left", "top-left", "n_q = n_k", "more keys", "first query", "query 0", "n_k - n_q"),
    ),
    Unseen(
        "torch_attention.MultiHeadAttention",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} is not a multiple of num_heads={num_heads}")
        self.num_heads = num_heads
        self.dropout = dropout
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, d_model, bias=False)
        self.W_V = nn.Linear(d_model, d_model, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None):
        q, k, v = (split_heads(layer(x), self.num_heads) for layer in (self.W_Q, self.W_K, self.W_V))
        _, weights = attention(q, k, v, mask)
        dropped = F.dropout(weights, p=self.dropout)
        return self.W_O(merge_heads(dropped @ v)), weights
""",
        "F.dropout is not told self.training: it drops weights in eval mode too",
        ("dropout", "eval", "training", "two answers", "another answer"),
    ),
    Unseen(
        "torch_attention.MultiHeadAttention",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, d_model, bias=False)
        self.W_V = nn.Linear(d_model, d_model, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        B, n, d_model = x.shape
        Q = self.W_Q(x).view(B, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_K(x).view(B, n, self.num_heads, self.d_k).transpose(1, 2)
        V = self.W_K(x).view(B, n, self.num_heads, self.d_k).transpose(1, 2)
        _, weights = attention(Q, K, V, mask)
        out = self.dropout(weights) @ V
        return self.W_O(out.transpose(1, 2).contiguous().view(B, n, d_model)), weights
""",
        "copied line: the values come from W_K, and W_V is never used",
        ("w_v", "values come from", "w_k", "values"),
    ),
    Unseen(
        "torch_attention.efficient_mha",
        """
def efficient_mha(q, k, v, mask=None, is_causal=False):
    if is_causal:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~causal_mask(q.size(-2), k.size(-2), q.device))
    if mask is not None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
    return F.scaled_dot_product_attention(q, k, v)
""",
        "with is_causal the mask is forgotten: both together must hide",
        ("both", "either hides", "the mask is forgotten", "ignores", "when is_causal is set", "beside is_causal"),
    ),
    Unseen(
        "torch_attention.efficient_mha",
        """
def efficient_mha(q, k, v, mask=None, is_causal=False):
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    allowed = ~mask
    if is_causal:
        allowed = allowed & ~causal_mask(q.size(-2), k.size(-2), q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
""",
        "SDPA's own is_causal lines up the first query with the first key, wrong when n_q != n_k",
        ("top left", "top-left", "last query", "n_q = n_k", "first query", "query 0", "more keys", "lines up"),
    ),
    # ------------------------------------------------------------------ grouped_query
    Unseen(
        "grouped_query.repeat_kv",
        """
def repeat_kv(x, num_heads):
    B, h_kv, n, d = x.shape
    if num_heads % h_kv:
        raise ValueError(f"num_heads={num_heads} is not a multiple of h_kv={h_kv}")
    n_rep = num_heads // h_kv
    return x[:, None, :, :, :].expand(B, n_rep, h_kv, n, d).reshape(B, num_heads, n, d)
""",
        "the new axis is put before the KV heads: 0 1 0 1 instead of 0 0 1 1",
        ("in turn", "0, 1, 0, 1", "0 1 0 1", "tile", "neighbour", "order", "changed places", "whole block"),
    ),
    Unseen(
        "grouped_query.grouped_query_attention",
        """
def grouped_query_attention(q, k, v, mask=None):
    B, h, n_q, d_k = q.shape
    h_kv = k.size(1)
    if h % h_kv != 0:
        raise ValueError(f"{h} query heads cannot share {h_kv} KV heads")
    r = h // h_kv
    grouped = q.reshape(B, r, h_kv, n_q, d_k)
    scores = torch.einsum("brhqd,bhkd->brhqk", grouped, k) / math.sqrt(d_k)
    scores = scores.reshape(B, h, n_q, k.size(2))
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    values = weights.reshape(B, r, h_kv, n_q, -1)
    output = torch.einsum("brhqk,bhkd->brhqd", values, v).reshape(B, h, n_q, v.size(-1))
    return output, weights
""",
        "two faults: query head i uses KV head i mod h_kv instead of i // r, and hidden rows give NaN",
        ("neighbour", "kv head", "mod", "in turn", "nan", "tile", "wrong group"),
    ),
    Unseen(
        "grouped_query.GroupedQueryAttention",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}, num_kv_heads={num_kv_heads}")
        self.h, self.h_kv, self.d_k = num_heads, num_kv_heads, d_model // num_heads
        self.W_Q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_K = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_V = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_O = nn.Linear(num_heads * self.d_k, d_model, bias=False)

    def forward(self, x, cache=None):
        B, n, _ = x.shape
        q = self.W_Q(x).view(B, n, self.h, self.d_k).transpose(1, 2)
        k = self.W_K(x).view(B, n, self.h_kv, self.d_k).transpose(1, 2)
        v = self.W_V(x).view(B, n, self.h_kv, self.d_k).transpose(1, 2)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        mask = None
        if cache is None:
            mask = torch.triu(torch.ones(n, n, dtype=torch.bool, device=x.device), diagonal=1)
        out, _ = grouped_query_attention(q, k, v, mask)
        return self.W_O(out.transpose(1, 2).reshape(B, n, -1)), (k, v)
""",
        "no mask once there is a cache: in a chunk of several tokens the early ones see the later ones",
        ("future", "later token", "later ones", "causal", "ahead", "not seen yet", "chunk of several"),
    ),
    Unseen(
        "grouped_query.GroupedQueryAttention",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model ({d_model}) % num_heads ({num_heads}) != 0")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads ({num_heads}) % num_kv_heads ({num_kv_heads}) != 0")
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.d_k = d_model // num_heads
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_V = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, cache=None):
        B, n, _ = x.shape
        q = self.W_Q(x).reshape(B, n, self.num_heads, self.d_k).transpose(1, 2)
        k = self.W_K(x).reshape(B, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        v = self.W_V(x).reshape(B, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        if cache is not None:
            k = torch.cat((k, cache[0]), dim=2)
            v = torch.cat((v, cache[1]), dim=2)
        total = k.size(2)
        mask = torch.triu(torch.ones(n, total, dtype=torch.bool, device=x.device), diagonal=total - n + 1)
        out, _ = grouped_query_attention(q, k, v, mask)
        return self.W_O(out.transpose(1, 2).reshape(B, n, -1)), (k, v)
""",
        "the new keys are put before those of the cache, so the order of time is lost",
        ("before the", "in front of", "order", "at the end", "wrong end", "behind the"),
    ),
    Unseen(
        "grouped_query.kv_cache_bytes",
        """
def kv_cache_bytes(num_layers, num_kv_heads, head_dim, seq_len, batch=1, bytes_per_value=2):
    per_token = 2 * num_kv_heads * head_dim * bytes_per_value
    return num_layers * per_token * seq_len
""",
        "the batch is forgotten",
        ("batch",),
    ),
]
