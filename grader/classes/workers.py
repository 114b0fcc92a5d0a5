"""Grading many submissions at once: any executor maps `grade_one` over them, in processes that stay warm."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from multiprocessing import connection, get_context, queues
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .. import __version__
from ..course import Course, find_course
from ..formats.json import as_data
from ..grade import GraderFailed, grade_all
from ..report import Report
from ..submission import Submission


class ClassError(Exception):
    """The class can't be graded like this; the message is one sentence for a person."""


class CannotBegin(GraderFailed):
    """No submission at all can be graded like this: the message says why."""


@dataclass(frozen=True)
class Order:
    """How to grade, the same for a whole class. `grader` is the digest of what grades."""

    root: str
    grader: str
    seed: int
    select: str = ""
    isolation: str | None = None
    gpu: str = "auto"


@dataclass(frozen=True)
class Job:
    """One submission, and what an instructor should know about it."""

    submission: Submission
    notes: tuple[str, ...]

    def fingerprint(self, order: Order) -> str:
        """Changes when anything changes that the result depends on. It ends with the selection, so that it can be told."""
        parts = (self.submission.name, sorted(self.submission.sources.items()), sorted(self.submission.refused.items()))
        digest = hashlib.sha256(repr((parts, self.notes, replace(order, root=""))).encode("utf-8", "replace")).hexdigest()[:32]
        return f"{digest} {order.select}".strip()


def grader_digest(course: Course) -> str:
    """Changes with the engine, the checks, the mistakes and the course's settings."""
    digest = hashlib.sha256(__version__.encode())
    for folder in (Path(__file__).parents[1], course.visible.parent, course.hidden.parent, course.solutions / "mistakes"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    settings = repr((course.exercises, course.limits, course.rules, course.title))
    return hashlib.sha256(digest.digest() + settings.encode()).hexdigest()[:16]


class _Session:
    """One warm pytest session in a thread of its own, fed one submission at a time."""

    def __init__(self, order: Order) -> None:
        self.inbox: SimpleQueue[Submission | None] = SimpleQueue()
        self.outbox: SimpleQueue[Report | str] = SimpleQueue()
        self.order, self.began, self.ended = order, False, False
        threading.Thread(target=self._run, daemon=True).start()

    def _feed(self) -> Iterator[Submission]:
        self.began = True  # every check was collected, or nobody would ask
        while (submission := self.inbox.get()) is not None:
            yield submission

    def _run(self) -> None:
        try:
            course, order = find_course(Path(self.order.root)), self.order
            if grader_digest(course) != order.grader:
                raise CannotBegin(f"{platform.node()} has another version of the grader or the course")
            names = ("seed", "select", "isolation", "gpu")
            settings: dict[str, Any] = {name: getattr(order, name) for name in names}
            grade_all(self._feed(), course, lambda _, report: self.outbox.put(report), **settings)
            self.outbox.put("its session ended")
        except BaseException as error:  # whatever it is, somebody waits to hear of it
            self.outbox.put(str(error) or type(error).__name__)

    def grade(self, submission: Submission) -> Report:
        self.inbox.put(submission)
        result = self.outbox.get()
        if isinstance(result, Report):
            return result
        self.ended = True
        raise (GraderFailed if self.began else CannotBegin)(result)


_one_at_a_time = threading.Lock()  # a worker of Dask's has several threads
_sessions: list[_Session] = []  # the current one, if there is any


def grade_one(submission: Submission, order: Order) -> dict[str, Any]:
    """The report of one submission as plain data: what a worker does. Raises GraderFailed."""
    return as_data(report_of(submission, order))


def report_of(submission: Submission, order: Order) -> Report:
    """The report of one submission, from a session that stays warm for the next. Raises GraderFailed."""
    with _one_at_a_time:
        last = _sessions[-1] if _sessions else None
        if last is not None and last.order.grader != order.grader:
            raise CannotBegin("this process began with another version of the grader: start it again")
        if last is None or last.ended or last.order != order:
            if last is not None:
                last.inbox.put(None)
            _sessions[:] = [_Session(order)]
        return _sessions[-1].grade(submission)


Pool = Callable[[], AbstractContextManager[Executor]]


def local(workers: int) -> Pool:
    """Processes of this machine. They end when their pool is left in a hurry, and when its process is killed."""

    @contextmanager
    def pool() -> Iterator[Executor]:
        context = get_context("spawn")
        theirs, ours = context.Pipe(duplex=False)  # nothing is ever sent: it is there to be closed
        cores = context.SimpleQueue()
        for core in _cores(workers):
            cores.put(core)
        executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(theirs, cores))
        try:
            yield executor
        except BaseException:
            ours.close()
            raise
        finally:
            executor.shutdown(cancel_futures=True)
            ours.close()
            theirs.close()

    return pool


