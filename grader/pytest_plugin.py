"""pytest in a student's workspace: a thin skin that is inert outside a course. The checks themselves are in checks.py."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .course import Course


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options: which submission the checks meet, and how far up the ladder of hints to go."""
    group = parser.getgroup("grader")
    group.addoption("--submission", metavar="PATH", help="the folder, file or notebook to check (default: the course's own)")
    group.addoption(
        *("--hint",), nargs="?", const=1, default=0, type=_step, metavar="STEP",
        help="a hint for the next exercise: a question; --hint=2 and --hint=3 say more",
    )  # fmt: skip


def _step(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no step: write --hint=2, and paths before a mere --hint")
    return int(text)


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
    from .diagnosis.stored import catalogue_of
    from .student import InProcess
    from .submission import SubmissionError, read_submission

    path = config.getoption("submission")
    if path and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(folder) for folder in course.checks]  # the course's own tests are not about this submission
    try:
        submission = read_submission(Path(path) if path else course.submission, course.modules)
    except SubmissionError as error:
        raise pytest.UsageError(str(error)) from None
    gc.set_threshold(50_000)  # imports of torch leave much behind, and none of it is garbage: to look costs a tenth of a run
    origin = InProcess(submission)
    config.add_cleanup(origin.close)
    checks = Checks(course, course.seed, catalogue_of(course))
    checks.submit(submission, origin)
    config.pluginmanager.register(checks, "grader-checks")
    config.pluginmanager.register(_Summary(checks, config.getoption("hint")), "grader-summary")


class _Summary:
    """What the terminal shows: each verdict by its own word and, at the end, the exercises and what to do next."""

    def __init__(self, checks: object, step: int) -> None:
        from .checks import Checks

        assert isinstance(checks, Checks)
        self.checks, self.step, self.running = checks, step, ""
        self.told: dict[str, str] = {}  # where what keeps a file from being imported was told, by what it is

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Checks run in the order of the lesson, in the places that checks have among other tests."""
        order = {exercise.name: place for place, exercise in enumerate(self.checks.course.exercises)}
        places = [place for place, item in enumerate(items) if item.nodeid in self.checks.described]
        checks = sorted((items[place] for place in places), key=lambda item: order[self.checks.described[item.nodeid].exercise])
        for place, item in zip(places, checks, strict=True):
            items[place] = item

    @pytest.hookimpl(tryfirst=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[None]) -> None:
        """`--pdb` walks through the check and the student's code alone, and stops in the innermost line of theirs."""
        if call.excinfo is None or node.nodeid not in self.checks.described:
            return
        own, head, kept = {*self.checks.origin.files, str(node.path)}, call.excinfo.tb, []
        after = head.tb_next
        while after is not None:
            kept += [after] * (after.tb_frame.f_code.co_filename in own)
            after = after.tb_next
        for here, after in zip([head, *kept], [*kept, None], strict=True) if kept else ():
            here.tb_next = after

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A check that can't run here, though it did not know, is skipped for pytest too."""
        report, verdict = (yield), self.checks.verdicts.get(item.nodeid)
        if report.failed and verdict is not None and verdict.status == "skipped":
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, verdict.message)
        return report

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember what runs."""
        self.running = nodeid

    def pytest_keyboard_interrupt(self) -> None:
        """What a student had to stop has no verdict, and is not called again; what had failed before, in `--pdb`, has one."""
        from .judge import PASSED

        if self.checks.verdicts.get(self.running, PASSED) == PASSED:
            self.checks.verdicts.pop(self.running, None)
            self.checks.catalogue = None

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """`todo` and its like are neither failures nor errors, and are counted by their own names.

        So is what follows from a file that can't be imported, once that was told.
        """
        verdict = getattr(report, "verdict", None)
        if verdict is None:
            return None
        if verdict.trouble is not None and verdict.trouble.kind == "import":
            if self.told.setdefault(verdict.message, report.nodeid) == report.nodeid:
                return None
            return "crashed", "F", ("CRASHED", {"red": True})
        if verdict.status not in ("todo", "blocked"):
            return None
        return verdict.status, verdict.status[0], (verdict.status.upper(), {"yellow": True})

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Who asks for a hint wants nothing else."""
        if self.step:
            session.config.option.tbstyle = "no"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """The table of exercises, then the first thing to do next."""
        checks = self.checks
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            first = checks.course.exercises[0].name.rpartition(".")[2]
            terminalreporter.write_line(f"\nNo check was chosen: run pytest in {checks.course.root}, or pytest -k {first}")
        with _undisturbed():
            report = checks.report("none")
        if not report.checks:
            return
        from .formats.text import text

        ran, there = len(checks.verdicts), len(checks.described)
        whole = ran == there and len([it for it in report.exercises if it.max_score]) == len(checks.course.exercises)
        if ran < there:
            report = replace(report, notes=(*report.notes, f"{ran} of {there} checks ran"))
        terminalreporter.section("the lesson")
        terminalreporter.write(
            text(
                report,
                colour=terminalreporter.hasmarkup,
                width=terminalreporter._tw.fullwidth,
                brief=bool(self.step),
                step=self.step,
                ask="pytest --hint",
                end=checks.course.celebration,
                whole=whole,
            )
        )


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """While a student's functions are called once more, for the sake of the diagnosis: nothing is printed, nothing stops."""
    hook, sys.breakpointhook = sys.breakpointhook, lambda *_, **__: None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.breakpointhook = hook
