"""From a class's folder to one submission a student: folders, files, zips, nbgrader; exports of Canvas, Moodle, Gradescope."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from .course import Course
from .formats.escape import printable
from .submission import MAX_BYTES, Refused, Submission, SubmissionError, read_source

MAX_FILES, MAX_DEPTH, MAX_NAME = 2_000, 8, 200
SUFFIXES = (".py", ".ipynb", ".zip")
CANVAS = re.compile(r"(?P<name>.+?)_(?P<late>LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)", re.DOTALL)
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)", re.DOTALL)
BROKEN_ZIP = (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError, EOFError)  # RuntimeError: a password


@dataclass(frozen=True)
class Upload:
    """One file that a student handed in, on disk or inside a zip; `name` is what it is called without a platform's additions."""

    path: Path
    member: str  # inside the zip at `path`
    name: str
    depth: int
    time: float
    late: bool = False

    @property
    def age(self) -> tuple[int, float, str]:
        """Grows with newer uploads: the number that a platform or a browser puts behind a name, then the time."""
        number = re.search(r"[-_ ]\(?(\d{1,3})\)?$", PurePosixPath(self.name).stem)
        return int(number[1]) if number else 0, self.time, f"{self.path}/{self.member}"

    def read(self) -> bytes:
        """The Python source. Raises Refused as `read_source` does."""
        if not self.member:
            return read_source(self.path)
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                if stat.S_ISLNK(archive.getinfo(self.member).external_attr >> 16):
                    raise Refused("is a symbolic link: hand in the file itself")
                data = file.read(MAX_BYTES + 1)
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
        """The submission as it is on disk now. Never raises: what can't be read is refused, and told by the report."""
        sources: dict[str, bytes] = {}
        refused = dict.fromkeys(modules, self.unreadable) if self.unreadable else {}
        for module, upload in self.chosen.items():
            try:
                sources[module] = upload.read()
            except Refused as error:
                refused[module] = f"{printable(upload.name, MAX_NAME)} {error}"
        return Submission(self.student, sources, refused)


@dataclass(frozen=True)
class _Place:
    """Where something of a student's lies: a folder or a file right under the class's folder."""

    path: Path
    rest: str = ""  # a file's own name, without what a platform put before it
    late: bool = False
    time: float | None = None  # when the platform says that it was handed in


def discover(folder: Path, course: Course, out: Path) -> tuple[list[Found], list[str]]:
    """The students of a class by name, and the names of what was left aside. `out` is never looked into.

    Raises SubmissionError when the folder can't be read or holds no submission.
    """
    places: dict[tuple[str, str], list[_Place]] = {}
    aside = []
    for entry in _entries(folder / "submitted" if (folder / "submitted").is_dir() else folder):
        if entry.name.startswith((".", "__MACOSX")) or entry.resolve() == out.resolve():
            continue
        owned = list(_owners(entry, course))
        for owner, place in owned:
            places.setdefault(owner, []).append(place)
        if not owned:
            aside.append(printable(entry.name, MAX_NAME))
    if not places:
        raise SubmissionError(f"{folder} holds no submission: a folder, a zip or a notebook a student was due")
    found = [_found(name, id, there, course) for (name, id), there in places.items()]
    return sorted(_distinct(found), key=lambda item: item.student), aside


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise SubmissionError(f"{folder} can't be read: {(error.strerror or str(error)).lower()}") from None


def _owners(entry: Path, course: Course) -> Iterator[tuple[tuple[str, str], _Place]]:
    """The students (name and platform's number) to whom an entry of the class's folder belongs."""
    folder = entry.is_dir()
    if not folder and entry.suffix.lower() not in SUFFIXES:
        return
    known = _gradescope(entry.parent).get(entry.name) if folder and entry.name.startswith("submission_") else None
    match = MOODLE.fullmatch(entry.name) or (None if folder else CANVAS.fullmatch(entry.name))
    if known:
        when = known.get(":created_at")
        time = when.timestamp() if isinstance(when, datetime) else None
        for who in known.get(":submitters") or ():
            name, number = str(who.get(":name") or who.get(":email") or entry.name), str(who.get(":sid") or "")
            yield (name, number), _Place(entry, time=time)
    elif match:
        late = bool(match.groupdict().get("late"))
        yield (match["name"], match["id"]), _Place(entry, match["rest"] or entry.name, late)
    elif name := entry.name if folder else _student_in(entry.stem, course.modules):
        yield (name, ""), _Place(entry, entry.name)


def _student_in(stem: str, modules: Iterable[str]) -> str:
    """The student whom a single file's name tells: what stands before or behind the module's name, if anything does."""
    module = _module_in(stem, modules)
    before, _, behind = stem.partition(module) if module else (stem, "", "")
    return before.rstrip(" _-.") or re.sub(r"[-_ ]*\(?\d*\)?$", "", behind).lstrip(" _-.")


def _module_in(stem: str, modules: Iterable[str]) -> str:
    return next((module for module in modules if module in stem), "")


