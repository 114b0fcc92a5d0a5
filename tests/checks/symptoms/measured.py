"""Properties that are measured on the answers that are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Arrays, Case, Found, dtype_of, leaves
from .due import other_questions


def as_if(case: Case) -> Found:
    for words, changes in other_questions(case.given):
        if not case.only or words in case.only:
            other = case.subject.due({**case.given, **changes})
            if all(map(case.alike, case.subject.labels)) and case.fits(
                {label: np.where(np.isfinite(x), x, other[label]) for label, x in case.got.items()}, other
            ):
                yield "values", words, f"The answer is just what it would be if {words}"
    if case.given.get("mask") is None or case.weights is None:
        return
    if case.near(case.weights, case.subject.due({**case.given, "mask": None})["weights"] * ~case.due["hidden"]):
        text = "The weights are those without a mask, the hidden ones set to 0 after the softmax: the rows do not sum to 1"
        yield "values", "zeroed", text


def records(case: Case) -> Found:
    names = [name for name, x in case.native.items() for leaf in leaves(x) if dtype_of(leaf)]
    for name in (name for name, changed in zip(names, case.call.seen.changed, strict=False) if changed):
        yield "changed", name, f"The input {name} was changed by the call"
    yield "gradient", str(case.cut_off), f"No gradient reaches {' and '.join(case.cut_off)}"
    for label, x in zip(case.subject.labels, leaves(case.call.answer), strict=True):
        if case.got[label].shape != case.due[label].shape:
            yield "form", "shape", f"The shape of the {label} is {case.got[label].shape}, due was {case.due[label].shape}"
        elif dtype_of(x) != case.dtype:
            yield "form", "dtype", f"The dtype of the {label} is {dtype_of(x)}, that of the input {case.dtype}"


def holes(case: Case) -> Found:
    """NaN and infinity, and rows whose keys are all hidden."""
    name = case.subject.arguments[0]
    if case.weights is not None:
        empty, weights = case.due["hidden"].all(-1), {"weights": case.weights}
        rows = {label: x for label, x in {**case.got, **weights}.items() if x.shape[:-1] == empty.shape}
        pairs = [(x[empty], x[~empty], case.due[label][~empty]) for label, x in rows.items()]
        row = f"row {np.argwhere(empty)[0][-1]}, where everything is hidden: zeros are due" if empty.any() and pairs else ""
        if row and all(np.isfinite(rest).all() for _, rest, _ in pairs):
            yield "not finite", "empty", f"NaN appears in {row}"
        if row and all(case.near(rest, due) for _, rest, due in pairs) and any(x.any() for x, _, _ in pairs):
            yield "values", "empty", f"All is right but {row}"
    if "not finite" in case.faults:
        x = case.given[name]
        small = case.ask(**{name: x / max(1.0, abs(x[np.isfinite(x)]).max(initial=0))})
        if small and all(np.isfinite(x).all() for x in small.values()):
            yield "not finite", "large", f"NaN or infinity comes with large numbers in {name} only: what is exp(1000)?"


def sums(case: Case) -> Found:
    """Over which axes the weights sum to 1, if not over the keys."""
    w, due = case.weights, case.due.get("weights")
    if w is None or _ones(w.sum(-1), case.slack / 10):
        return
    axes = {(-2,): "the columns do", (-3,): "over the heads they do", (-2, -1): "a head's whole matrix does"}
    for axis, words in {**axes, tuple(range(-w.ndim, 0)): "all numbers of the array together do"}.items():
        if w.ndim >= -min(axis) and _ones(w.sum(axis), case.slack):
            yield "values", words, f"The rows of weights do not sum to 1, but {words}: over which axis is the softmax?"
    total = w.sum(-1, keepdims=True)
    if case.near(np.where(due.any(-1, keepdims=True), w / total, due), due):
        off = total.flat[abs(total - 1).argmax()]
        yield "values", "rows", f"The rows of weights do not sum to 1 (one sums to {off:.6g}), and are right but for that"


def _ones(sums: Any, slack: float) -> bool:
    kept = np.atleast_1d(sums)[np.isfinite(sums) & (sums != 0)]
    return bool(kept.size) and bool((abs(kept - 1) <= slack).all())


def leak(case: Case) -> Found:
    if case.weights is None or case.subject.arguments == ("x",):
        return
    mask = case.given.get("mask")
    for place in map(tuple, np.argwhere(case.due["hidden"] & (case.weights > 1e-6))[:1]):
        masked = mask is not None and np.broadcast_to(mask, case.weights.shape)[place]
        why = "which the mask hides" if masked else "which lies in its future"
        yield "values", "leak", f"Query {place[-2]} still gives weight {case.weights[place]:.2g} to key {place[-1]}, {why}"


def factors(case: Case) -> Found:
    """Scores (seen through the logarithm of the weights) and outputs that are off by a constant."""
    q, w, due, label = case.given.get("q"), case.weights, case.due.get("weights"), case.subject.labels[0]
    if due is None or (q is None and "W_O" not in case.given):
        return
    width = len(case.given["W_O"]) if q is None else q.shape[-1] * (q.shape[1] if q.ndim == 4 else 0)
    d_k = width // case.given["num_heads"] if q is None else q.shape[-1]
    sizes = {"d_k": d_k, "n_k": due.shape[-1], "n_q": due.shape[-2], "d_model": width}
    sizes |= {} if q is None else {"d_v": case.due["output"].shape[-1]}
    roots = {f"sqrt({name})": size**0.5 for name, size in sizes.items()}
    sizes = {**roots, "1": 1.0, **sizes, "1 / sqrt(d_k)": d_k**-0.5}
    by = _constant(case.got[label], case.due[label], case.slack)
    for name in _named(by, sizes, case.slack):
        text = f"The {label} is right up to the factor {by:.4g}" + (f", which is {name}" if name else "")
        yield "values", f"output {name or round(by, 4)}", text
    whole = w is not None and _ones(w.sum(-1), case.slack)
    by = _constant(*_logarithms(w, due), 30 * case.slack) if whole else 0.0
    for name in _named(sizes["sqrt(d_k)"] / by, sizes, case.slack) if by else ():
        text = f", as if they were divided by {name} instead of sqrt(d_k)" if name else ": what are they divided by?"
        yield "values", f"scores {name or round(by, 3)}", f"The scores are {by:.4g} times those that are due{text}"


def _named(value: float, sizes: Arrays, slack: float) -> list[str]:
    return [*(name for name, size in sizes.items() if np.isclose(value, size, rtol=max(1e-3, slack))), ""] if value else []


def _logarithms(*both: Any) -> Iterator[Any]:
    """Of weights that are no dust: less their mean in each row, they are the scores less theirs."""
    kept = np.logical_and(*(w > 1e-5 for w in both)) & (both[1] > 1e-4)
    for w in both:
        logs = np.log(np.where(kept, w, 1.0))
        yield np.where(kept, logs - logs.sum(-1, keepdims=True) / np.maximum(kept.sum(-1, keepdims=True), 1), 0.0)


def _constant(got: Any, due: Any, slack: float) -> float:
    """The c in got = c * due; 0 when there is none or it is 1."""
    square = float((due * due).sum()) if got.shape == due.shape and np.isfinite(got).all() else 0.0
    by = float((got * due).sum()) / square if square else 0.0
    fits = by > 0 and abs(got - by * due).max() <= slack * max(1.0, abs(got).max())
    return by if fits and abs(by - 1) > 1e-3 else 0.0


def heads_moved(case: Case) -> Found:
    for label in (label for label in case.subject.labels if case.alike(label) and case.due[label].ndim == 4):
        mine, due = (np.moveaxis(x[label], 1, 0) for x in (case.got, case.due))
        order = [next((j for j, head in enumerate(due) if case.near(x, head)), -1) for x in mine]
        moved = [i for i, j in enumerate(order) if i != j and not case.near(mine[i], due[i])]
        if moved and -1 not in order:
            two = len(moved) == 2 and order[moved[0]] == moved[1] and order[moved[1]] == moved[0]
            text = f"heads {moved[0]} and {moved[1]} have changed places" if two else f"heads 0, 1, ... are those due as {order}"
            yield "values", "moved", f"The numbers are right, but {text}"


def row_sums(case: Case) -> Found:
    if case.weights is not None:
        total, due = case.weights.sum(-1), case.due["weights"].any(-1)
        for off in total[due & (abs(total - 1) > max(1e-6, case.slack))][:1]:
            yield "values", "sum", f"The rows of weights do not sum to 1: one sums to {off:.4g}"


def parts(case: Case) -> Found:
    if "weights" in case.got and "output" in case.got:
        weights, output = (case.near(case.got[label], case.due[label]) for label in ("weights", "output"))
        if weights and not output:
            yield "values", "output", "The weights are right and the output is not: what becomes of them after that?"
        if output and not weights:
            yield "values", "weights", "The output is right, but not the weights that come with it"
