"""What can be said of a wrong exercise that no known mistake explains: properties, measured on the student's own answers.

A `Subject` says what calls are given and what is due, by the slow oracle. A property looks at one wrong call (a `Case`),
may ask the student's code again with other inputs, and yields (fault, key, sentence). A sentence is told when its key was
found on every case with that fault: it is a measurement, not a guess.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checks import oracle, torch
from grader.recording import Call, duplicate, replay
from grader.trouble import Stopped

Arrays = dict[str, Any]  # by name; numbers are float64, masks bool
Found = Iterator[tuple[str, str, str]]
SLACK = {"float32": 3e-4, "float16": 3e-2, "bfloat16": 1e-1}  # relative to the largest number that is due
MATRICES = ("W_Q", "W_K", "W_V", "W_O")


@dataclass(frozen=True)
class Subject:
    arguments: tuple[str, ...]
    labels: tuple[str, ...]  # of the arrays that the student gives back; `due` may know more
    due: Callable[[Arrays], Arrays]


@dataclass(frozen=True, eq=False)
class Case:
    subject: Subject
    call: Call
    student: Callable[..., Any]
    only: set[str] = field(default_factory=set)  # the keys that are still of interest, where not all are

    @functools.cached_property
    def native(self) -> Arrays:
        return {**dict(zip(self.subject.arguments, self.call.args, strict=False)), **self.call.kwargs}

    @functools.cached_property
    def dtype(self) -> str:
        return next((_dtype(x) for x in _leaves([*self.native.values()]) if _dtype(x) not in ("", "bool")), "")

    @functools.cached_property
    def given(self) -> Arrays:
        state = {name: _numbers(x) for name, x in self.call.state.items()}
        state = {name.removesuffix(".weight"): x.T if name.endswith(".weight") else x for name, x in state.items()}
        made = dict(zip(("d_model", "num_heads", "dropout"), self.call.made[0], strict=False)) | dict(self.call.made[1])
        cache = {"cache": None} if "cache" in self.subject.arguments else {}
        return {**made, **state, **cache, **{name: _numbers(x) for name, x in self.native.items()}}

    @functools.cached_property
    def due(self) -> Arrays:
        return self.subject.due(self.given)

    @functools.cached_property
    def got(self) -> Arrays:
        return self.read(self.call.answer)

    @functools.cached_property
    def weights(self) -> Any:
        """The student's weights, if they have the right shape. A function that keeps them shows them when v is the identity."""
        weights = self.got.get("weights")
        if "v" in self.given and "weights" not in self.got:
            shape = self.given["v"].shape
            weights = self.ask(v=np.broadcast_to(np.eye(shape[-2]), (*shape[:-1], shape[-2]))).get("output")
        return weights if weights is not None and weights.shape == self.due["weights"].shape else None

    @functools.cached_property
    def cut_off(self) -> list[str]:
        """Inputs that asked for a gradient and got none."""
        wanted = [name for name, x in self.native.items() if getattr(x, "requires_grad", False)]
        if not wanted or not getattr(_leaves(self.call.answer)[0], "requires_grad", False):
            return wanted
        parts = self.call.seen.parts[-len(wanted) :]
        return [name for name, part in zip(wanted, parts, strict=True) if part.form == ("no gradient",)]

    @functools.cached_property
    def faults(self) -> set[str]:
        """What is wrong: "form" is a shape or dtype, "values" are finite numbers."""
        pairs = [(self.got[label], self.due[label]) for label in self.subject.labels]
        alike = all(got.shape == due.shape for got, due in pairs)
        faults = {
            "changed": any(self.call.seen.changed),
            "gradient": bool(self.cut_off),
            "form": not alike or ("float" in self.dtype and {_dtype(x) for x in _leaves(self.call.answer)} != {self.dtype}),
            "not finite": not all(np.isfinite(got).all() for got, _ in pairs),
            "values": alike and not all(self.near(np.where(np.isfinite(got), got, due), due) for got, due in pairs),
        }
        return {fault for fault, there in faults.items() if there}

    @property
    def slack(self) -> float:
        return SLACK.get(self.dtype, 1e-8)

    def near(self, got: Any, due: Any) -> bool:
        return got.shape == due.shape and bool((abs(got - due) <= self.slack * max(1.0, abs(due).max(initial=0))).all())

    def fits(self, got: Arrays, due: Arrays) -> bool:
        return bool(got) and all(self.near(got[label], due[label]) for label in self.subject.labels)

    def read(self, answer: Any) -> Arrays:
        arrays = [_numbers(x) for x in _leaves(answer)]
        if len(arrays) != len(self.subject.labels) or not all(isinstance(x, np.ndarray) for x in arrays):
            return {}
        return {label: x.astype(np.float64) for label, x in zip(self.subject.labels, arrays, strict=True)}

    def ask(self, **changes: Any) -> Arrays:
        """What the student answers when asked the same in float64 and with these changes; nothing when that raises."""
        make = torch.tensor if any("torch" in type(x).__module__ for x in _leaves([*self.native.values()])) else np.array
        new = {name: {**self.given, **changes}[name] for name in self.subject.arguments if name in {**self.native, **changes}}
        new = {name: _each(x, lambda x: make(np.ascontiguousarray(x))) for name, x in new.items()}
        try:
            first = [new.pop(name) for name in self.subject.arguments[: len(self.call.args)]]
            return self.read(self.ready({name: changes[name] for name in MATRICES if name in changes})(*first, **new))
        except Stopped:
            raise
        except Exception:
            return {}

    def ready(self, changes: Arrays) -> Callable[..., Any]:
        """What to call: the student's function, or a method of a fresh object with the call's matrices."""
        if not self.call.method:
            return self.student
        made = self.student(*duplicate(self.call.made[0]), **duplicate(dict(self.call.made[1])))
        matrices = {**{name: self.given[name] for name in MATRICES}, **changes}
        if hasattr(made, "load_state_dict"):
            made.double().train(self.call.training)
            made.load_state_dict({f"{name}.weight": torch.tensor(x.T) for name, x in matrices.items()}, strict=False)
        else:
            _ = [setattr(made, name, x.copy()) for name, x in matrices.items()]
        return getattr(made, self.call.method)

    def right(self, **changes: Any) -> bool:
        return self.fits(self.ask(**changes), self.subject.due({**self.given, **changes}))


