"""From a class's folder to one submission a student: folders, files, zips, nbgrader; exports of Canvas, Moodle, Gradescope."""

from __future__ import annotations

import calendar
import functools
import hashlib
import lzma
import os
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from ..course import Course
from ..formats.escape import printable
from ..submission import Refused, Submission, SubmissionError, module_named, read_source, size_limit

MAX_FILES, MAX_NAME = 2_000, 200
MAX_READ, MAX_DEPTH, MAX_MEMBERS = 20, 50, 20_000  # files that are read to choose among, folders in folders, entries of a zip
CODE, ZIP = (".py", ".ipynb"), ".zip"
COPY = r"[-_ ]?\(?(\d{0,3})\)?"  # what a browser or a platform puts behind the name of a later upload
CANVAS = re.compile(r"(?P<name>.+?)_(?P<late>LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)", re.DOTALL)
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)", re.DOTALL)
TAKEN = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.(csv|html|jsonl)", re.IGNORECASE)  # by Windows, and by our results
BROKEN_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, MemoryError, ValueError),
    RuntimeError,  # a password
)


@dataclass(frozen=True)
class Upload:
    """One file that a student handed in; `member` is its name inside the zip at `path`."""

    path: Path
    member: str
    name: str  # without what a platform put before it
    depth: int
    time: float
    late: bool = False

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def age(self) -> tuple[int, float, str]:
        """Grows with newer uploads."""
        number = re.search(rf"{COPY}$", self.stem)
        return int(number[1] or 0) if number else 0, self.time, f"{self.path}/{self.member}"

    def read(self) -> bytes:
        """The Python source. Raises Refused as `read_source` does."""
        if not self.member:
            return read_source(self.path)
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                if stat.S_ISLNK(archive.getinfo(self.member).external_attr >> 16):
                    raise Refused("is a symbolic link: hand in the file itself")
                data = file.read(size_limit(Path(self.name)) + 1)
        except (*BROKEN_ZIP, KeyError) as error:
            raise Refused(f"can't be unpacked: {error}") from None
        with tempfile.TemporaryDirectory() as folder:  # nothing of the member's name reaches the disk
            copy = Path(folder) / f"upload{PurePosixPath(self.name).suffix}"
            copy.write_bytes(data)
            return read_source(copy)


@dataclass(frozen=True)
class Found:
    """One student: the file that counts for each module, and what an instructor should know about it."""

    student: str
    id: str  # the platform's number for the student, or nothing
    chosen: Mapping[str, Upload]
    notes: tuple[str, ...] = ()
    unreadable: str = ""

    def submission(self, modules: Iterable[str]) -> Submission:
        """The submission as it is on disk now. What can't be read is refused, and told by the report.

        Raises SubmissionError when a file is gone that was there: nobody's score may hang on a disk that was unplugged.
        """
        sources: dict[str, bytes] = {}
        refused = dict.fromkeys(modules, self.unreadable) if self.unreadable else {}
        for module, upload in self.chosen.items():
            try:
                sources[module] = upload.read()
            except Refused as error:
                if not os.path.lexists(upload.path):
                    raise SubmissionError(f"{upload.path} is gone since the class was read") from None
                refused[module] = f"{printable(upload.name, MAX_NAME)} {error}"
        return Submission(self.student, sources, refused)


@dataclass(frozen=True)
class _Place:
    """An entry of the class's folder that belongs to a student."""

    path: Path
    rest: str  # a file's own name, without what a platform put before it
    late: bool = False
    time: float | None = None  # when the platform says that it was handed in


def discover(folder: Path, course: Course, out: Path) -> tuple[list[Found], list[str]]:
    """The students of a class by name, and the names of what was left aside. `out` is never looked into.

    Raises SubmissionError when the folder can't be read or holds no submission.
    """
    inner = folder / "submitted"
    try:
        entries = sorted((inner if inner.is_dir() else folder).iterdir())
    except OSError as error:
        raise SubmissionError(f"{folder} can't be read: {_reason(error)}{': unpack it first' * (folder.suffix == ZIP)}") from None
    places: dict[tuple[str, str], list[_Place]] = {}
    aside = []
    for entry in entries:
        if not entry.name.startswith((".", "__MACOSX")) and os.path.realpath(entry) != os.path.realpath(out):
            owned = list(_owners(entry, course))
            for owner, place in owned:
                places.setdefault(owner, []).append(place)
            aside += [] if owned else [printable(entry.name, MAX_NAME)]
    if not places:
        raise SubmissionError(f"{folder} holds no submission: a folder, a zip or a notebook a student was due")
    found = [_found(name, id, there, course) for (name, id), there in places.items()]
    return sorted(_distinct(found), key=lambda item: item.student), aside