def _gradescope(folder: Path) -> dict[str, Any]:
    """What Gradescope's export says of each submission; nothing where there is no such file."""
    try:
        text = (folder / "submission_metadata.yml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    import yaml

    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
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
    if not chosen and not troubles:
        notes.append("no exercise file was found")
    return Found(" ".join(printable(name, MAX_NAME).split()) or "nameless", printable(id, MAX_NAME), chosen, tuple(notes), "" if chosen else "; ".join(troubles))


def _by_module(places: list[list[Upload]], course: Course) -> dict[str, list[Upload]]:
    """The uploads of each module that are worth comparing by age: of each place the best named, of these the least deep."""
    worth: dict[str, list[Upload]] = {}
    by_content = not any(_module_in(PurePosixPath(item.name).stem, course.modules) for place in places for item in place)
    for place in places:
        ranked: dict[str, list[tuple[tuple[bool, int, bool], Upload]]] = {}
        for upload in place:
            stem, suffix = PurePosixPath(upload.name).stem, PurePosixPath(upload.name).suffix.lower()
            module = _module_by_content(upload, course) if by_content else _module_in(stem, course.modules)
            exact = re.fullmatch(rf"{re.escape(module)}([-_ ]?\(?\d{{1,3}}\)?)?", stem) is not None
            if module:
                ranked.setdefault(module, []).append(((exact, -upload.depth, suffix == ".py"), upload))
        for module, files in ranked.items():
            best = max(rank for rank, _ in files)
            worth.setdefault(module, []).extend(upload for rank, upload in files if rank == best)
    return {module: worth[module] for module in course.modules if module in worth}


def _module_by_content(upload: Upload, course: Course) -> str:
    """The module of which a file with another name defines the most exercises, and at least two."""
    try:
        defined = set(re.findall(rb"^(?:def|class)\s+(\w+)", upload.read(), re.MULTILINE))
    except Refused:
        return ""
    counts = dict.fromkeys(course.modules, 0)
    for exercise in course.exercises:
        counts[exercise.module] += exercise.function.encode() in defined
    module = max(counts, key=lambda name: counts[name])
    return module if counts[module] > 1 else ""


def _uploads(place: _Place) -> Iterator[Upload]:
    """Every Python file, notebook and zip's member of a place. Raises Refused when it can't be opened."""
    if place.path.is_dir():
        for path, depth in _walk(place.path, 0):
            yield from _one(path, path.name, depth)
    else:
        yield from _one(place.path, place.rest, 0)


def _walk(folder: Path, depth: int) -> Iterator[tuple[Path, int]]:
    try:
        entries = sorted(folder.iterdir())[:MAX_FILES]
    except OSError as error:
        raise Refused(f"can't be read: {(error.strerror or str(error)).lower()}") from None
    for entry in entries:
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, depth + 1) if depth < MAX_DEPTH else ()
        elif entry.suffix.lower() in SUFFIXES:
            yield entry, depth


def _one(path: Path, name: str, depth: int) -> Iterator[Upload]:
    time = path.lstat().st_mtime
    if path.suffix.lower() != ".zip":
        yield Upload(path, "", name, depth, time)
        return
    try:
        if not path.is_file() or path.is_symlink():
            raise Refused("is no regular file")
        with zipfile.ZipFile(path) as archive:
            members = [item for item in archive.infolist()[:MAX_FILES] if not item.is_dir()]
    except BROKEN_ZIP as error:
        raise Refused(f"is no zip that can be opened: {error}") from None
    inside = [(item, PurePosixPath(item.filename)) for item in members]
    inside = [
        (item, at) for item, at in inside if at.suffix in SUFFIXES[:2] and not any(p.startswith((".", "__")) and p != ".." for p in at.parts)
    ]
    top = min((len(at.parts) for _, at in inside), default=0)  # most zips hold one folder that holds everything
    for item, at in inside:
        when = datetime(*(max(part, least) for part, least in zip(item.date_time, (1980, 1, 1, 0, 0, 0), strict=True)))  # type: ignore[arg-type]
        yield Upload(path, item.filename, at.name, depth + len(at.parts) - top, when.timestamp())


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
    import hashlib
    from collections import Counter

    students = list(students)
    plain = {student: re.sub(r"[^\w .,()@+-]+", "_", student).strip(" .")[:60].strip(" .") for student in students}
    lowered = Counter(name.casefold() for name in plain.values())
    windows = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)

    def safe(student: str) -> str:
        name = plain[student]
        ours = name.endswith((".csv", ".html", ".jsonl"))
        if (
            name == student
            and lowered[name.casefold()] == 1
            and not ours
            and not windows.fullmatch(name)
            and not name.startswith("-")
        ):
            return name
        digest = hashlib.sha256(os.fsencode(student) if student.isprintable() else repr(student).encode()).hexdigest()[:8]
        return f"{name.lstrip('-') or 'student'}-{digest}"

    return {student: safe(student) for student in students}
