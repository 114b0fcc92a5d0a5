"""The solutions changed at one place after another: each change loses points, or stands here with its reason.

Tools that run a test command a mutant would take hours here; one pytest session an exercise takes seconds.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from grading import ROOT
from proof import Proven, prove

from grader.course import Course

# Each survivor changes nothing that was promised: the changed line, and why.
DEVICE, START = "on a CPU the default device is that of the inputs", "a draw that is not normal starts about as large"
THRESHOLD = "no check stands exactly on this threshold, where the number may be off by a rounding"
EQUIVALENT: dict[str, dict[str, str]] = {
    "numpy_attention.softmax": {
        "largest = np.where(largest == -np.inf, 1.0, largest)": "-inf minus any finite number is -inf",
        "return powers / np.where(total == 0.0, 2.0, total)": "0 / 2 is 0 as well",
        "with np.errstate():": "it only silences a warning",
    },
    "numpy_attention.MultiHeadAttention": {
        "self.W_Q, self.W_K, self.W_V, self.W_O = rng.standard_normal((4, d_model, d_model)) / (d_model * 0.5)": START,
    },
    "torch_attention.efficient_mha": {"future = causal_mask(n_q, n_k)": DEVICE},
    "grouped_query.GroupedQueryAttention": {"keys = torch.arange(k.shape[2])": DEVICE},
    "head_analysis.attention_entropy": {
        "return -(weights * logarithms).sum(axis=-2).mean(axis=-1)": "there are as many queries as keys",
        "logarithms = np.log(np.where(weights > 0, weights, 2))": "0 times log 2 is 0 as well",
    },
    "head_analysis.classify_head": {
        "if n >= 1 and np.diagonal(weights, offset=-1).mean() > 0.3:": "the mean of nothing is NaN, which is above nothing",
        "if n > 1 and np.diagonal(weights, offset=-1).mean() >= 0.3:": THRESHOLD,
        "return 'focused' if attention_entropy(weights[None])[0] <= 0.5 else 'broad'": THRESHOLD,
    },
    "head_analysis.extract_attention_patterns": {
        "attentions = model(**inputs).attentions": "the model is one that returns attentions",
        "return attentions[layer][0].numpy()": "nothing there has a gradient",
        "return attentions[layer][0].numpy(force=False)": "nothing there has a gradient",
    },
}

SYMMETRIC = ("transpose", "swapaxes")  # of two axes

SWAPS: dict[type, list[type]] = {
    **{ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.FloorDiv: [ast.Mult]},
    **{ast.Mod: [ast.FloorDiv], ast.Pow: [ast.Mult], ast.BitOr: [ast.BitAnd], ast.MatMult: [ast.Mult]},
    **{ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Gt: [ast.GtE, ast.Lt], ast.Lt: [ast.LtE, ast.Gt], ast.Is: [ast.IsNot]},
    **{ast.IsNot: [ast.Is], ast.And: [ast.Or], ast.Or: [ast.And]},
}


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, Any, str]]:
    """Every place of a module that can be changed: the node, what is put in its field, and the field."""
    for node in ast.walk(tree):
        for field in ("op", "ops"):
            old = getattr(node, field, None)
            first = old[0] if isinstance(old, list) and old else old
            for new in SWAPS.get(type(first), []):
                yield node, [new()] if isinstance(old, list) else new(), field
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, node.value + 1, "value"
        if isinstance(node, ast.Constant) and type(node.value) is bool:
            yield node, not node.value, "value"
        if isinstance(node, ast.Call):
            yield from ((node, node.keywords[:i] + node.keywords[i + 1 :], "keywords") for i in range(len(node.keywords)))
            alike = len({ast.unparse(argument) for argument in node.args[:2]}) < 2
            if not alike and getattr(node.func, "attr", "") not in SYMMETRIC:
                yield node, [node.args[1], node.args[0], *node.args[2:]], "args"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not):
            yield node, ast.UAdd() if isinstance(node.op, ast.Not) else ast.Not(), "op"


def inside(source: str, line: int) -> bool:
    """Whether a line stands between solution markers."""
    before = source.split("\n")[: line - 1]
    begun = [number for number, text in enumerate(before) if "BEGIN SOLUTION" in text]
    ended = [number for number, text in enumerate(before) if "END SOLUTION" in text]
    return bool(begun) and (not ended or ended[-1] < begun[-1])


def mutants(module: str, exercise: str) -> Iterator[tuple[str, Any]]:
    """The function or class of an exercise, changed at one place, with the changed line."""
    source = (ROOT / "solutions" / f"{module}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    owner = next(node for node in tree.body if getattr(node, "name", None) == exercise)
    places = [item for item in mutations(owner) if inside(source, getattr(item[0], "lineno", 0))]  # type: ignore[arg-type]
    for number, (node, new, field) in enumerate(places):
        old = getattr(node, field)
        setattr(node, field, new)
        line = next((text for text in ast.unparse(copy.deepcopy(_statement(owner, node))).split("\n")), "")
        code = ast.unparse(tree)
        setattr(node, field, old)
        name = f"<mutant {module}>"
        made = ModuleType(module)
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        exec(compile(code, name, "exec"), made.__dict__)
        yield f"{number}: {line}", getattr(made, exercise)


def _statement(owner: ast.AST, node: ast.AST) -> ast.AST:
    """The smallest statement around a node."""
    around = [item for item in ast.walk(owner) if isinstance(item, ast.stmt) and node in ast.walk(item)]
    return min(around, key=lambda item: sum(1 for _ in ast.walk(item)))


def exercises() -> list[str]:
    from grader.course import find_course

    return [exercise.name for exercise in find_course(ROOT).exercises]


def tried(course: Course, exercise: str) -> list[Proven]:
    """What became of the solution of an exercise, and then of its mutants."""
    module, _, function = exercise.partition(".")
    return prove(course, {}, exercise, [("unchanged", getattr(_right(module), function)), *mutants(module, function)])


@pytest.mark.parametrize("exercise", exercises())
def test_every_change_of_a_solution_loses_points(course: Course, exercise: str) -> None:
    found = tried(course, exercise)
    assert len(found) > 1 or exercise == "head_analysis.extract_attention_patterns"
    assert [check.message for check in found[0].lost] == []
    assert [one.name for one in found if one.broken] == []
    survivors = {one.name.partition(": ")[2] for one in found[1:] if not one.caught}
    assert survivors == set(EQUIVALENT.get(exercise, {})), f"{len(found) - 1} mutants"


def _right(module: str) -> ModuleType:
    made = ModuleType(module)
    exec((ROOT / "solutions" / f"{module}.py").read_text(encoding="utf-8"), made.__dict__)
    return made
