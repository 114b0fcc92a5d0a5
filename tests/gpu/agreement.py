"""The lesson's functions beside each of torch's kernels on one device: how far off they are. Needs torch and NumPy."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from checks import inputs, parity, torch

Row = dict[str, Any]


def rows(device: str) -> Iterator[Row]:
    """A row for each exercise, case, dtype and kernel: how far off, where 1 is allowed, or why it was not compared."""
    for exercise, cases in parity.CASES.items():
        for dtype in parity.DTYPES:
            for case in cases:
                start = time.perf_counter()
                for row in _case(exercise, case, dtype, device):
                    yield {"exercise": exercise, "case": case.name, "dtype": dtype, **row}
                print(f"{exercise:24} {case.name:24} {dtype:9} {time.perf_counter() - start:5.1f} s", flush=True)


def _case(exercise: str, case: parity.Case, dtype: str, device: str) -> Iterator[Row]:
    rng = np.random.default_rng(2017)
    hidden = case.hidden(rng, device)
    leaves, formula, call = (
        _layer(case, rng, dtype, device) if exercise == "MultiHeadAttention" else _heads(exercise, case, rng, dtype, device)
    )
    shape = leaves["x"].shape if "x" in leaves else (case.batch, case.heads, case.n_q, case.d_v)
    upstream = inputs.tensor(inputs.values(rng, *shape), dtype).to(device)
    due = parity.dues(formula, case, hidden, leaves, upstream)
    output = call(hidden)
    back = torch.autograd.grad(output, list(leaves.values()), upstream) if case.gradients else ()
    found = [output.detach(), *back]
    yield {"kernel": "the formula in float64", "off": _off(found, due.reference, due.slack)}
    for kernel, wanted in due.kernels.items():
        yield {"kernel": kernel, "off": _off(found, wanted, [2 * slack for slack in due.slack])}
    for kernel, reason in due.refused.items():
        yield {"kernel": kernel, "not_applicable": reason}
    for kernel, off in due.far.items():
        yield {"kernel": kernel, "itself_off": off}


def _heads(
    exercise: str, case: parity.Case, rng: Any, dtype: str, device: str
) -> tuple[dict[str, Any], Any, Callable[[Any], Any]]:
    leaves = dict(zip("qkv", case.qkv(rng, dtype, device), strict=True))
    if exercise == "efficient_mha":
        fused = _lesson("torch_attention").efficient_mha

        def call(hidden: Any) -> Any:
            return fused(*leaves.values(), None if case.triangle_alone else hidden, is_causal=case.causal)

    else:
        module = "torch_attention" if exercise == "attention" else "grouped_query"
        function = getattr(_lesson(module), exercise)

        def call(hidden: Any) -> Any:
            return function(*leaves.values(), hidden)[0]

    return leaves, parity.heads_alone, call


def _layer(case: parity.Case, rng: Any, dtype: str, device: str) -> tuple[dict[str, Any], Any, Callable[[Any], Any]]:
    d_model = case.heads * case.d_k
    x = parity.leaf(inputs.values(rng, case.batch, case.n_q, d_model), dtype, device)
    mha = _lesson("torch_attention").MultiHeadAttention(d_model, case.heads)
    inputs.load(mha, inputs.matrices(rng, d_model))
    mha.to(device, getattr(torch, dtype))
    return {"x": x, **dict(mha.named_parameters())}, parity.multi_head(case.heads), lambda hidden: mha(x, hidden)[0]


def _off(found: list[Any], wanted: list[Any], slack: list[float]) -> float:
    return max(parity.apart(a, b) / allowed for a, b, allowed in zip(found, wanted, slack, strict=True))


def _lesson(name: str) -> Any:
    return importlib.import_module(name)


def table(found: list[Row]) -> str:
    """As Markdown: a row an exercise and kernel, the largest share in each dtype, and then who did not take what."""
    kernels = list(dict.fromkeys(row["kernel"] for row in found))
    lines = [f"| | beside | {' | '.join(parity.DTYPES)} |", f"|---|---|{'---|' * len(parity.DTYPES)}"]
    for exercise in parity.CASES:
        for kernel in kernels:
            cells = []
            for dtype in parity.DTYPES:
                mine = [row for row in found if (row["exercise"], row["kernel"], row["dtype"]) == (exercise, kernel, dtype)]
                offs = [row["off"] for row in mine if "off" in row]
                cells.append(f"{max(offs):.2f} ({len(offs)} of {len(mine)} cases)" if offs else "not applicable")
            lines.append(f"| {exercise} | {kernel} | {' | '.join(cells)} |")
    reasons: dict[tuple[str, str], int] = {}
    for row in found:
        if reason := row.get("not_applicable") or ("is itself further off than is allowed" if "itself_off" in row else ""):
            reasons[row["kernel"], reason] = reasons.get((row["kernel"], reason), 0) + 1
    return "\n".join([*lines, "", *(f"- {kernel}, {count} cases: {why}" for (kernel, why), count in reasons.items())])
