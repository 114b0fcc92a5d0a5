"""grade(submission, course) -> Report: the only road from a submission to a score."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from .checks import Checks
from .confined.runner import Runner, Unavailable
from .course import Course
from .diagnosis.stored import catalogue_of
from .report import Report
from .rounds import ConfinedOrigin, Round
from .student import Origin
from .submission import Submission
from .tape import Taped, Tapes

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
    gpu: str = "auto",
    wanted: Callable[[str], bool] = lambda exercise: True,
    stopped: Callable[[], bool] = lambda: False,
    so_far: Callable[[Callable[[], Report]], None] | None = None,
) -> None:
    """Grade submissions one after another in one pytest session with one warm runner, and hand each report to `done`.

    `select` is a pytest -k expression (an exercise's name is one of its words); `isolation` and `gpu` are as in `Runner`.
    `wanted` says which exercises of the submission at hand to check, and when `stopped` says so it is given up: both are asked
    again and again, and `submissions` may wait as long as it likes. `so_far` can ask before each check what the report would be
    if the time were over. Raises GraderFailed.
    """
    forbid = {name: rule.forbid for name, rule in course.rules.items() if rule.forbid}
    how: dict[str, Any] = {"preload": ()} if select else {}  # torch, which takes seconds, may not be needed
    with Runner(course.limits, isolation=isolation, gpu=gpu, stopped=stopped, **how) as runner:
        if gpu == "require" and not runner.gpu[0]:
            raise Unavailable(f"there is no GPU to grade with: {runner.gpu[1]}")

        tapes = Tapes()

        @contextmanager
        def confined(submission: Submission) -> Iterator[Origin]:
            with Taped(runner, submission.sources, forbid, checks.modules) as behind_the_wall:
                yield ConfinedOrigin(submission, course, behind_the_wall, tapes)

        checks = Checks(course, course.seed if seed is None else seed, catalogue_of(course))

        def told() -> bool:
            if so_far is not None:
                so_far(lambda: checks.so_far(runner.isolation))
            return stopped()

        run_checks(checks, submissions, confined, lambda it: done(it, checks.report(runner.isolation)), select, wanted, told)


def run_checks(
    checks: Checks,
    submissions: Iterable[Submission],
    open: Callable[[Submission], AbstractContextManager[Origin]],
    done: Callable[[Submission], None],
    select: str = "",
    wanted: Callable[[str], bool] = lambda exercise: True,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Run the checks once for each submission, on the origin that `open` gives for it. Raises GraderFailed."""
    try:
        Expression.compile(select)
    except Exception as error:  # pytest's own class of error has changed its name
        raise NothingMatches(f"-k {select!r} is no expression: {error}") from None
    loop = _Loop(checks, submissions, open, done, wanted, stopped)
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
        wanted: Callable[[str], bool],
        stopped: Callable[[], bool],
    ) -> None:
        self.checks, self.submissions, self.open, self.done = checks, submissions, open, done
        self.wanted, self.stopped = wanted, stopped
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
                known = self.checks.described
                items = [it for it in session.items if it.nodeid not in known or self.wanted(known[it.nodeid].exercise)]
                if Round(self.checks, origin, items).run(self.stopped):
                    self.done(submission)
        return True