def _owners(entry: Path, course: Course) -> Iterator[tuple[tuple[str, str], _Place]]:
    """The students (name and platform's number) to whom an entry of the class's folder belongs."""
    folder = entry.is_dir()
    if not folder and entry.suffix.lower() not in (*CODE, ZIP):
        return
    match = MOODLE.fullmatch(entry.name) or (None if folder else CANVAS.fullmatch(entry.name))
    if match:
        yield (match["name"], match["id"]), _Place(entry, match["rest"] or entry.name, bool(match.groupdict().get("late")))
    elif known := _gradescope(entry.parent).get(entry.name) if re.fullmatch(r"submission_\d+", entry.name) else None:
        when = known.get(":created_at")
        place = _Place(entry, "", time=when.timestamp() if isinstance(when, datetime) else None)
        for who in known.get(":submitters") or ():
            yield (str(who.get(":name") or who.get(":email") or entry.name), str(who.get(":sid") or "")), place
    elif name := entry.name if folder else _student_in(entry.stem, course):
        yield (name, ""), _Place(entry, entry.name)


def _student_in(stem: str, course: Course) -> str:
    """The student whom a single file's name tells: what stands before or behind the module's name, if anything does."""
    module = module_named(stem, course.modules)
    before, _, behind = stem.partition(module) if module else (stem, "", "")
    return before.rstrip(" _-.") or re.sub(rf"{COPY}$", "", behind).lstrip(" _-.")


@functools.lru_cache(maxsize=1)
def _gradescope(folder: Path) -> dict[str, Any]:
    """What Gradescope's export says of each submission; nothing where there is no such file."""
    import yaml

    try:
        text = (folder / "submission_metadata.yml").read_text(encoding="utf-8")
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return {key: value for key, value in data.items() if isinstance(value, dict)} if isinstance(data, dict) else {}


def _found(name: str, id: str, places: list[_Place], course: Course) -> Found:
    uploads: list[list[Upload]] = []
    troubles = []
    for place in places:
        try:
            uploads.append([replace(item, late=place.late, time=place.time or item.time) for item in _uploads(place)])
        except Refused as error:
            troubles.append(f"{printable(place.path.name, MAX_NAME)} {error}")
    chosen, notes = {}, list(troubles)
    for module, files in _by_module(uploads, course).items():
        newest = chosen[module] = max(files, key=lambda upload: upload.age)
        if len(files) > 1:
            shown = printable(newest.member or newest.path.name, MAX_NAME)
            notes.append(f"{module} was handed in {len(files)} times: the newest counts ({shown})")
        if newest.late:
            notes.append(f"{module} was handed in late")
    student = " ".join(printable(name, MAX_NAME).split()) or "nameless"
    return Found(student, printable(id, MAX_NAME), chosen, tuple(notes), "" if chosen else "; ".join(troubles))


def _by_module(places: list[list[Upload]], course: Course) -> dict[str, list[Upload]]:
    """The uploads of each module that are worth comparing by age: of each place the best named, of these the least deep."""
    worth: dict[str, list[Upload]] = {module: [] for module in course.modules}
    named = any(module_named(upload.stem, course.modules) for place in places for upload in place)
    for place in places:
        ranked: dict[str, list[tuple[tuple[bool, int, bool], Upload]]] = {}
        for upload in place if named else place[:MAX_READ]:
            module = module_named(upload.stem, course.modules) if named else _module_by_content(upload, course)
            exact = re.fullmatch(re.escape(module) + COPY, upload.stem) is not None
            ranked.setdefault(module, []).append(((exact, -upload.depth, upload.name.endswith(".py")), upload))
        for module in ranked.keys() & worth.keys():
            files = ranked[module]
            files = [pair for pair in files if 1 < len(files) <= MAX_READ and _begun(pair[1], module, course)] or files
            best = max(rank for rank, _ in files)
            worth[module] += (upload for rank, upload in files if rank == best)
    return {module: uploads for module, uploads in worth.items() if uploads}


