"""The result of one exercise inside a notebook: HTML without scripts or outside resources, and the same as text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ..report import Check, Report
from .escape import printable
from .words import told

MOST = 10  # rows and columns of a picture
SIGNS = {"passed": "✓", "failed": "✗", "crashed": "✗", "todo": "○", "blocked": "○", "skipped": "–", "broken": "!"}
COLOURS = {"passed": "#2e9e5b", "failed": "#d64545", "crashed": "#d64545", "todo": "#c28a00", "blocked": "#c28a00"}


def text(report: Report, printed: str) -> str:
    """A line for each check, then the first cause."""
    lines = [f"{SIGNS[check.status]} {check.title}: {check.status}" for check in report.checks]
    first = _first(report)
    if first is not None:
        lines += ["", told(first), *_more(report, first)]
    return "\n".join(lines + ([f"It printed: {printable(printed)}"] if printed and first is not None else []))


def sentence(words: str) -> str:
    """One sentence."""
    return f"<p>{escape(words)}</p>"


def html(report: Report, pictures: Mapping[str, Any], printed: str) -> str:
    """The same, with a picture of what came and what was due where two arrays were compared."""
    first = _first(report)
    status = first.status if first else "passed"
    name = escape(report.checks[0].exercise) if report.checks else ""
    passed = sum(check.status == "passed" for check in report.checks)
    head = f"<p><b>{name}</b>: {_badge(status)} <span>{passed} of {len(report.checks)} checks pass</span></p>"
    rows = "".join(f"<li>{_badge(check.status)} {escape(check.title)}</li>" for check in report.checks)
    body = f'<ul style="list-style:none;padding-left:0;margin:.4em 0">{rows}</ul>'
    if first is not None:
        said = "\n".join([f"{first.title}: {first.status}", told(first), *_more(report, first)])
        print_ = _paragraph(f"It printed: {printable(printed)}") if printed else ""
        body = _paragraph(said) + _picture(pictures.get(first.id)) + print_ + body
    colour = COLOURS.get(status, "#888")
    return f'<div style="border-left:4px solid {colour};padding:.2em 1em;max-width:60em">{head}{body}</div>'


def _first(report: Report) -> Check | None:
    """The check that tells most: one that the grader broke in, or the first in trouble."""
    broken = [check for check in report.checks if check.status == "broken"]
    return next(iter(broken), report.exercises[0].trouble if report.exercises else None)


def _more(report: Report, first: Check) -> list[str]:
    """A hint of the course's where no mistake is recognised."""
    hints = report.exercises[0].hints
    hinted = first.mistake is not None or first.follows or first.status in ("blocked", "broken")
    return [] if hinted or not hints else [f"Hint: {hints[0]}"]


def _badge(status: str) -> str:
    return f'<span style="color:{COLOURS.get(status, "#888")};font-weight:600">{SIGNS[status]} {status}</span>'


def _paragraph(words: str) -> str:
    return f'<p style="white-space:pre-wrap;margin:.4em 0">{escape(words)}</p>'


def _picture(seen: Any) -> str:
    """Both arrays as tables of coloured cells: of many axes the last two, of long ones the part around the first wrong value."""
    if seen is None or seen[0].ndim == 0:
        return ""
    got, due, right = (np.atleast_2d(array) for array in seen)
    at = np.argwhere(~right)[0]
    outer = tuple(int(i) for i in at[:-2])
    rows, columns = (slice(max(0, int(i) - MOST + 1), max(MOST, int(i) + 1)) for i in at[-2:])
    got, due, right = (array[outer][rows, columns] for array in (got, due, right))
    part = ", ".join([*map(str, outer), *(f"{part.start}:{part.start + MOST}" for part in (rows, columns))])
    finite = np.concatenate([array[np.isfinite(array)] for array in (got, due)])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    tables = (_table(name, array, right, low, high) for name, array in (("yours", got), ("due", due)))
    return f'<div style="display:flex;gap:2em;flex-wrap:wrap" aria-label="the part [{part}]">{"".join(tables)}</div>'


def _table(name: str, array: Any, right: Any, low: float, high: float) -> str:
    pairs = (zip(values, fine, strict=True) for values, fine in zip(array, right, strict=True))
    body = "".join(f"<tr>{''.join(_value(*pair, low, high) for pair in row)}</tr>" for row in pairs)
    return f'<table style="border-collapse:separate;border-spacing:2px"><caption>{name}</caption>{body}</table>'


def _value(value: float, fine: bool, low: float, high: float) -> str:
    """A number on a blue that grows with it; a wrong one has a red frame."""
    share = (value - low) / (high - low) if np.isfinite(value) and high > low else 0.0
    frame = "transparent" if fine else COLOURS["failed"]
    style = f"background:rgba(66,120,200,{0.08 + 0.6 * share:.2f});border:2px solid {frame};padding:.1em .4em;text-align:right"
    return f'<td style="{style}">{value:.3g}</td>'