def _cores(workers: int) -> list[int]:
    """A processor for each worker and those whom it asks: to wake one elsewhere costs more than it gives.

    None where there are not enough, or where the system does not let us choose.
    """
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    start = os.getpid()  # two classes on one machine should not choose the same
    return [mine[(start + number) % len(mine)] for number in range(workers)] if workers <= len(mine) else []


def _begin(parent: connection.Connection, cores: queues.SimpleQueue[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to answer
    if not cores.empty():
        os.sched_setaffinity(0, {cores.get()})

    def watch() -> None:
        connection.wait([parent])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def dask(address: str) -> tuple[Pool, int]:
    """The workers of a Dask cluster, and how many submissions they grade at a time. Raises ClassError."""
    try:
        from distributed import Client

        client: Any = Client(address, timeout=5, set_as_default=False)  # type: ignore[no-untyped-call]
    except ImportError:
        raise ClassError("--dask needs the extra: pip install -e '.[instructor]'") from None
    except (OSError, ValueError) as error:
        raise ClassError(f"no Dask scheduler answers at {address} ({type(error).__name__})") from None

    @contextmanager
    def pool() -> Iterator[Executor]:
        with client, client.get_executor(pure=False) as executor:
            yield executor

    return pool, sum(client.nthreads().values())


def graded(jobs: Iterable[Job], order: Order, pool: Pool, width: int, alone: Pool) -> Generator[tuple[Job, dict[str, Any]]]:
    """Each job with its report, as they come. Who is lost with a worker is tried again, alone, and then told as broken.

    Raises CannotBegin.
    """
    lost: list[tuple[Job, BaseException]] = []
    for open_pool, at_a_time in ((pool, width), (alone, 1)):
        todo, lost = deque([iter(jobs)]), []
        while todo:  # a new pool each time that one broke
            with open_pool() as executor:
                for job, result in _flow(executor, todo, order, at_a_time):
                    if isinstance(result, dict):
                        yield job, result
                    else:
                        lost.append((job, result))
        jobs = [job for job, _ in lost]
        if not jobs:
            return
    for job, error in lost:
        yield job, _broken(job, order, str(error) or type(error).__name__)


Result = dict[str, Any] | BaseException


def _flow(executor: Executor, todo: deque[Iterator[Job]], order: Order, width: int) -> Iterator[tuple[Job, Result]]:
    """Keep `width` jobs under way. What is left when the pool breaks stays in `todo`, which is empty at the end."""
    waiting: dict[Future[dict[str, Any]], Job] = {}
    jobs = todo.popleft()
    whole = True
    while whole and (job := next(jobs, None)) is not None:
        try:
            waiting[executor.submit(grade_one, job.submission, order)] = job
        except BrokenExecutor:
            todo.append(chain([job], jobs))
            break
        while whole and len(waiting) >= width:
            for done, result in _done(waiting):
                whole = whole and not isinstance(result, BrokenExecutor)
                yield done, result
    if not whole:
        todo.append(jobs)
    while waiting:
        yield from _done(waiting)


def _done(waiting: dict[Future[dict[str, Any]], Job]) -> Iterator[tuple[Job, Result]]:
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        job, error = waiting.pop(future), future.exception()
        if isinstance(error, CannotBegin):
            raise error
        yield job, error or future.result()


def _broken(job: Job, order: Order, why: str) -> dict[str, Any]:
    course = find_course(Path(order.root))
    report = Report(job.submission.name, (), order.isolation or "", order.seed, (f"the grader broke, not the student: {why}",))
    nothing = [{"name": item.name, "score": 0, "max_score": 0, "status": "broken", "checks": []} for item in course.exercises]
    return {**as_data(report), "status": "broken", "exercises": nothing}
