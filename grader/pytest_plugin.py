"""pytest in a student's workspace: a thin skin that is inert outside a course. The checks themselves are in checks.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .course import Course
    from .diagnose import Catalogue


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option: which submission the checks meet."""
    group = parser.getgroup("grader")
    group.addoption("--submission", metavar="PATH", help="the folder, file or notebook to check (default: the course's own)")


def pytest_configure(config: pytest.Config) -> None:
    """Join in when the project's pyproject.toml describes a course."""
    from .course import CourseError, read_course

    try:
        course = read_course(config.rootpath / "pyproject.toml")
    except CourseError as error:
        raise pytest.UsageError(str(error)) from None
    if course is None and config.getoption("submission"):
        raise pytest.UsageError(
            "no course here. If there is one, write --submission=PATH: pytest takes a path after a space for tests"
        )
    if course is not None and not config.pluginmanager.has_plugin("grader-checks"):
        _join(config, course)


def _join(config: pytest.Config, course: Course) -> None:
    from .checks import Checks
    from .student import InProcess
    from .submission import SubmissionError, read_submission

    path = config.getoption("submission")
    if path and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(folder) for folder in course.checks]  # the course's own tests are not about this submission
    try:
        submission = read_submission(Path(path) if path else course.submission, course.modules)
    except SubmissionError as error:
        raise pytest.UsageError(str(error)) from None
    origin = InProcess(submission)
    config.add_cleanup(origin.close)
    checks = Checks(course, course.seed, _catalogue(course))
    checks.submit(submission, origin)
    config.pluginmanager.register(checks, "grader-checks")
    config.pluginmanager.register(_Summary(checks), "grader-summary")


def _catalogue(course: Course) -> Catalogue | None:
    """The mistakes themselves where they are, or what a workspace was given of them, or nothing."""
    from .diagnose import load_catalogue
    from .stored import FILE, Stored

    stored = course.root / FILE
    return load_catalogue(course.solutions / "mistakes") or (Stored(stored) if stored.is_file() else None)


class _Summary:
    """What the terminal shows: each verdict by its own word and, at the end, the exercises and what to do next."""

    def __init__(self, checks: object) -> None:
        from .checks import Checks

        assert isinstance(checks, Checks)
        self.checks = checks

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """`todo` and its like are neither failures nor errors, and are counted by their own names."""
        verdict = getattr(report, "verdict", None)
        if verdict is None or verdict.status not in ("todo", "blocked"):
            return None
        return verdict.status, verdict.status[0], (verdict.status.upper(), {"yellow": True})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table of exercises, then the first thing to do next."""
        report = self.checks.report("none")
        if report.checks:
            from .formats.text import text

            terminalreporter.section("the lesson")
            terminalreporter.write(text(report, colour=terminalreporter.hasmarkup, width=terminalreporter._tw.fullwidth))
