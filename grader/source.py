"""What a student's source says without being run: which names an exercise's code reaches."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from .course import Rule
from .notebooks import UNREADABLE, parse

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HEAVY = {  # no further on a line than anybody writes: a million bytes of "import" must not take the square of that
    module: re.compile(rb"""\b(?:from|import)\s[^\n]{0,99}\b%b\b|["']%b\b""" % (name, name))
    for module, name in (("torch", b"torch"), ("matplotlib.pyplot", b"matplotlib"))
}
_parsed = functools.lru_cache(maxsize=16)(ast.parse)


def rule_broken(source: bytes, function: str, rule: Rule) -> str | None:
    """One sentence when `function` in `source` reaches a forbidden name or no required one; None when the rule holds.

    A speed bump: it reads names, aliases and strings, through the helpers of the same file. What can't be parsed breaks no rule.
    """
    names = names_reached(source, function)
    if names is None:
        return None
    own = _outline(source)[0]  # a function of the student's may have any name
    reached = {name.removeprefix(".") for name in names if name not in own}
    for name in rule.forbid:
        if name in reached:
            return f"{function} must not call {name}: write the formula out"
    if rule.require and "NotImplementedError" not in reached and not reached.intersection(rule.require):
        return f"{function} must call {' or '.join(rule.require)}: that is what this exercise is about"
    return None


def heavy_imports(source: bytes) -> set[str]:
    """The modules slow to import that a file or a notebook may import. When unsure it does: that costs time, and nothing else."""
    return {module for module, pattern in _HEAVY.items() if pattern.search(source)}


@functools.lru_cache(maxsize=64)  # every check of an exercise asks
def names_reached(source: bytes, function: str) -> frozenset[str] | None:
    """Every name, .attribute and .string that `function` uses, itself or through other definitions of its module.

    None when the module can't be parsed or defines no such function.
    """
    try:
        definitions, imports = _outline(source)
        return _closure(function, definitions, imports) if function in definitions else None
    except UNREADABLE:
        return None


@functools.lru_cache(maxsize=16)
def _outline(source: bytes) -> tuple[Mapping[str, list[ast.AST]], Mapping[str, str]]:
    """What makes each name of a module, its last definition and what is assigned to it; and what it imports, by its new names."""
    tree, imports = parse(source), list[ast.alias]()
    definitions: dict[str, list[ast.AST]] = {}
    for node in (*ast.walk(tree), *tree.body):  # an inner definition's name is the student's own too
        if isinstance(node, _DEFINITIONS):
            definitions[node.name] = [node]
        elif isinstance(node, ast.ImportFrom):
            imports += node.names
    for given in (node for node in tree.body if isinstance(node, ast.Assign)):
        for target in (target for target in given.targets if isinstance(target, ast.Name)):
            definitions.setdefault(target.id, []).append(given.value)
    return definitions, {alias.asname or alias.name: f".{alias.name}" for alias in imports}


def _closure(function: str, definitions: Mapping[str, list[ast.AST]], imports: Mapping[str, str]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [function]
    while waiting:
        new = {imports.get(name, name) for node in definitions[waiting.pop()] for name in _names(node)}
        new |= {name[1:] for name in new if name.startswith(".") and name[1:] in definitions}
        new -= reached
        reached |= new
        waiting.extend(new & definitions.keys())
    return frozenset(reached)


def _names(node: ast.AST) -> Iterator[str]:
    """Names below `node`, and with a dot attributes, imported names and short strings. A docstring is longer than any name."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield f".{child.attr}"
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.isidentifier():
            yield f".{child.value}"
        elif isinstance(child, ast.alias):
            yield f".{child.name.rpartition('.')[2]}"


def loop_around(source: bytes, line: int, kinds: tuple[type[ast.While] | type[ast.For], ...]) -> int | None:
    """The first line of the outermost loop of these kinds around a line, in the function that the line is in."""
    around = [node for node in _blocks(source) if node.lineno <= line <= (node.end_lineno or 0)]
    inside = max((node.lineno for node in around if isinstance(node, _DEFINITIONS)), default=0)
    return min((node.lineno for node in around if isinstance(node, kinds) and node.lineno >= inside), default=None)


@functools.lru_cache(maxsize=16)  # a deep way to a loop asks a hundred times
def _blocks(source: bytes) -> Sequence[ast.stmt]:
    """The loops, functions and classes of a file; none where it can't be parsed."""
    try:
        return [node for node in ast.walk(parse(source)) if isinstance(node, (ast.While, ast.For, *_DEFINITIONS))]
    except UNREADABLE:
        return []


@functools.lru_cache(maxsize=64)
def made_of(source: bytes, function: str) -> tuple[bytes, ...] | None:
    """The text of `function`, of the definitions that it reaches and of every other statement; None where they can't be told."""
    reached, lines = names_reached(source, function), source.splitlines()
    try:
        body = _parsed(source).body
    except UNREADABLE:  # of a notebook it is enough that one cell is no Python
        return None
    if reached is None:
        return None
    nodes = [node for node in body if not isinstance(node, _DEFINITIONS) or node.name in {function, *reached}]
    starts = (min(item.lineno for item in (node, *getattr(node, "decorator_list", ()))) for node in nodes)
    return tuple(b"\n".join(lines[start - 1 : node.end_lineno]) for start, node in zip(starts, nodes, strict=True))
