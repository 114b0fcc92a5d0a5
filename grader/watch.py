"""Grading on each save: a warm session in a thread of its own works on what was saved last, and tells what it found.

After a save it first checks only what was changed and keeps its other verdicts, so that an answer comes at once; then it checks
the whole once more, so that the last word is always what `grader grade` would say of the same files.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from .checks import TOO_LATE
from .course import Course, Exercise
from .grade import grade_all
from .report import Report
from .source import made_of
from .submission import Submission, SubmissionError, read_submission

LOOK_MS = 1000  # so often it looks by itself: on network mounts nobody says that a file was saved
STEP_MS, GROUP_MS = 10, 200  # several files saved at once are one save
PATIENCE, TICK, LONG = 0.1, 0.25, 1.0  # seconds
STOPPED = "ctrl-z"  # the key after which this process may have stood still


@dataclass(frozen=True)
class Saved:
    """The submission is no longer what it was; `why` says so when it can't be read now."""

    submission: Submission | None
    why: str = ""


@dataclass(frozen=True)
class Graded:
    """What was found in a submission. It is `final` when every check ran on it; `seconds` is how long that took."""

    report: Report
    final: bool
    seconds: float


@dataclass(frozen=True)
class Ended:
    """Nothing more will be graded. `error` is None when that was asked for."""

    error: BaseException | None


Event = Saved | Graded | Ended
Tell = Callable[[Event], None]


class Grading:
    """A warm grader that always works on the newest submission, and gives up an older one at once."""

    def __init__(self, course: Course, tell: Tell, **settings: Any) -> None:
        """`settings` are those of `grade_all`."""
        self.course, self.tell, self.settings = course, tell, settings
        self.changed = threading.Condition()
        self.newest: Submission | None = None
        self.current: Submission | None = None
        self.closed = False
        self.only: frozenset[str] | None = None  # the exercises to check now; None: all of them
        self.known: Report | None = None  # of the last submission that was told of
        self.began, self.spoke, self.first = 0.0, 0.0, True  # of the pass that goes on; is it the first over its submission?
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def grade(self, submission: Submission) -> None:
        """Grade this from now on."""
        with self.changed:
            self.newest = submission
            self.changed.notify()

    def again(self) -> None:
        """Grade the same anew: what was waited for while this process stood still came too late."""
        if self.newest is not None:
            self.grade(replace(self.newest))

    def close(self) -> None:
        """End the session, and with it every process that it started."""
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.thread.join(10)

    def _run(self) -> None:
        try:
            how: dict[str, Any] = {"wanted": self._wanted, "stopped": self._stale, "so_far": self._so_far, **self.settings}
            grade_all(self._feed(), self.course, self._done, **how)
            self.tell(Ended(None))
        except BaseException as error:  # whatever it is, somebody waits to hear of it
            self.tell(Ended(error))

    def _stale(self) -> bool:
        return self.closed or self.newest is not self.current

    def _wanted(self, exercise: str) -> bool:
        return self.only is None or exercise in self.only

    def _feed(self) -> Iterator[Submission]:
        """What to grade next, as `grade_all` asks for it: what changed, then the whole, then nothing until the next save."""
        last = None
        while True:
            with self.changed:
                self.changed.wait_for(self._stale)
                if self.closed or self.newest is None:
                    return
                self.current = submission = self.newest
            for number, only in enumerate(_steps(last if self.known else None, submission, self.course)):
                if not self._stale():
                    self.only, self.first, self.began, self.spoke = only, number == 0, time.monotonic(), time.monotonic()
                    yield submission
            last = submission

    def _so_far(self, report: Callable[[], Report]) -> None:
        """When it takes long, say on the way what is known already: calls that never end cost seconds each."""
        now = time.monotonic()
        if self.known is not None and self.first and now - self.spoke > LONG:
            self.spoke = now
            self.tell(Graded(merged(self.known, decided(report())), False, now - self.began))

    def _done(self, submission: Submission, report: Report) -> None:
        if self._stale():  # what was found while giving up is nothing
            return
        final = self.only is None
        if not final and self.known is not None:
            report = merged(self.known, report)
        self.known = report
        self.tell(Graded(report, final, time.monotonic() - self.began))


def merged(known: Report, found: Report) -> Report:
    """A report with what was found now in place of what was known of the same exercises."""
    new = {exercise.name: exercise for exercise in found.exercises}
    return replace(known, exercises=tuple(new.get(exercise.name, exercise) for exercise in known.exercises))


