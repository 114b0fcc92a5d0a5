"""Properties that ask the student's code again, with the same or other inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.diagnosis.recording import replay

from .case import SLACK, Arrays, Case, Found, leaves


def repeats(case: Case) -> Found:
    """What random numbers and earlier calls change. A replay draws the numbers that the call drew, but for other luck."""
    again = replay(case.call, case.student)
    if again.error:
        return
    if not replay(case.call, case.student, luck=1).matches(again):
        drawn = "does forward use what __init__ drew, and not what W_Q and the others hold by now?"
        cause = drawn if "W_Q" in case.call.state else "is something random, such as dropout in eval mode?"
        text = f"The same call twice gives two answers: {cause}"
    elif not again.matches(case.call.seen):
        text = "The same call, made afresh, gives another answer: state of an earlier call stays behind"
    else:
        return
    yield from ((fault, text, text) for fault in case.faults)


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


def easier(case: Case) -> Found:
    """Questions of a simpler kind that the student gets right."""
    given, changes = case.given, dict[str, Arrays]()
    if "weights" in case.subject.labels[:1] and given["x"].ndim > 1 and case.alike("weights"):  # softmax
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
        views = not all(_contiguous(x) for x in leaves([*case.native.values()]))
        changes = {"for contiguous inputs, wrong for views with other strides": dict[str, Any]()} if views else {}
        changes = {f"in float64, wrong in {case.dtype}": {}} if case.dtype in SLACK else changes
    for words, change in changes.items():
        if case.right(**change):
            yield from ((fault, words, f"Right {words}") for fault in ("values", "not finite"))


def _contiguous(x: Any) -> bool:
    return bool(x.is_contiguous()) if hasattr(x, "is_contiguous") else not isinstance(x, np.ndarray) or bool(x.flags.c_contiguous)