def _leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in _leaves(item)] if isinstance(x, tuple | list) else [x]


def _each(x: Any, make: Callable[[Any], Any]) -> Any:
    return tuple(_each(item, make) for item in x) if isinstance(x, tuple) else make(x) if isinstance(x, np.ndarray) else x


def _dtype(x: Any) -> str:
    return str(getattr(x, "dtype", "")).removeprefix("torch.")


def _numbers(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return tuple(_numbers(item) for item in x)
    if "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor):
        x = (x if _dtype(x) == "bool" else x.detach().double()).numpy(force=True)
    return x if not isinstance(x, np.ndarray) or x.dtype == bool else x.astype(np.float64)


def _softmax(given: Arrays) -> Arrays:
    return {"weights": oracle.softmax(given["x"]), "hidden": np.isneginf(given["x"])}


def _attention(given: Arrays) -> Arrays:
    q, k, v = (given[name] for name in "qkv")
    if given.get("tiled"):
        k, v = (np.tile(x, (1, q.shape[1] // x.shape[1], 1, 1)) for x in (k, v))
    hidden = np.zeros((q.shape[-2], k.shape[-2]), dtype=bool) if given.get("mask") is None else given["mask"]
    hidden = hidden | oracle.causal(q.shape[-2], k.shape[-2]) if given.get("is_causal") else hidden
    output, weights = (oracle.grouped if q.ndim == 4 else oracle.attention)(q, k, v, hidden)
    return {"output": output, "weights": weights, "hidden": np.broadcast_to(hidden, weights.shape)}


def _multi_head(given: Arrays) -> Arrays:
    """Of all classes; the one with a cache is causal."""
    x, heads = given["x"], given["num_heads"]
    q, k, v = (oracle.split_heads(x @ given[name], given[name].shape[1] * heads // x.shape[2]) for name in MATRICES[:3])
    found = {"q": q, "k": k, "v": v, "mask": given.get("mask"), "tiled": given.get("tiled")}
    if "cache" in given:
        old = given["cache"] or (k[:, :, :0], v[:, :, :0])
        k, v = (np.concatenate(pair[:: -1 if given.get("front") else 1], 2) for pair in ((old[0], k), (old[1], v)))
        found |= {"k": k, "v": v}
        found["mask"] = given.get("pattern", oracle.causal)(x.shape[1], found["k"].shape[2])
    found |= _attention(found)
    cached = {"cached k": found["k"], "cached v": found["v"]}
    return {**found, **cached, "output": oracle.merge_heads(found["output"]) @ given["W_O"]}


def _causal_mask(given: Arrays) -> Arrays:
    n_q, n_k = given["n_q"], given.get("n_k")
    return {"mask": given.get("pattern", oracle.causal)(n_q, n_q if n_k is None else n_k).astype(np.float64)}


def _shifted(by: int, corner: bool = False) -> Callable[[int, int], Any]:
    """The causal mask with each query `by` places later, or from the top left corner."""
    return lambda n_q, n_k: np.triu(np.ones((n_q, n_k), dtype=bool), (0 if corner else n_k - n_q) + by + 1)


def _other_questions(given: Arrays) -> Iterator[tuple[str, Arrays]]:
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


def as_if(case: Case) -> Found:
    for words, changes in _other_questions(case.given):
        if not case.only or words in case.only:
            other = case.subject.due({**case.given, **changes})
            if case.fits({label: np.where(np.isfinite(x), x, other[label]) for label, x in case.got.items()}, other):
                yield "values", words, f"The answer is just what it would be if {words}"
    if case.given.get("mask") is None or case.weights is None:
        return
    if case.near(case.weights, case.subject.due({**case.given, "mask": None})["weights"] * ~case.due["hidden"]):
        text = "The weights are those without a mask, the hidden ones set to 0 after the softmax: the rows do not sum to 1"
        yield "values", "zeroed", text


def repeats(case: Case) -> Found:
    again = replay(case.call, case.student)
    if not again.error and not again.matches(case.call.seen):
        text = "The same call, made afresh, gives another answer: state of an earlier call stays behind"
        if not replay(case.call, case.student).matches(again):
            text = "The same call twice gives two answers: is something random, such as dropout in eval mode?"
        yield from ((fault, text, text) for fault in case.faults)


def records(case: Case) -> Found:
    names = [name for name, x in case.native.items() for leaf in _leaves(x) if _dtype(leaf)]
    for name in (name for name, changed in zip(names, case.call.seen.changed, strict=False) if changed):
        yield "changed", name, f"The input {name} was changed by the call"
    yield "gradient", str(case.cut_off), f"No gradient reaches {' and '.join(case.cut_off)}"
    for label, x in zip(case.subject.labels, _leaves(case.call.answer), strict=True):
        if case.got[label].shape != case.due[label].shape:
            yield "form", "shape", f"The shape of the {label} is {case.got[label].shape}, due was {case.due[label].shape}"
        elif _dtype(x) != case.dtype:
            yield "form", "dtype", f"The dtype of the {label} is {_dtype(x)}, that of the input {case.dtype}"


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
    for label in (label for label in case.subject.labels if case.got[label].ndim == 4 == case.due[label].ndim):
        mine, due = (np.moveaxis(x[label], 1, 0) for x in (case.got, case.due))
        order = [next((j for j, head in enumerate(due) if case.near(x, head)), -1) for x in mine]
        moved = [i for i, j in enumerate(order) if i != j and not case.near(mine[i], due[i])]
        if moved and -1 not in order:
            two = len(moved) == 2 and order[moved[0]] == moved[1] and order[moved[1]] == moved[0]
            text = f"heads {moved[0]} and {moved[1]} have changed places" if two else f"heads 0, 1, ... are those due as {order}"
            yield "values", "moved", f"The numbers are right, but {text}"


def layout(case: Case) -> Found:
    """Where numbers come from, in functions that only move them."""
    x = case.given["x"]
    numbered, names = np.arange(float(x.size)).reshape(x.shape), ["batch item", "head", "token", "feature"]
    got, due = case.ask(x=numbered).get("output"), case.subject.due({**case.given, "x": numbered})["output"]
    if got is None or got.shape != due.shape or not np.isin(got, numbered).all():
        return
    names = names if x.ndim == 4 else [names[0], *names[2:]]
    mine, theirs = (dict(zip(names, np.unravel_index(y.astype(int), x.shape), strict=True)) for y in (got, due))
    for name in sorted(names, key=["batch item", "token", "head", "feature"].index):
        have, want = mine[name], theirs[name]
        if (have != want).any():
            *row, _ = np.argwhere(have != want)[0].tolist()
            row = [row[0], slice(None), *row[2:], 0] if name == "head" and due.ndim == 4 else [*row, slice(None)]
            a, b = (values[tuple(row)].tolist()[:8] for values in (have, want))
            steps = set(np.diff(a).tolist())
            every = f" (every {steps.pop()}th)" if name == "feature" and len(steps) == 1 and min(steps) > 1 else ""
            place = ", ".join(":" if isinstance(i, slice) else str(i) for i in row)
            yield "values", "moved", f"output[{place}] is made of {name}s {_list(a)}{every}; due were {name}s {_list(b)}"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def touches(case: Case) -> Found:
    """What changes an answer that it should have nothing to do with."""
    given, label = case.given, case.subject.labels[0]
    old = case.ask().get(label)
    axes = next((given[name].ndim for name in "qx" if name in given), 0)
    for words, names, where, watch, due in (
        ("Batch item 0 changes when only item 1 changes", "qkvx", np.s_[1:2], np.s_[:1], label != "weights" and axes > 2),
        ("Head 0's output changes when only head 1's input changes", "qkv", np.s_[:, 1:2], np.s_[:, :1], axes == 4),
        ("Query 0's output changes when only query 1 changes", "q", np.s_[..., 1:2, :], np.s_[..., :1, :], "q" in given),
        ("A token's output changes when only a later one changes", "x", np.s_[:, -1:], np.s_[:, :-1], "cache" in given),
    ):
        changes = {name: _bumped(given[name], where) for name in names if due and name in given}
        new = case.ask(**changes).get(label) if changes else None
        if old is not None and new is not None and old.shape == new.shape and (abs(new - old)[watch] > case.slack).any():
            yield "values", words, words


def _bumped(x: Any, where: tuple[Any, ...]) -> Any:
    x = x.copy()
    x[where] = np.where(np.isfinite(x[where]), x[where] * -3 + 2, x[where])
    return x


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


def easier(case: Case) -> Found:
    """Questions of a simpler kind that the student gets right."""
    given, changes = case.given, dict[str, Arrays]()
    if "weights" in case.subject.labels[:1] and given["x"].ndim > 1:  # softmax
        for place in np.argwhere(~np.isclose(case.got["weights"], case.due["weights"]))[:1]:
            row = {"x": given["x"][tuple(place[:-1])]}
            changes["for a row alone, wrong beside the other rows: is its maximum its own, and its sum?"] = row
    if "q" in given:
        q, k, v, mask = given["q"], given["k"], given["v"], case.due["hidden"]
        n, d = min(q.shape[-2], k.shape[-2]), min(v.shape[-1], q.shape[-1])
        mine = {} if given.get("mask") is None else {"mask": given["mask"]}
        if n > 1 and q.shape[-2] != k.shape[-2]:
            cut = {name: (x[..., :n, :] if x.ndim > 1 else x)[..., :n] for name, x in mine.items()}
            changes["where n_q = n_k, wrong elsewhere"] = {"q": q[..., :n, :], "k": k[..., :n, :], "v": v[..., :n, :], **cut}
        if v.shape[-1] != q.shape[-1]:
            changes["where d_v = d_k, wrong elsewhere"] = {"v": v[..., :d], "q": q[..., :d], "k": k[..., :d]}
        if mine and mask.shape != mine["mask"].shape:
            changes["with a mask of shape (B, h, n_q, n_k), wrong with one that has to broadcast"] = {"mask": mask.copy()}
    if given.get("mask") is not None:
        changes["without a mask, wrong with one"] = {"mask": None}
    if given.get("cache"):
        changes["for one new token, wrong for several"] = {"x": given["x"][:, :1]} if given["x"].shape[1] > 1 else {"cache": None}
        changes["without a cache, wrong with one"] = {"cache": None}
    if case.right():  # as it stands, but in float64 and side by side in memory
        views = not all(_contiguous(x) for x in _leaves([*case.native.values()]))
        changes = {"for contiguous inputs, wrong for views with other strides": dict[str, Any]()} if views else {}
        changes = {f"in float64, wrong in {case.dtype}": {}} if case.dtype in SLACK else changes
    for words, change in changes.items():
        if case.right(**change):
            yield from ((fault, words, f"Right {words}") for fault in ("values", "not finite"))


def _contiguous(x: Any) -> bool:
    return bool(x.is_contiguous()) if hasattr(x, "is_contiguous") else not isinstance(x, np.ndarray) or bool(x.flags.c_contiguous)


PROPERTIES = (repeats, records, as_if, sums, holes, leak, factors, heads_moved, touches, parts, easier, row_sums)


def symptom(subject: Subject, properties: tuple[Callable[[Case], Found], ...], calls: list[Call], student: Any) -> str | None:
    """One sentence for each kind of fault, two at most, that holds on all the calls with that fault."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            cases = [case for call in calls if (case := _case(subject, call, student)) is not None]
            faults = ["values", "not finite", "gradient", "changed", "form"]
            told = [_first(properties, fault, [case for case in cases if fault in case.faults]) for fault in faults]
            told = [text if text.endswith("?") else f"{text}." for text in dict.fromkeys(filter(None, told))]
            return " Besides: ".join(told[:2]) or None
        except Exception:  # the student's process is gone, or worse: nothing is said
            return None


def _first(properties: tuple[Callable[[Case], Found], ...], fault: str, cases: list[Case]) -> str | None:
    for found in properties if cases else ():
        texts: dict[str, str] = {}
        for case in cases:
            case.only.clear()
            case.only.update(texts)
            here = [(key, text) for where, key, text in _tried(found, case) if where == fault]
            here = [(key, text) for key, text in here if case is cases[0] or key in texts]
            texts = {key: texts.get(key, text) for key, text in reversed(here)}  # of several under a key, the first
            if not texts:
                break
        else:
            return list(texts.values())[-1]
    return None


def _tried(found: Callable[[Case], Found], case: Case) -> list[tuple[str, str, str]]:
    try:
        return list(found(case))
    except Stopped:
        raise
    except Exception:  # an answer odder than this property thought of
        return []


def _case(subject: Subject, call: Call, student: Any) -> Case | None:
    """The call as a case, if its answer is arrays and any of it is wrong."""
    case = Case(subject, call, student)
    try:
        random = call.training and "weights" in subject.labels and case.given.get("dropout")
        return case if not call.seen.error and not random and case.got and case.faults else None
    except Exception:  # sizes that are due an error, answers on no device, ...
        return None


def bytes_symptom(calls: list[Call], student: Any) -> str | None:
    """Which of the sizes the answer does not grow with, or the factor that it is off by."""
    sizes = {"num_layers": 3, "num_kv_heads": 5, "head_dim": 7, "seq_len": 11, "batch": 13, "bytes_per_value": 2}
    try:
        base = float(student(*sizes.values()))
        for name, size in sizes.items():
            by = float(student(*{**sizes, name: 2 * size}.values())) / base
            if not np.isclose(by, 2) and np.isfinite(by):
                change = "stays the same" if by == 1 else f"becomes {by:.4g} times as large"
                return f"When {name} doubles, the answer {change}: every size is due to count once."
        by = base / (2 * int(np.prod([*sizes.values()])))
        return f"The answer is {by:.4g} times what is due: what is counted, and how often?" if not np.isclose(by, 1) else None
    except Exception:
        return None


QKV, PAIR = ("q", "k", "v", "mask"), ("output", "weights")
SUBJECTS = {
    "numpy_attention.softmax": Subject(("x",), ("weights",), _softmax),
    "numpy_attention.attention": Subject(QKV, PAIR, _attention),
    "numpy_attention.MultiHeadAttention": Subject(("x", "mask"), PAIR, _multi_head),
    "torch_attention.attention": Subject(QKV, PAIR, _attention),
    "torch_attention.causal_mask": Subject(("n_q", "n_k", "device"), ("mask",), _causal_mask),
    "torch_attention.MultiHeadAttention": Subject(("x", "mask"), PAIR, _multi_head),
    "torch_attention.efficient_mha": Subject((*QKV, "is_causal"), ("output",), _attention),
    "grouped_query.grouped_query_attention": Subject(QKV, PAIR, _attention),
    "grouped_query.GroupedQueryAttention": Subject(("x", "cache"), ("output", "cached k", "cached v"), _multi_head),
}
SPLIT = Subject(("x", "num_heads"), ("output",), lambda given: {"output": oracle.split_heads(given["x"], given["num_heads"])})
MERGE = Subject(("x",), ("output",), lambda given: {"output": oracle.merge_heads(given["x"])})
REPEAT = Subject(("x", "num_heads"), ("output",), lambda given: {"output": oracle.repeat_kv(given["x"], given["num_heads"])})
MOVERS = {"numpy_attention.split_heads": SPLIT, "numpy_attention.merge_heads": MERGE, "grouped_query.repeat_kv": REPEAT}
MOVERS |= {"torch_attention.split_heads": SPLIT, "torch_attention.merge_heads": MERGE}
SYMPTOMS: dict[str, Callable[[list[Call], Any], str | None]] = {
    **{name: functools.partial(symptom, subject, PROPERTIES) for name, subject in SUBJECTS.items()},
    **{name: functools.partial(symptom, subject, (repeats, records, layout, easier)) for name, subject in MOVERS.items()},
    "grouped_query.kv_cache_bytes": bytes_symptom,
}
