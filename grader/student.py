"""What `student` is in a student's own pytest: their module itself, so that breakpoints, prints and traces work."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from .confined.told import import_trouble, missing
from .course import Rule
from .judge import student_frames
from .notebooks import Cell, cells
from .source import rule_broken
from .submission import Submission
from .trouble import Frame, Trouble, raise_as


class Origin(Protocol):
    """Where the modules that checks call come from: this process, or a confined one.

    `files` maps the paths of a student's files in this process to the names to show.
    """

    files: dict[str, str]

    @property
    def gpu(self) -> tuple[str, str]:
        """The device for checks that ask for a GPU; or "", and why there is none."""

    def module(self, module: str, exercise: str, device: str = "") -> Any:
        """The student's module for a check of `exercise`: attributes are the student's functions and classes.

        Where its code runs, `device` is open, if it is not "".
        """


class StudentModule(ModuleType):
    """A student's module. What it lacks, or why it could not be imported, is told when an attribute is asked for."""

    trouble: Trouble | None = None
    broken: tuple[tuple[Cell, Trouble], ...] = ()  # cells of a notebook, and what each of them raised

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = [trouble for cell, trouble in self.broken if cell.defines(name)]
        raise_as(self.trouble or (found[-1] if found else missing(self.__name__, name)))


class InProcess:
    """The modules of a submission, imported into this process under their own names, and only those."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.files = {str(path): path.name for path in submission.paths.values()}
        self._modules: dict[str, StudentModule] = {}
        self._finder = _Finder(self)
        sys.meta_path.insert(0, self._finder)

    def close(self) -> None:
        """Forget the modules, so that another submission can be imported under the same names."""
        sys.meta_path.remove(self._finder)
        for name in self._modules:
            sys.modules.pop(name, None)

    @property
    def gpu(self) -> tuple[str, str]:
        import torch

        return ("cuda:0", "") if torch.cuda.is_available() else ("", "torch.cuda finds none on this machine")

    def module(self, module: str, exercise: str, device: str = "") -> StudentModule:
        if module not in self._modules:
            self._modules[module] = self._import(module)
        return self._modules[module]

    def _import(self, name: str) -> StudentModule:
        module = StudentModule(name)
        module.trouble = unavailable(self.submission, name)
        if module.trouble is not None:
            return module
        source, path = self.submission.sources[name], str(self.submission.paths[name])
        module.__file__ = path
        sys.modules[name] = module  # dataclasses look their module up there
        if parts := cells(name, source):
            module.broken = tuple(self._run(module, parts))
            return module
        try:
            exec(compile(source, path, "exec"), module.__dict__)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            del sys.modules[name]
            module = StudentModule(name)  # without the names that were defined before it broke
            module.trouble = import_trouble(f"{name}.py", trouble_raised(error, self.files))
        return module

    def _run(self, module: StudentModule, parts: tuple[Cell, ...]) -> Iterator[tuple[Cell, Trouble]]:
        """Run the cells of a notebook one by one, and give those that raised."""
        for cell in parts:
            self.files[cell.file] = cell.file
            linecache.cache[cell.file] = (len(cell.text), None, cell.text.splitlines(keepends=True), cell.file)
            try:
                exec(compile(cell.text, cell.file, "exec"), module.__dict__)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                yield cell, import_trouble(cell.file, trouble_raised(error, self.files))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets one exercise file import another (`from torch_attention import attention`) without touching sys.path."""

    def __init__(self, origin: InProcess) -> None:
        self.origin = origin

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name in self.origin.submission.sources else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = self.origin.module(spec.name, "")
        if module.trouble is not None:
            raise ImportError(module.trouble.message)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do: the origin has executed it."""


def unavailable(submission: Submission, module: str) -> Trouble | None:
    """Why a module of a submission can't even be imported: not handed in (which is no fault), or refused."""
    if module in submission.refused:
        return Trouble("import", "ImportError", submission.refused[module])
    if module not in submission.sources:
        return Trouble("missing", "AttributeError", f"{module}.py was not handed in")
    return None


def trouble_raised(error: BaseException, files: Mapping[str, str]) -> Trouble:
    """What a file or a cell raised while it was run, with the student's own lines."""
    frames = student_frames(error, files)
    if isinstance(error, SyntaxError) and error.filename is not None and error.filename in files:
        frames = (*frames, Frame(files[error.filename], error.lineno or 0, "<module>", (error.text or "").strip()[:200]))
        return Trouble("raised", type(error).__name__, error.msg, frames)
    return Trouble("raised", type(error).__name__, str(error), frames)


def enforce(submission: Submission, rules: Mapping[str, Rule], exercise: str) -> None:
    """Raise the trouble of a broken rule, read from the student's source (design decision 10)."""
    module, _, function = exercise.rpartition(".")
    rule, source = rules.get(exercise), submission.sources.get(module)
    sentence = rule_broken(source, function, rule) if rule and source else None
    if sentence:
        raise_as(Trouble("rule", "RuntimeError", sentence))
