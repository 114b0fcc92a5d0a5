"""A submission's modules inside the student's process: they came as bytes, and no other file of the submission exists."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import io
import linecache
import tokenize
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .notebooks import cells


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the exercise files to `import`."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self.sources = sources
        self.cells = {name: cells(name, source) for name, source in sources.items()}
        texts = {cell.file: cell.text for group in self.cells.values() for cell in group}
        texts |= {f"{name}.py": _text(source) for name, source in sources.items() if not self.cells[name]}
        for file, text in texts.items():
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        self.files = set(texts)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self, origin=f"{name}.py") if name in self.sources else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__file__ = f"{name}.py"
        for number in range(len(self.cells[name])):
            with contextlib.suppress(Exception):
                self.run(module, number)
        if not self.cells[name]:
            exec(compile(self.sources[name], f"{name}.py", "exec", dont_inherit=True), module.__dict__)

    def run(self, module: ModuleType, number: int) -> None:
        """Run one cell of a notebook."""
        cell = self.cells[module.__name__][number]
        exec(compile(cell.text, cell.file, "exec", dont_inherit=True), module.__dict__)


def _text(source: bytes) -> str:
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0]
        return source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        return source.decode("utf-8", "replace")
