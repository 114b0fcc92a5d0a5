"""What a student's source says without being run: which names an exercise's code reaches."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping

from .course import Rule
from .notebooks import parse

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_parsed = functools.lru_cache(maxsize=16)(ast.parse)


def rule_broken(source: bytes, function: str, rule: Rule) -> str | None:
    """One sentence when `function` in `source` reaches a forbidden name or no required one; None when the rule holds.

    A speed bump: it reads names, aliases and strings, through the helpers of the same file. What can't be parsed breaks no rule.
    """
    reached = names_reached(source, function)
    if reached is None:
        return None
    for name in rule.forbid:
        if name in reached:
            return f"{function} must not call {name}: write the formula out"
    if rule.require and "NotImplementedError" not in reached and not reached.intersection(rule.require):
        return f"{function} must call {' or '.join(rule.require)}: that is what this exercise is about"
    return None


@functools.lru_cache(maxsize=64)  # every check of an exercise asks
def names_reached(source: bytes, function: str) -> frozenset[str] | None:
    """Every name, attribute and string that `function` uses, itself or through other definitions of its module.

    None when the module can't be parsed or defines no such function.
    """
    try:
        definitions, aliases = _outline(source)
        return _closure(function, definitions, aliases) if function in definitions else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=16)
def _outline(source: bytes) -> tuple[Mapping[str, ast.AST], Mapping[str, str]]:
    """The definitions at the top level of a module, and its new names for old ones."""
    tree = parse(source)
    return {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)}, dict(_aliases(tree))


def _closure(function: str, definitions: Mapping[str, ast.AST], aliases: Mapping[str, str]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [function]
    while waiting:
        new = {aliases.get(name, name) for name in _names(definitions[waiting.pop()])} - reached
        reached |= new
        waiting.extend(new & definitions.keys())
    return frozenset(reached)


def _names(node: ast.AST) -> Iterator[str]:
    """Names, attributes and short strings below `node`. A docstring is prose: it is longer than any name."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.isidentifier():
            yield child.value
        elif isinstance(child, ast.alias):
            yield child.name.rpartition(".")[2]


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """New names for old ones: `from m import name as new`, and `new = m.name` at the top level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            value = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            yield from ((target.id, value) for target in node.targets if isinstance(target, ast.Name))


@functools.lru_cache(maxsize=64)
def made_of(source: bytes, function: str) -> tuple[bytes, ...] | None:
    """The text of `function`, of the definitions that it reaches and of every other statement; None where they can't be told."""
    reached, lines = names_reached(source, function), source.splitlines()
    if reached is None:
        return None
    nodes = [node for node in _parsed(source).body if not isinstance(node, _DEFINITIONS) or node.name in {function, *reached}]
    starts = (min(item.lineno for item in (node, *getattr(node, "decorator_list", ()))) for node in nodes)
    return tuple(b"\n".join(lines[start - 1 : node.end_lineno]) for start, node in zip(starts, nodes, strict=True))
