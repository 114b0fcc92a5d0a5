"""Which files of a package some of its modules need: those that their import statements reach, read and never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def reached(root: Path, package: str, start: Iterable[str]) -> list[Path]:
    """The files of `package`, a folder in `root`, that the modules `start` need: their own, and all that they import.

    Names are dotted and begin with the package's. What is imported by a computed name is not seen: begin with it.
    """
    found: dict[str, Path] = {}
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        path = _file(root, name)
        if name not in found and path is not None and name.split(".")[0] == package:
            found[name] = path
            waiting += [name.rpartition(".")[0], *imports(path, name)]
    return sorted(found.values())


def beside(files: Iterable[Path]) -> list[Path]:
    """The data that belongs to these files: what is no Python in the folders of their packages."""
    folders = {path.parent for path in files if path.name == "__init__.py"}
    data = {path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    return sorted(path for path in data if _package(path) in folders)


def _package(path: Path) -> Path:
    return next(folder for folder in path.parents if (folder / "__init__.py").is_file())


def _file(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if name and file.is_file()), None)


def imports(path: Path, name: str = "") -> Iterator[str]:
    """The names that a file imports, or may; `name` is its own, for relative ones."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = name.split(".")[: (path.name == "__init__.py") - node.level or None] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
