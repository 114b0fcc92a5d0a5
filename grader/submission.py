"""Reading a submission: a folder, file or notebook becomes the bytes of its exercise modules; nothing else of it counts."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .course import HERE
from .notebooks import notebook_source

MAX_BYTES = 1_000_000  # a lesson's file has about 20,000
MAX_NOTEBOOK_BYTES = 10_000_000  # its pictures stand in it
MAX_FOLDERS = 1_000


class SubmissionError(Exception):
    """The submission can't be read at all; the message is one sentence for a person."""


class Refused(Exception):
    """One file of a submission can't be taken; the others still count."""


@dataclass(frozen=True)
class Submission:
    """The exercise modules of one student: sources by module, and a sentence for each file that can't be taken."""

    name: str
    sources: Mapping[str, bytes]
    refused: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, Path] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()  # notebooks that were not read, because a .py file of the same name stands beside them

    @property
    def notes(self) -> tuple[str, ...]:
        """What the one who handed it in should know before they wonder at a 0."""
        if not self.sources and not self.refused:
            return ("no exercise file was found in what was handed in",)
        return tuple(f"{name} was not graded: the .py file beside it was" for name in self.passed_over)


def read_submission(path: Path, modules: Sequence[str]) -> Submission:
    """Read the exercise files among `modules` from a folder, a .py file or a notebook.

    Raises SubmissionError when `path` is missing, unreadable or no such thing.
    """
    try:
        info = path.stat()
    except (OSError, ValueError) as error:
        raise SubmissionError(f"{path} can't be read: {_reason(error)}") from None
    if stat.S_ISDIR(info.st_mode):
        found = _files_in(path, modules) or _files_below(path, modules)
        notebooks = (file.with_suffix(".ipynb") for file in found.values() if file.suffix == ".py")
        over = tuple(notebook.name for notebook in notebooks if notebook.exists())
        return replace(collect(path.resolve().name, found), passed_over=over)
    if path.suffix not in (".py", ".ipynb"):
        raise SubmissionError(f"{path} is no submission: a folder (a zip unpacked), a .py file or a notebook (.ipynb) was due")
    module = module_named(path.stem, modules)
    if not module:
        raise SubmissionError(
            f"{path.name} is none of the exercise files ({', '.join(f'{name}.py' for name in modules)}, or .ipynb)"
        )
    submission = collect(path.stem, {module: path})
    if submission.refused and path.suffix == ".ipynb":
        raise SubmissionError(submission.refused[module])
    return submission


def _files_in(folder: Path, modules: Sequence[str]) -> dict[str, Path]:
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise SubmissionError(f"{folder} can't be read: {_reason(error)}") from None
    found = {}
    for module in modules:
        exact = [name for name in (f"{module}.py", f"{module}.ipynb") if name in names]  # .py wins
        named = [name for name in sorted(names) if name.endswith((".py", ".ipynb")) and module in name]
        if exact or len(named) == 1:  # a platform may have put the student's name before it
            found[module] = folder / (exact or named)[0]
    return found


def _files_below(folder: Path, modules: Sequence[str]) -> dict[str, Path]:
    """The exercise files of the folders inside, of each the least deep: a zip often holds a folder that holds everything.

    A course's own folder has no such: what lies below it are solutions, stubs and checks.
    """
    if (folder / HERE).is_file():
        return {}
    places, found = [folder], dict[str, Path]()
    for place in places:  # they grow on the way, so that the least deep come first
        with contextlib.suppress(OSError, SubmissionError), os.scandir(place) as entries:
            inside = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
            named = [Path(path) for path in inside if not Path(path).name.startswith((".", "__"))]
            places += named[: MAX_FOLDERS - len(places)]
            found = _files_in(place, modules) | found
    return found


def module_named(stem: str, modules: Sequence[str]) -> str:
    """The module that a file's stem means, if any: platforms put a student's name before it, people a `(1)` behind."""
    return next((module for module in modules if module in stem), "")


def collect(name: str, paths: Mapping[str, Path]) -> Submission:
    """A submission of these files, by their modules. What can't be taken is refused, and the others count."""
    sources: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for module, path in paths.items():
        try:
            sources[module] = read_source(path)
        except Refused as error:
            refused[module] = f"{path.name} {error}"
    return Submission(name, sources, refused, dict(paths))


def read_source(path: Path) -> bytes:
    """The Python source of one exercise file. Raises Refused with the rest of a sentence that begins with the file's name."""
    data = _read_regular(path)
    if path.suffix == ".ipynb":
        try:
            data = notebook_source(_utf8(data).encode())
        except (ValueError, RecursionError):
            raise Refused("is no Jupyter notebook: save it again from Jupyter") from None
        if len(data) > MAX_BYTES:
            raise Refused(f"holds more than {MAX_BYTES:,} bytes of code: hand in only the exercise's own code")
        return data
    if b"\0" in data:
        raise Refused("holds null bytes: it is no Python source. Save it as plain text")
    if b"coding" not in data[:200]:
        _utf8(data)
    return data


def size_limit(path: Path) -> int:
    """How many bytes of a file are read."""
    return MAX_NOTEBOOK_BYTES if path.suffix == ".ipynb" else MAX_BYTES


def _read_regular(path: Path) -> bytes:
    """The bytes of a regular file, opened so that a link or a pipe put in its place is refused and never waited for."""
    most = size_limit(path)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if path.is_symlink():
            raise Refused("is a symbolic link: hand in the file itself")
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Refused("is no regular file: hand in a plain text file")
        descriptor = os.open(path, flags)
    except OSError as error:
        raise Refused(f"can't be read: {_reason(error)}") from None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused(f"is larger than {most:,} bytes: hand in only the exercise's own code")
    return data


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"is not UTF-8 text (line {line}, byte 0x{data[error.start]:02x}): save it as UTF-8") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
