"""What is due by the slow oracle, and what would be due if the question were another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from checks import oracle

from .case import MATRICES, Arrays


def softmax(given: Arrays) -> Arrays:
    return {"weights": oracle.softmax(given["x"]), "hidden": np.isneginf(given["x"])}


def attention(given: Arrays) -> Arrays:
    q, k, v = (given[name] for name in "qkv")
    if given.get("tiled"):
        k, v = (np.tile(x, (1, q.shape[1] // x.shape[1], 1, 1)) for x in (k, v))
    hidden = np.zeros((q.shape[-2], k.shape[-2]), dtype=bool) if given.get("mask") is None else given["mask"]
    hidden = hidden | oracle.causal(q.shape[-2], k.shape[-2]) if given.get("is_causal") else hidden
    output, weights = (oracle.grouped if q.ndim == 4 else oracle.attention)(q, k, v, hidden)
    return {"output": output, "weights": weights, "hidden": np.broadcast_to(hidden, weights.shape)}


def multi_head(given: Arrays) -> Arrays:
    """Of all classes; the one with a cache is causal."""
    x, heads = given["x"], given["num_heads"]
    q, k, v = (oracle.split_heads(x @ given[name], given[name].shape[1] * heads // x.shape[2]) for name in MATRICES[:3])
    found = {"q": q, "k": k, "v": v, "mask": given.get("mask"), "tiled": given.get("tiled")}
    if "cache" in given:
        old = given["cache"] or (k[:, :, :0], v[:, :, :0])
        k, v = (np.concatenate(pair[:: -1 if given.get("front") else 1], 2) for pair in ((old[0], k), (old[1], v)))
        found |= {"k": k, "v": v}
        found["mask"] = given.get("pattern", oracle.causal)(x.shape[1], found["k"].shape[2])
    found |= attention(found)
    cached = {"cached k": found["k"], "cached v": found["v"]}
    return {**found, **cached, "output": oracle.merge_heads(found["output"]) @ given["W_O"]}


def causal_mask(given: Arrays) -> Arrays:
    n_q, n_k = given["n_q"], given.get("n_k")
    return {"mask": given.get("pattern", oracle.causal)(n_q, n_q if n_k is None else n_k).astype(np.float64)}


def _shifted(by: int, corner: bool = False) -> Callable[[int, int], Any]:
    """The causal mask with each query `by` places later, or from the top left corner."""

    def mask(n_q: int, n_k: int) -> Any:
        seen = oracle.causal(n_q, (n_q if corner else n_k) + by).astype(bool)  # nobody sees the keys beyond
        return np.pad(seen, ((0, 0), (0, n_k)), constant_values=True)[:, :n_k]

    return mask


def other_questions(given: Arrays) -> Iterator[tuple[str, Arrays]]:
    mask, corner = given.get("mask"), "the first query stood at the first key (top left); the last query is due to see every key"
    if mask is not None:
        yield "the mask did not count" + " beside is_causal" * bool(given.get("is_causal")), {"mask": None}
        yield "True in the mask meant that a key may be seen", {"mask": ~mask}
    if given.get("is_causal"):
        early = _shifted(0, corner=True)(given["q"].shape[-2], given["k"].shape[-2])
        yield "is_causal did not count", {"is_causal": False}
        yield corner, {"is_causal": False, "mask": early if mask is None else early | mask}
    if "cache" in given or ("q" in given and given["q"].shape[:-2] != given["k"].shape[:-2]):
        yield "query head i used KV head i mod h_kv, where neighbours are due to share one", {"tiled": True}
    if given.get("cache") is not None:
        yield "new keys and values stood before those of the cache, so that the newest token is the first", {"front": True}
    if "cache" in given or "n_q" in given:
        yield "every query saw the future too", {"pattern": lambda n_q, n_k: np.zeros((n_q, n_k), dtype=bool)}
        yield "every query looked one key into the future", {"pattern": _shifted(1)}
        yield "no query saw its own key", {"pattern": _shifted(-1)}
        yield corner, {"pattern": _shifted(0, corner=True)}
        yield "True and False had changed places", {"pattern": lambda n_q, n_k: ~oracle.causal(n_q, n_k)}
    square = [name for name in MATRICES if name in given and given[name].shape == given["W_O"].shape]
    for names in ([[name] for name in square] + [square[:3], square]) if square else ():
        yield f"{', '.join(names)} came in transposed, x @ W.T", {name: given[name].T for name in names}
    alike = [(a, b) for a in MATRICES[:3] for b in MATRICES if a != b and a in given and given[a].shape == given[b].shape]
    for name, other in alike:
        yield f"{other} stood where {name} is due", {name: given[other]}
        yield f"{name} and {other} had changed places", {name: given[other], other: given[name]}
    if "W_O" in given:
        yield "W_O did not count", {"W_O": np.eye(len(given["W_O"]))}
