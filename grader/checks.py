"""The checks of a course as pytest runs them: the `student` and `rng` fixtures, the marker, and one verdict a check."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .course import Course
from .diagnosis.diagnose import MOST_NUMBERS, Catalogue, load
from .diagnosis.recording import Call, Recorder
from .judge import PASSED, Verdict, judge
from .report import Check, Report, by_exercise, together
from .student import InProcess, Origin, enforce
from .submission import Submission

MARKER = 'check(exercise, points): a graded check of "module.function"; parametrized cases share its points'
TOO_LATE = Verdict("crashed", "the time of the whole run was over before this check")


class Checks:
    """A pytest plugin that holds the verdicts of one submission's checks. `submit` begins another submission."""

    def __init__(self, course: Course, seed: int, catalogue: Catalogue | None) -> None:
        """Without a catalogue of mistakes no call is recorded and none is named."""
        self.course, self.seed, self.catalogue = course, seed, catalogue
        self.described: dict[str, Check] = {}  # by node id; their outcome is not yet known
        self.chosen: list[str] = []  # the node ids that will run
        self.verdicts: dict[str, Verdict] = {}
        self.notes: list[str] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        """Make the marker known."""
        config.addinivalue_line("markers", MARKER)

    def submit(self, submission: Submission, origin: Origin) -> None:
        """Make `submission` the one that checks meet, with its modules from `origin`."""
        self.submission, self.origin = submission, origin
        self.verdicts, self.notes, self.remarks = {}, [], defaultdict[str, list[str]](list)
        if self.catalogue is not None:
            self.catalogue.named.clear()
        self.calls: dict[str, list[Call]] = {}  # by exercise, for the diagnosis

    def wrong(self) -> set[str]:
        """The exercises in which something was wrong."""
        return {self.described[id].exercise for id, it in self.verdicts.items() if it.status in ("failed", "crashed")}

    def report(self, isolation: str) -> Report:
        """The report of the checks that ran since `submit`, with the mistakes that explain what they saw."""
        checks = self._checks(self.verdicts)
        wrong = {check.exercise for check in checks if check.status in ("failed", "crashed")}
        causes = {exercise: self._cause(exercise, wrong) for exercise in sorted(wrong, key=self._place)}
        checks = [replace(check, **causes[check.exercise]) if not check.settled else check for check in checks]
        return self._report(checks, isolation)

    def so_far(self, isolation: str) -> Report:
        """The report should the time be over now: without causes, and nothing for the checks that did not run."""
        return self._report(self._checks(dict.fromkeys(self.chosen, TOO_LATE) | self.verdicts), isolation)

    def _checks(self, verdicts: Mapping[str, Verdict]) -> list[Check]:
        described = ((self.described.get(id), verdict, self.remarks[id]) for id, verdict in verdicts.items())
        return [_decided(check, verdict, remarks) for check, verdict, remarks in described if check is not None]

    def _report(self, checks: list[Check], isolation: str) -> Report:
        exercises = by_exercise(checks, ((exercise.name, exercise.hints) for exercise in self.course.exercises))
        notes = (*self.submission.notes, *self.notes)
        return Report(self.submission.name, exercises, isolation, self.seed, notes, self.course.show_hidden)

    def _cause(self, exercise: str, wrong: set[str]) -> dict[str, Any]:
        """Why an exercise went wrong: the exercise that it follows from, its mistake, or else a symptom."""
        if self.catalogue is None or not self.calls.get(exercise):  # a file that can't be imported was never called
            return {}
        calls = [call.looked_at for call in self.calls.get(exercise, []) if call.cost[2] <= MOST_NUMBERS]
        try:
            found = self.catalogue.diagnose(exercise, calls)
            self.catalogue.named.update(mistake.name for mistake in found)
            follows = self._follows(exercise, calls, wrong)
            symptom = "" if found or follows else self._symptom(exercise, self.catalogue.judged(exercise, calls)[1] or calls)
            return {"mistake": together(found) if found else None, "follows": follows, "symptom": symptom}
        except Exception as error:  # this is advice: when we can't give it, the marks stand
            self.notes.append(f"the grader could not look for the mistake in {exercise}: {type(error).__name__}: {error}")
            return {}

    def _symptom(self, exercise: str, calls: list[Call]) -> str:
        """What the course can say of answers that it does not recognise."""
        if not calls or not self.course.symptoms.is_file():
            return ""
        look = load("grader_course_symptoms", self.course.symptoms).SYMPTOMS.get(exercise)
        module, _, function = exercise.rpartition(".")
        return (look and look(calls, getattr(self.origin.module(module, exercise), function))) or ""

    def _follows(self, exercise: str, calls: list[Call], wrong: set[str]) -> tuple[str, ...]:
        """The wrong exercises of the same module that explain this one: put together from them, it fails just so."""
        module = exercise.rpartition(".")[0]
        others = [name for name in sorted(wrong, key=self._place) if name != exercise and name.startswith(f"{module}.")]
        for names in (*([name] for name in others), others):
            own = {name: getattr(self.origin.module(module, name), name.rpartition(".")[2]) for name in names}
            if own and self.catalogue is not None and self.catalogue.follows(exercise, calls, own):
                return tuple(names)
        return ()

    def _place(self, name: str) -> int:
        """Where an exercise stands in the lesson."""
        return [exercise.name for exercise in self.course.exercises].index(name)

    @pytest.fixture
    def student(self, request: pytest.FixtureRequest) -> Any:
        """The student's module that the check's exercise lives in."""
        exercise = self.described[request.node.nodeid].exercise
        enforce(self.submission, self.course.rules, exercise)
        device = request.getfixturevalue("gpu") if "gpu" in request.fixturenames else ""
        module = self.origin.module(exercise.rpartition(".")[0], exercise, device)
        if self.catalogue is None or device:  # a mistake shows without a GPU, in calls that are quicker to replay
            return module
        return Recorder(module, self.calls.setdefault(exercise, []), copies=not isinstance(self.origin, InProcess))

    @pytest.fixture
    def gpu(self) -> str:
        """The device of a check that asks for a GPU. Where there is none the check is skipped."""
        device, why = self.origin.gpu
        if not device:
            pytest.skip(f"needs a GPU: {why}")
        return device

    @pytest.fixture
    def remark(self, request: pytest.FixtureRequest) -> Callable[[str], None]:
        """Says what the report should tell of a check although it passes."""
        return self.remarks[request.node.nodeid].append

    @pytest.fixture
    def rng(self, request: pytest.FixtureRequest) -> np.random.Generator:
        """Random numbers that are the same for the same check and seed; a visible check's seed is the course's own."""
        check = self.described[request.node.nodeid]
        seed = self.seed if check.hidden else self.course.seed
        return np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed} {check.id}".encode()).digest()[:8], "big"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read the markers before anything is deselected: a typo is an error, and cases share points as they were written."""
        marked = [(item, marker) for item in items if (marker := item.get_closest_marker("check")) is not None]
        cases = Counter(_function(item) for item, _ in marked)
        for item, marker in marked:
            self.described[item.nodeid] = self._describe(item, marker, cases[_function(item)])
            item.extra_keyword_matches.add(self.described[item.nodeid].id)  # -k knows exercises by name
            item.add_marker(pytest.mark.filterwarnings("default"))  # a student's code that warns is not wrong
        ids = Counter(check.id for check in self.described.values())
        for id in (id for id, count in ids.items() if count > 1):
            raise pytest.UsageError(f"two checks have the id {id}: give one test function another name")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know what will run."""
        self.chosen = [item.nodeid for item in session.items]

    @property
    def modules(self) -> set[str]:
        """Those that will be asked."""
        return {self.described[id].exercise.partition(".")[0] for id in self.chosen if id in self.described}

    def _describe(self, item: pytest.Item, marker: pytest.Mark, cases: int) -> Check:
        where = f"{item.location[0]}:{(item.location[1] or 0) + 1}"
        if len(marker.args) != 1 or set(marker.kwargs) != {"points"}:
            raise pytest.UsageError(f'{where}: write @pytest.mark.check("module.function", points=2)')
        exercise, points = marker.args[0], marker.kwargs["points"]
        if self.course.exercise(exercise) is None:
            raise pytest.UsageError(f"{where}: there is no exercise {exercise!r} in [tool.grader.exercises]")
        if not isinstance(points, int | float) or not points > 0:
            raise pytest.UsageError(f"{where}: points is {points!r}, a number above 0 was due")
        title = (getattr(item.function, "__doc__", None) or "").strip().split("\n")[0]  # type: ignore[attr-defined]
        if not title:
            raise pytest.UsageError(f"{where}: the first line of the docstring is the check's title, and there is none")
        case = item.name.partition("[")[2].rstrip("]")
        hidden = self.course.hidden in Path(item.path).parents
        return Check(
            id=f"{exercise}/{'hidden' if hidden else 'visible'}/{item.name.removeprefix('test_')}",
            exercise=exercise,
            title=f"{title} ({case})" if case else title,
            points=Fraction(str(points)) / cases,
            status="passed",
            hidden=hidden,
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport | None:
        """Keep the first verdict of a check's three phases that is not a pass, and show it in words instead of frames of ours.

        pytest's own report, with its frames, is made where it is asked for (`--tb`), and where the grader broke.
        """
        check = self.described.get(item.nodeid)
        if check is None:
            return None
        verdict = judge(call.excinfo.value if call.excinfo else None, check.exercise, self.course, self.origin.files)
        if self.verdicts.get(item.nodeid, PASSED) == PASSED:
            self.verdicts[item.nodeid] = verdict
        if verdict.status in ("passed", "skipped", "broken") or item.config.getoption("tbstyle", "auto") != "auto":
            return None
        sections = [(f"Captured {name} {when}", text) for when, name, text in item._report_sections]
        how: dict[str, Any] = {"keywords": dict.fromkeys(item.keywords, 1), "when": call.when, "duration": call.duration}
        words = explained(check, verdict)
        shown = pytest.TestReport(item.nodeid, item.location, outcome="failed", longrepr=words, sections=sections, **how)
        shown.verdict = verdict  # type: ignore[attr-defined]
        return shown


def explained(check: Check, verdict: Verdict) -> str:
    """What a student reads of a check that did not pass: its claim, the message, and the way through their own lines."""
    lines = [f"{check.exercise}: {check.title}", "", verdict.message]
    if verdict.trouble is not None and verdict.status == "crashed":
        lines += [
            "",
            *(f"  {frame.file}:{frame.line}: in {frame.function}: {frame.code}" for frame in verdict.trouble.frames),
        ]
    return "\n".join(lines)


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _decided(check: Check, verdict: Verdict, remarks: list[str]) -> Check:
    message = verdict.message or "; ".join(remarks)
    return replace(check, status=verdict.status, message=message, trouble=verdict.trouble)
