"""One submission's round through the checks: in a confined process, and no check twice that would go as it went before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from .checks import Checks
from .course import Course
from .diagnosis.recording import Call
from .judge import PASSED
from .report import Check
from .student import Origin, StudentModule, enforce, unavailable
from .submission import Submission
from .tape import Heard, Taped, Tapes

UNHEARD = {"gpu", "remark"}  # fixtures by which a check says or asks for more than a student's process hears


class ConfinedOrigin:
    """The modules of a submission behind the wall; those that were not handed in, or were refused, are told here."""

    def __init__(self, submission: Submission, course: Course, confined: Taped, tapes: Tapes) -> None:
        self.submission, self.course, self.confined, self.tapes = submission, course, confined, tapes
        self.files: dict[str, str] = {}  # none of them is in this process

    @property
    def gpu(self) -> tuple[str, str]:
        return self.confined.runner.gpu

    def module(self, module: str, exercise: str, device: str = "") -> Any:
        trouble = unavailable(self.submission, module)
        if trouble is not None:
            absent = StudentModule(module)
            absent.trouble = trouble
            return absent
        self.confined.begin(exercise, device)
        return self.confined.module(module, exercise)

    def follow(self, check: Check) -> tuple[bool, Sequence[Heard]]:
        """Whether a check would pass as it did before, and what was heard on the way to know."""
        tapes = self.tapes.of(check.id)
        if not tapes or unavailable(self.submission, check.exercise.partition(".")[0]):
            return False, ()
        try:
            enforce(self.submission, self.course.rules, check.exercise)
        except Exception:  # the check will be told
            return False, ()
        return self.confined.follow(tapes, check.exercise)


class Round:
    """Runs checks of one submission, and keeps what each of them called."""

    def __init__(self, checks: Checks, origin: Origin, items: Sequence[pytest.Item]) -> None:
        self.checks, self.items = checks, items
        self.confined = origin if isinstance(origin, ConfinedOrigin) else None
        self.calls: dict[str, dict[str, list[Call]]] = {}  # by check and exercise
        self.passed: dict[str, Sequence[Heard]] = {}

    def run(self, stopped: Callable[[], bool]) -> bool:
        """Run them, and say whether nobody stopped it."""
        for item in self.items:
            if stopped():
                break
            same, heard = self._follow(item)
            if same:
                self.passed[item.nodeid], self.checks.verdicts[item.nodeid] = heard, PASSED
            else:
                self._run(item, heard)
        self._look_at(self.checks.wrong())
        if self.items:
            self.items[0].session._setupstate.teardown_exact(None)
        return not stopped()

    def _follow(self, item: pytest.Item) -> tuple[bool, Sequence[Heard]]:
        check = self.checks.described.get(item.nodeid)
        if self.confined is None or check is None or UNHEARD & set(getattr(item, "fixturenames", ())):
            return False, ()
        return self.confined.follow(check)

    def _run(self, item: pytest.Item, heard: Sequence[Heard], keep: bool = True) -> None:
        """Run one check, which has heard so much already."""
        confined, check = self.confined and self.confined.confined, self.checks.described.get(item.nodeid)
        self.checks.calls = {}
        if confined:
            confined.begin_check(heard)
        item.session._setupstate.teardown_exact(item)
        runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]  # the module stays set up
        self.calls[item.nodeid] = self.checks.calls
        sound = self.checks.verdicts.get(item.nodeid) == PASSED and not UNHEARD & set(getattr(item, "fixturenames", ()))
        if self.confined and confined and check and keep and sound:
            self.confined.tapes.keep(check.id, confined.heard)

    def _look_at(self, wrong: set[str]) -> None:
        """Run what passed in wrong exercises, which asks nothing again: the mistake must explain all calls, in their order."""
        for item in self.items:
            if item.nodeid in self.passed and self.checks.described[item.nodeid].exercise in wrong:
                self._run(item, self.passed[item.nodeid], keep=False)
        self.checks.calls = {}
        for item in self.items:
            for exercise, calls in self.calls.get(item.nodeid, {}).items():
                self.checks.calls.setdefault(exercise, []).extend(calls)
