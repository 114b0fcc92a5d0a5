"""`grader release`: what each audience gets, as files by their paths. One module an audience, with one function `files`."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from ..course import Course

AUDIENCES = ("students", "nbgrader", "gradescope", "github")
Files = dict[str, bytes]  # by path with forward slashes, relative to the destination
ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


class ReleaseError(Exception):
    """A release can't be made; the message is one sentence."""


def release(course: Course, audience: str) -> Files:
    """The files that `audience` gets. Raises ReleaseError, and BuildError for a faulty solution."""
    files: Callable[[Course], Files] = import_module(f"{__name__}.{audience}").files
    return files(course)


def write(files: Mapping[str, bytes], destination: Path) -> None:
    """Write files into a new or empty folder, or into a new zip when `destination` ends in .zip.

    What begins with `#!` can be executed. Raises ReleaseError when something is there already.
    """
    refuse_taken(destination)
    if destination.suffix == ".zip":
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.write_bytes(zipped(files))
        return
    for name, data in files.items():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(_mode(data))


def refuse_taken(destination: Path) -> None:
    """Raise ReleaseError when something is there already, other than an empty folder for files, and for other archives."""
    if destination.name.endswith(ARCHIVES):
        raise ReleaseError(f"{destination} can't be made: a folder or a .zip was due")
    if destination.exists() and (destination.suffix == ".zip" or not destination.is_dir() or any(destination.iterdir())):
        raise ReleaseError(f"{destination} is there already: give a new name, or remove it first")


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of the files: the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, (0o100000 | _mode(files[name])) << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def _mode(data: bytes) -> int:
    return 0o755 if data.startswith(b"#!") else 0o644