def _begun(upload: Upload, module: str, course: Course) -> bool:
    """Whether more is done than in the lesson's own file: who worked in the notebooks hands in that one too."""
    todo = b"raise NotImplementedError"
    try:
        return upload.read().count(todo) < (course.stubs / f"{module}.py").read_bytes().count(todo)
    except (Refused, OSError):
        return True


def _module_by_content(upload: Upload, course: Course) -> str:
    """The module of which a file with another name defines the most exercises, and at least two."""
    try:
        defined = set(re.findall(r"^(?:def|class)\s+(\w+)", upload.read().decode("utf-8", "replace"), re.MULTILINE))
    except Refused:
        return ""
    counts = Counter(exercise.module for exercise in course.exercises if exercise.function in defined)
    return next((module for module, count in counts.most_common(1) if count > 1), "")


def _uploads(place: _Place) -> Iterator[Upload]:
    """Every Python file, notebook and zip's member of a place. Raises Refused when it can't be opened."""
    files = _walk(place.path) if place.path.is_dir() else [(place.path, place.rest, 0)]
    for path, name, depth in islice(files, MAX_FILES):
        if path.suffix.lower() in CODE:
            yield Upload(path, "", name, depth, path.lstat().st_mtime)
        elif path.suffix.lower() == ZIP:
            try:
                yield from _inside(path, depth)
            except BROKEN_ZIP as error:
                raise Refused(f"is no zip that can be opened: {error}") from None


def _walk(folder: Path) -> Iterator[tuple[Path, str, int]]:
    def refuse(error: OSError) -> NoReturn:
        raise Refused(f"can't be read: {_reason(error)}")

    for at, folders, names in os.walk(folder, onerror=refuse):
        deep = len(Path(at).parts) - len(folder.parts) >= MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith((".", "__")))
        yield from ((Path(at, name), name, len(Path(at).parts)) for name in sorted(names) if not name.startswith("."))


def _inside(path: Path, depth: int) -> Iterator[Upload]:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise Refused("is no regular file")
    with zipfile.ZipFile(path) as archive:
        members = [(item, PurePosixPath(item.filename)) for item in archive.infolist()[:MAX_FILES]]
        if len(archive.infolist()) > MAX_MEMBERS:
            raise Refused(f"holds more than {MAX_MEMBERS:,} files: hand in only the exercise files")
    members = [(item, at) for item, at in members if at.suffix in CODE and not re.search(r"(^|/)(__|\.\w)", item.filename)]
    top = min((len(at.parts) for _, at in members), default=0)  # most zips hold one folder that holds everything
    for item, at in members:
        year, month, *rest = item.date_time
        time = calendar.timegm((year, min(max(month, 1), 12), *rest))
        yield Upload(path, item.filename, at.name, depth + len(at.parts) - top, time)


def _distinct(found: list[Found]) -> Iterator[Found]:
    """No two students of the same name: the platform's number, or a count, tells them apart."""
    taken: set[str] = set()
    for item in sorted(found, key=lambda item: (item.student, item.id)):
        name, count = item.student, 1
        while name in taken:
            count += 1
            name = f"{item.student} ({item.id or count})" if count == 2 else f"{item.student} ({item.id} {count})"
        taken.add(name)
        yield replace(item, student=name)


def folder_names(students: Iterable[str]) -> dict[str, str]:
    """A folder's name for each student that is safe on every system and no one else's; a plain name stays as it is."""
    plain = {student: re.sub(r"[^\w .,()@+-]+", "_", student).strip(" .-")[:60].strip(" .") for student in students}
    shared = Counter(name.casefold() for name in plain.values())

    def safe(student: str) -> str:
        name = plain[student]
        if name == student and name and shared[name.casefold()] == 1 and not TAKEN.fullmatch(name):
            return name
        return f"{name or 'student'}-{hashlib.sha256(repr(student).encode()).hexdigest()[:8]}"

    return {student: safe(student) for student in plain}


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
