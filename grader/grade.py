"""grade(submission, course) -> Report: the only road from a submission to a score."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from _pytest.mark.expression import Expression
from _pytest.runner import runtestprotocol

from .checks import Checks
from .course import Course
from .diagnose import load_catalogue
from .report import Report
from .runner import Confined, Runner
from .student import Origin, StudentModule, unavailable
from .submission import Submission

NOTHING = "no check matches"


class GraderFailed(Exception):
    """The grader itself can't work: a check can't be collected, or the runner can't be started."""


class NothingMatches(GraderFailed):
    """No check was chosen: the expression is at fault, not the grader."""


def grade(submission: Submission, course: Course, **settings: Any) -> Report:
    """Grade one submission; `settings` are those of `grade_all`."""
    reports: list[Report] = []
    grade_all([submission], course, lambda _, report: reports.append(report), **settings)
    return reports[0]


def grade_all(
    submissions: Iterable[Submission],
    course: Course,
    done: Callable[[Submission, Report], None],
    *,
    seed: int | None = None,
    select: str = "",
    isolation: str | None = None,
) -> None:
    """Grade submissions one after another in one pytest session with one warm runner, and hand each report to `done`.

    `select` is a pytest -k expression (an exercise's name is one of its words); `isolation` is as in `Runner`.
    Raises GraderFailed.
    """
    forbid = {name: rule.forbid for name, rule in course.rules.items() if rule.forbid}
    with Runner(course.limits, isolation=isolation) as runner:

        @contextmanager
        def confined(submission: Submission) -> Iterator[Origin]:
            with runner.open(submission.sources, forbid=forbid) as behind_the_wall:
                yield ConfinedOrigin(submission, behind_the_wall)

        checks = Checks(course, course.seed if seed is None else seed, load_catalogue(course.solutions / "mistakes"))
        run_checks(checks, submissions, confined, lambda submission: done(submission, checks.report(runner.isolation)), select)


def run_checks(
    checks: Checks,
    submissions: Iterable[Submission],
    open: Callable[[Submission], AbstractContextManager[Origin]],
    done: Callable[[Submission], None],
    select: str = "",
) -> None:
    """Run the checks once for each submission, on the origin that `open` gives for it. Raises GraderFailed."""
    try:
        Expression.compile(select)
    except Exception as error:  # pytest's own class of error has changed its name
        raise NothingMatches(f"-k {select!r} is no expression: {error}") from None
    loop = _Loop(checks, submissions, open, done)
    _run(checks.course, select, [checks, loop])
    if loop.trouble == NOTHING:
        raise NothingMatches(
            f"no exercise matches {select!r}; there are {', '.join(item.name for item in checks.course.exercises)}"
        )
    if loop.trouble:
        raise GraderFailed(loop.trouble)


def _run(course: Course, select: str, plugins: list[object]) -> None:
    """One quiet pytest session over the course's checks: no plugin, setting or file of anybody else joins in."""
    arguments = [
        *(
            "-c",
            str(course.root / "pyproject.toml"),
            "--rootdir",
            str(course.root),
            "--override-ini",
            "addopts=",
            "--override-ini",
            "filterwarnings=ignore",
        ),
        *("--import-mode", "importlib", "--noconftest", "--disable-plugin-autoload", "--capture", "no"),
        *(
            flag
            for name in ("terminal", "cacheprovider", "logging", "junitxml", "faulthandler", "stepwise")
            for flag in ("-p", f"no:{name}")
        ),
        *(("-k", select) if select else ()),
        *map(str, course.checks),
    ]
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # small arrays: threads cost more than they give
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("PYTEST_PLUGINS", None)
    pytest.main(arguments, plugins=plugins)


class _Loop:
    """The pytest plugin that runs every check once for each submission, instead of once."""

    def __init__(
        self,
        checks: Checks,
        submissions: Iterable[Submission],
        open: Callable[[Submission], AbstractContextManager[Origin]],
        done: Callable[[Submission], None],
    ) -> None:
        self.checks, self.submissions, self.open, self.done = checks, submissions, open, done
        self.trouble = "pytest could not begin; its own words are above"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember what could not be collected: the course is broken, and no submission may pay for it."""
        if report.failed:
            self.trouble = f"the checks can't be collected: {report.longreprtext}"

    def pytest_internalerror(self, excrepr: object) -> None:
        """pytest itself, or our plugin, broke."""
        self.trouble = str(excrepr)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Grade each submission; nothing is reported as a test of ours."""
        if session.testsfailed:
            return True
        self.trouble = "" if session.items else NOTHING
        for submission in self.submissions:
            with self.open(submission) as origin:
                self.checks.submit(submission, origin)
                for item in session.items:
                    runtestprotocol(item, log=False, nextitem=None)
                self.done(submission)
        return True


class ConfinedOrigin:
    """The modules of a submission behind the wall; those that were not handed in, or were refused, are told here."""

    def __init__(self, submission: Submission, confined: Confined) -> None:
        self.submission, self.confined = submission, confined
        self.files: dict[str, str] = {}  # none of them is in this process

    def module(self, module: str, exercise: str) -> Any:
        trouble = unavailable(self.submission, module)
        if trouble is not None:
            absent = StudentModule(module)
            absent.trouble = trouble
            return absent
        self.confined.begin(exercise)
        return self.confined.module(module, exercise)
