"""The report as one page: it loads nothing, runs no script, and escapes everything that came from a student."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..report import Report
from .json import as_data


def html(report: Report) -> str:
    """The page of one submission."""
    return page(as_data(report), {exercise.name: exercise.hints for exercise in report.exercises})


def page(report: Mapping[str, Any], hints: Mapping[str, Sequence[str]]) -> str:
    """The page of a report as plain data, such as a line of a journal; `hints` by exercise."""
    return render("report.html.j2", report=report, hints=hints)


def render(template: str, **values: Any) -> str:
    """A template of ours, with a policy that lets the browser take its own style and script and nothing else."""
    return environment().get_template(template).render(values)


@functools.cache
def environment() -> Environment:
    """Every value is escaped; a name that is not there is an error."""
    loader = PackageLoader("grader", "formats/templates")
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["source"] = lambda name: loader.get_source(made, name)[0]
    made.globals["digest"] = lambda text: base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode()
    made.filters["percent"] = percent
    made.filters["points"] = lambda value: f"{value:.2f}".rstrip("0").rstrip(".")
    return made


def percent(score: float, max_score: float) -> int:
    """Rounded down, so that 100 means everything."""
    return int(100 * score / max_score + 1e-9) if max_score else 0
