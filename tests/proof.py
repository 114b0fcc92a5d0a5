"""The proof of the checks: every known mistake handed in as if a student had written it, and right variants too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from grader.checks import Checks
from grader.course import Course
from grader.diagnosis.diagnose import Catalogue
from grader.grade import run_checks
from grader.report import Check
from grader.submission import Submission


@dataclass(frozen=True)
class Proven:
    """What became of one function that was handed in for an exercise."""

    name: str
    lost: tuple[Check, ...]
    named: str | None
    seconds: float  # of the processor, for the diagnosis

    @property
    def caught(self) -> bool:
        return bool(self.lost)

    @property
    def broken(self) -> bool:
        return any(check.status == "broken" for check in self.lost)


class Timed(Catalogue):
    """A catalogue that keeps the time of its last diagnosis."""

    seconds = 0.0

    def diagnose(self, exercise: str, calls: Any) -> Any:
        start = time.process_time()
        found = super().diagnose(exercise, calls)
        self.seconds = time.process_time() - start
        return found


def prove(
    course: Course,
    recipes: Any,
    exercise: str,
    handed_in: Iterable[tuple[str, Callable[..., Any]]],
    using: Catalogue | None = None,
) -> list[Proven]:
    """Grade each function on the checks of `exercise`, in this process: it is our own code. Names come from `using`."""
    timed = Timed(lambda: recipes)
    catalogue = using or timed
    checks = Checks(course, course.seed, catalogue)
    functions = dict(handed_in)
    files = {str(path): path.name for path in (course.solutions / "mistakes").glob("*.py")}
    files |= {f"<mutant {module}>": f"{module}.py" for module in course.modules}
    proven: list[Proven] = []

    @contextmanager
    def origin(submission: Submission) -> Iterator[Any]:
        module = SimpleNamespace(**{exercise.rpartition(".")[2]: functions[submission.name]})
        yield SimpleNamespace(module=lambda *_: module, files=files, gpu=("", "what is proven here is proven on a CPU"))

    def done(submission: Submission) -> None:
        timed.seconds = 0.0
        lost = tuple(check for check in checks.report("none").checks if check.status not in ("passed", "skipped"))
        names = {check.mistake.name for check in lost if check.mistake is not None}
        proven.append(Proven(submission.name, lost, names.pop() if names else None, timed.seconds))

    submissions = [Submission(name, {}) for name in functions]
    run_checks(checks, submissions, origin, done, select=f"{exercise}/")
    return proven
