"""What can be said of a wrong exercise that no known mistake explains: properties, measured on the student's own answers.

A `Subject` says what calls are given and what is due, by the slow oracle. A property looks at one wrong call (a `Case`),
may ask the student's code again with other inputs, and yields (fault, key, sentence). A sentence is told when its key was
found on every case with that fault: it is a measurement, not a guess.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from checks import oracle
from grader.diagnosis.recording import Call
from grader.trouble import Stopped

from .asked import easier, layout, repeats, touches
from .case import Case, Found, Subject
from .due import attention, causal_mask, multi_head, softmax
from .measured import as_if, factors, heads_moved, holes, leak, parts, records, row_sums, sums

PROPERTIES = (repeats, records, as_if, sums, holes, leak, factors, heads_moved, touches, parts, easier, row_sums)


def symptom(subject: Subject, properties: tuple[Callable[[Case], Found], ...], calls: list[Call], student: Any) -> str | None:
    """One sentence for each kind of fault, two at most, that holds on all the calls with that fault."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            calls = sorted(calls, key=lambda call: call.cost)  # the first case is asked the most
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
    """The call as a case, if its answer is arrays and any of it is wrong.

    Raises LookupError where the oracle does not know what is due: a student's workspace has only a table in its place.
    """
    case = Case(subject, call, student)
    try:
        random = call.training and "weights" in subject.labels and case.given.get("dropout")
        return case if not call.seen.error and not random and case.got and case.faults else None
    except LookupError:
        raise
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
    "numpy_attention.softmax": Subject(("x",), ("weights",), softmax),
    "numpy_attention.attention": Subject(QKV, PAIR, attention),
    "numpy_attention.MultiHeadAttention": Subject(("x", "mask"), PAIR, multi_head),
    "torch_attention.attention": Subject(QKV, PAIR, attention),
    "torch_attention.causal_mask": Subject(("n_q", "n_k", "device"), ("mask",), causal_mask),
    "torch_attention.MultiHeadAttention": Subject(("x", "mask"), PAIR, multi_head),
    "torch_attention.efficient_mha": Subject((*QKV, "is_causal"), ("output",), attention),
    "grouped_query.grouped_query_attention": Subject(QKV, PAIR, attention),
    "grouped_query.GroupedQueryAttention": Subject(("x", "cache"), ("output", "cached k", "cached v"), multi_head),
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
