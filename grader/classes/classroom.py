"""`grader class`: a journal that survives everything, and what is made from it for gradebooks and for people."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..course import Course
from .discover import Found, discover, folder_names
from .workers import ClassError, Job, Order, Pool, dask, graded, grader_digest, local

JOURNAL = "results.jsonl"


class Journal:
    """A line a student, on the disk before the next one is graded. Only where each line stands is kept in memory."""

    def __init__(self, path: Path) -> None:
        self.path, self.places = path, dict[str, tuple[int, int]]()
        self.fingerprints: dict[str, str] = {}
        self.file = path.open("a+b")
        self.file.seek(0)
        start = 0
        for line in self.file:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that was torn off
                data = json.loads(line) if line.endswith(b"\n") else {}
                if data["status"] == "graded":  # what broke is tried again
                    self.fingerprints[data["student"]] = data["fingerprint"]
                    self.places[data["student"]] = (start, len(line))
            start += len(line)

    def keep(self, students: set[str]) -> None:
        """Forget every other line, on the disk as well. The lines are put in the order of the students."""
        self.places = {student: place for student, place in sorted(self.places.items()) if student in students}
        with _replacing(self.path) as file:
            for student, line in list(self.lines()):
                self.places[student] = (file.tell(), len(line))
                file.write(line)
        self.file.close()
        self.file = self.path.open("a+b")

    def append(self, student: str, data: Mapping[str, Any]) -> None:
        line = json.dumps({"student": student, **data}, ensure_ascii=False).encode() + b"\n"
        self.places[student] = (self.file.seek(0, os.SEEK_END), len(line))
        self.file.write(line)
        self.file.flush()
        os.fsync(self.file.fileno())

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Each student with the bytes of their line."""
        for student, (start, size) in self.places.items():
            self.file.seek(start)
            yield student, self.file.read(size)

    def close(self) -> None:
        self.file.close()

    def reports(self) -> Iterator[dict[str, Any]]:
        """Each line as data, one in memory at a time."""
        for _, line in self.lines():
            yield json.loads(line)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """A file that takes the place of `path` whole, or not at all."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def grade_class(
    folder: Path, out: Path, course: Course, tell: Callable[[int, int, Mapping[str, Any] | None], None],
    *, workers: int | None = None, address: str = "", seed: int | None = None, select: str = "", isolation: str | None = None,
    gpu: str = "auto",
) -> list[str]:  # fmt: skip
    """Grade a class into `out`. What was graded before and has not changed is kept.

    `tell(done, total, report)` hears of progress. Returns sentences to show. Raises ClassError, SubmissionError, GraderFailed.
    """
    if out.resolve() == folder.resolve() or out.resolve() in folder.resolve().parents:
        raise ClassError(f"{folder} would be mixed with the results: give --out a folder that does not hold it")
    found, aside = discover(folder, course, out)
    order = Order(str(course.root), grader_digest(course), course.seed if seed is None else seed, select, isolation, gpu)
    try:
        with _alone_in(out), contextlib.closing(Journal(out / JOURNAL)) as journal:
            _refuse_another(journal, order, out)
            same = _same(found, journal, order, course)
            total, kept = len(found), len(same)
            tell(kept, total, None)
            pool, width = _pool(address, workers, total - kept)
            jobs = (
                _job(item, course) for item in found if item.student not in same
            )  # read when due: a class may not fit in memory
            with contextlib.closing(graded(jobs, order, pool, width, pool if address else local(1))) as results:
                for done, (job, data) in enumerate(results, kept + 1):
                    notes = [*job.notes, *data["notes"]]
                    journal.append(job.submission.name, {**data, "notes": notes, "fingerprint": job.fingerprint(order)})
                    tell(done, total, data)
            journal.keep({item.student for item in found})
            noted = _publish(journal, found, out, course)
    except OSError as error:
        raise ClassError(
            f"{error.filename or out} can't be written or reached: {(error.strerror or str(error)).lower()}"
        ) from None
    sentences = [f"left aside, as they name no student: {', '.join(aside)}"] if aside else []
    return sentences + [f"{noted} with a note, such as a file that can't be read: look at these first"] * bool(noted)


@contextlib.contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Make the folder, and hold it: two at work in one folder would grade everybody twice."""
    out.mkdir(parents=True, exist_ok=True)
    if os.name == "nt":
        yield
        return
    import fcntl

    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ClassError(f"another grader is at work in {out}") from None
    finally:
        os.close(descriptor)


def _job(item: Found, course: Course) -> Job:
    return Job(item.submission(course.modules), item.notes)


def _refuse_another(journal: Journal, order: Order, out: Path) -> None:
    """A selection does not take the place of results that another one has given: columns would be lost."""
    others = {fingerprint.partition(" ")[2] for fingerprint in journal.fingerprints.values()} - {order.select}
    if order.select and others:
        held = f"-k {min(others)!r}" if min(others) else "all exercises"
        raise ClassError(f"{out} holds the results of {held}, and -k {order.select!r} would replace them: give it another --out")


def _same(found: list[Found], journal: Journal, order: Order, course: Course) -> set[str]:
    """The students whose lines are still right; the journal forgets all others."""
    same = {item.student for item in found if journal.fingerprints.get(item.student) == _job(item, course).fingerprint(order)}
    journal.keep(same)
    return same


def _pool(address: str, workers: int | None, left: int) -> tuple[Pool, int]:
    if address and left:
        pool, width = dask(address)
        return pool, 2 * max(width, 1)
    workers = max(1, min(workers or os.cpu_count() or 1, left))
    return local(workers), workers + 1  # one waits, so that nobody waits for it


def _publish(journal: Journal, found: list[Found], out: Path, course: Course) -> int:
    """Everything that is made from the journal: for gradebooks, for the instructor, and for each student. How many have notes."""
    from ..formats import classpage, csv, html
    from .similar import Similar

    folders = folder_names(item.student for item in found)
    hints = {exercise.name: exercise.hints for exercise in course.exercises}
    page = classpage.Class(course.title, [exercise.name for exercise in course.exercises])
    for data in journal.reports():
        place = out / folders[data["student"]]
        place.mkdir(exist_ok=True)
        page.add(data, f"{place.name}/report.html")
        report = {key: value for key, value in data.items() if key not in ("student", "fingerprint")}
        _write(place / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        _write(place / "report.html", html.page(report, hints))
    page.exercises = [name for name in page.exercises if any(name in student.cells for student in page.students)]
    similar = Similar([path.read_text(encoding="utf-8") for path in sorted(course.stubs.glob("*.py"))])
    for item in found:
        similar.add(item.student, item.submission(course.modules).sources.values())
    _write(out / "class.html", classpage.classpage(page, similar.pairs()))
    ids = {item.student: item.id for item in found}
    for name, text in csv.gradebooks(page, ids).items():
        _write(out / name, text)
    return sum(bool(student.notes) for student in page.students)


def _write(path: Path, text: str) -> None:
    """Whole or not at all. It is not waited for the disk: what is lost with the power is made again from the journal."""
    data, beside = text.encode(), path.with_name(f".{path.name}.new")
    if not path.is_file() or path.read_bytes() != data:
        beside.write_bytes(data)
        beside.replace(path)