def decided(so_far: Report) -> Report:
    """Only the exercises of which every check has run, or one that did not pass."""
    ran = [(exercise, [check for check in exercise.checks if check.message != TOO_LATE.message]) for exercise in so_far.exercises]
    known = (it for it, checks in ran if len(checks) == len(it.checks) or any(check.status != "passed" for check in checks))
    return replace(so_far, exercises=tuple(known))


def _steps(last: Submission | None, new: Submission, course: Course) -> Iterator[frozenset[str] | None]:
    """Which exercises to check first, if there is anything to gain, and then None: all of them."""
    first = changed(last, new, course) if last else frozenset()
    if 0 < len(first) < len(course.exercises):
        yield first
    yield None


def changed(old: Submission, new: Submission, course: Course) -> frozenset[str]:
    """The exercises whose code is no longer the same: a good guess at what to check first, from the source alone."""
    files = {module for module in course.modules if _file(old, module) != _file(new, module)}
    exercises = [exercise for exercise in course.exercises if exercise.module in files]
    return frozenset(exercise.name for exercise in exercises if _made(old, exercise) != _made(new, exercise))


def _file(submission: Submission, module: str) -> tuple[bytes | None, str | None]:
    return submission.sources.get(module), submission.refused.get(module)


def _made(submission: Submission, exercise: Exercise) -> object:
    source = submission.sources.get(exercise.module)
    return None if source is None else made_of(source, exercise.function) or source


def saves(path: Path, modules: tuple[str, ...], stop: threading.Event, poll: bool) -> Iterator[Saved]:
    """The submission at `path` now, and again after each save, until `stop`.

    `poll` looks for changes by itself instead of being told by the system, as it also does every second.
    """
    last: tuple[Saved, object] | None = None
    for _ in _wakes(path if path.is_dir() else path.parent, stop, poll):
        now = _read(path, modules)
        if last is not None and len(_sources(now[0])) < len(_sources(last[0])):
            stop.wait(PATIENCE)  # some editors move a file away, and then write the new one
            now = _read(path, modules)
        if now != last:
            yield now[0]
        last = now


def _read(path: Path, modules: tuple[str, ...]) -> tuple[Saved, object]:
    """What is there now, and something that changes with each save even of the same text."""
    try:
        submission = read_submission(path, modules)
        states = (file.lstat() for file in submission.paths.values())
        return Saved(submission), [(state.st_mtime_ns, state.st_ino) for state in states]
    except SubmissionError as error:
        return Saved(None, str(error)), None
    except OSError:  # it has just gone
        return Saved(None, f"{path} can't be read"), None


def _sources(saved: Saved) -> Mapping[str, bytes]:
    return saved.submission.sources if saved.submission else {}


def _wakes(folder: Path, stop: threading.Event, poll: bool) -> Iterator[None]:
    """Wake up when something in `folder` may have changed, also when it is deleted and made again."""
    from watchfiles import watch

    yield
    while not stop.is_set():
        try:
            number = os.stat(folder).st_ino
            for _ in watch(
                folder, watch_filter=None, recursive=False, debounce=GROUP_MS, step=STEP_MS, stop_event=stop,
                rust_timeout=LOOK_MS, yield_on_timeout=True, raise_interrupt=False, force_polling=poll or None, poll_delay_ms=100,
            ):  # fmt: skip
                yield
                if os.stat(folder).st_ino != number:
                    break
        except OSError:  # there is no such folder now
            stop.wait(PATIENCE)
        except RuntimeError:  # the system watches no more files
            poll = True
        yield


def events(
    path: Path, course: Course, queue: SimpleQueue[Event | str], *, poll: bool = False, **settings: Any
) -> Iterator[Event | str | None]:
    """What happens, as it happens: saves, what was found, and what others put into `queue`, such as keys; None when time passes.

    `settings` are those of `grade_all`. Ends with `Ended`; close it to end it earlier.
    """
    stop, grading = threading.Event(), Grading(course, queue.put, **settings)

    def look() -> None:
        try:
            for saved in saves(path, course.modules, stop, poll):
                if saved.submission is not None:
                    grading.grade(saved.submission)
                queue.put(saved)
        except BaseException as error:  # whatever it is, somebody waits to hear of it
            queue.put(Ended(error))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        while True:
            try:
                event = queue.get(timeout=TICK)
            except Empty:
                yield None
                continue
            yield event
            if event == STOPPED:
                grading.again()
            if isinstance(event, Ended):
                return
    finally:
        stop.set()
        grading.close()
        looking.join(2)
