"""Rules read from the syntax tree: through aliases, helpers and strings, and never from prose."""

from __future__ import annotations

import pytest

from grader.course import Rule
from grader.source import heavy_imports, made_of, rule_broken

FORBID = Rule(forbid=("fused",))
REQUIRE = Rule(require=("fused",))


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    return F.fused(x)",
        "from m import fused as g\ndef f(x):\n    return g(x)",
        "g = F.fused\ndef f(x):\n    return g(x)",
        "def f(x):\n    return getattr(F, 'fused')(x)",
        "def f(x):\n    return helper(x)\ndef helper(x):\n    return F.fused(x)",
        "def f(x):\n    from m import fused\n    return fused(x)",
        "class f:\n    def forward(self, x):\n        return F.fused(x)",
        "def fused(x):\n    return F.fused(x)\ndef f(x):\n    return fused(x)",
        "from m import fused\ndef f(x):\n    return fused(x)",
        "g = partial(F.fused, 0)\ndef f(x):\n    return g(x)",
        "def f(x):\n    return F.fused(x)\nf = timed(f)",
    ],
)
def test_a_name_is_found_however_it_is_reached(source: str) -> None:
    assert "must not call fused" in (rule_broken(source.encode(), "f", FORBID) or "")
    assert rule_broken(source.encode(), "f", REQUIRE) is None


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    '''Never call fused here: it is forbidden.'''\n    return x",
        "def g(x):\n    return F.fused(x)\ndef f(x):\n    return x",
        "import fused\ndef f(x):\n    return x  # fused",
        "def fused(x):\n    return x\ndef f(x):\n    return fused(x)",
        "def f(x):\n    def fused():\n        return x\n    return fused()",
    ],
)
def test_prose_and_other_functions_break_no_rule(source: str) -> None:
    assert rule_broken(source.encode(), "f", FORBID) is None
    assert "must call fused" in (rule_broken(source.encode(), "f", REQUIRE) or "")


@pytest.mark.parametrize(
    "source", ["def f(:", "x = 1", "def f(x):\n    raise NotImplementedError('f')", "-" * 90_000 + "1", "(" * 300]
)
def test_what_cannot_be_judged_breaks_no_rule(source: str) -> None:
    assert rule_broken(source.encode(), "f", REQUIRE) is None


def test_what_a_function_is_made_of_can_not_be_told_beside_a_cell_that_is_no_python() -> None:
    cells = b"# %% cell 1\ndef f(x):\n    return x\n# %% cell 2\n"
    assert made_of(cells, "f") == (b"def f(x):\n    return x",)
    assert made_of(cells + b"def g(:\n", "f") is None


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("from torch import nn", {"torch"}),
        ("def g():\n    import numpy, torch.nn as nn", {"torch"}),
        ("__import__('torch')", {"torch"}),
        ('{"a": ["import torch\\n"]}', {"torch"}),
        ("import torch\nfrom matplotlib import pyplot", {"torch", "matplotlib.pyplot"}),
        ("# torch would do the same\nimport numpy as np\ntorches = 1", set()),
        ("import " * 140_000, set()),  # a second; hours when the whole line is looked through from each of them
    ],
)
def test_what_is_slow_to_import_is_seen_in_a_source(source: str, modules: set[str]) -> None:
    assert heavy_imports(source.encode()) == modules
