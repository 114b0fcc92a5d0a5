"""Output formats: pure functions of a Report. A new one is a function in a file here and an entry in FORMATS."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..report import Report

FORMATS = ("text", "json", "markdown", "html", "junit", "gradescope", "github", "prairielearn", "csv")


def render(name: str, report: Report) -> str:
    """The report in the format `name`, ending in a newline. The format's module is imported only now."""
    function: Callable[[Report], str] = getattr(import_module(f"{__name__}.{name}"), name)
    return function(report)
