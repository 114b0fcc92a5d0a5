"""The report: frozen records that every front end shows. Scores are exact fractions; only formats round them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from .trouble import Trouble

Status = Literal["passed", "failed", "crashed", "todo", "blocked", "skipped", "broken"]
Shown = Literal["visible", "titles", "after_due_date", "after_published", "hidden"]


@dataclass(frozen=True)
class Mistake:
    """A known mistake: a stable name, what the code does wrong, and what leads to the remedy."""

    name: str
    text: str
    hint: str


@dataclass(frozen=True)
class Check:
    """The outcome of one check. `points` is what it is worth; `message` is one idea for the student."""

    id: str
    exercise: str
    title: str
    points: Fraction
    status: Status
    message: str = ""
    mistake: Mistake | None = None
    trouble: Trouble | None = None
    hidden: bool = False
    symptom: str = ""  # what is odd about the answers, when no mistake is recognised
    follows: tuple[str, ...] = ()  # wrong exercises that this one is made of, and that explain it

    @property
    def earned(self) -> Fraction:
        return self.points if self.status == "passed" else Fraction(0)

    @property
    def settled(self) -> bool:
        """False where the student's code was wrong or broke, so that a mistake may be to blame."""
        return self.status not in ("failed", "crashed")

    @property
    def counts(self) -> bool:
        """False where the points leave the total: this machine could not run the check, or the grader broke."""
        return self.status not in ("skipped", "broken")


@dataclass(frozen=True)
class Exercise:
    """An exercise with its checks, in the order they ran."""

    name: str
    hints: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def score(self) -> Fraction:
        return sum((check.earned for check in self.checks), Fraction(0))

    @property
    def max_score(self) -> Fraction:
        return sum((check.points for check in self.checks if check.counts), Fraction(0))

    @property
    def trouble(self) -> Check | None:
        """The check that tells most about what to do: the first that is neither passed nor set aside."""
        return next((check for check in self.checks if check.counts and check.status != "passed"), None)

    @property
    def status(self) -> Status:
        """The status of the exercise as a whole: that of its first check in trouble."""
        if any(check.status == "broken" for check in self.checks):
            return "broken"
        if self.trouble is not None:
            return self.trouble.status
        return "passed" if any(check.status == "passed" for check in self.checks) else "skipped"


@dataclass(frozen=True)
class Report:
    """Everything that is known of one submission after grading."""

    submission: str
    exercises: tuple[Exercise, ...]
    isolation: str
    seed: int
    notes: tuple[str, ...] = ()
    show_hidden: Shown = "titles"  # what a platform shows students of hidden checks

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(check for exercise in self.exercises for check in exercise.checks)

    @property
    def score(self) -> Fraction:
        return sum((exercise.score for exercise in self.exercises), Fraction(0))

    @property
    def max_score(self) -> Fraction:
        return sum((exercise.max_score for exercise in self.exercises), Fraction(0))

    @property
    def left_out(self) -> dict[str, Fraction]:
        """The points of skipped checks, by the reason."""
        skipped = [check for check in self.checks if check.status == "skipped"]
        return {
            why: sum((check.points for check in skipped if check.message == why), Fraction(0))
            for why in dict.fromkeys(check.message for check in skipped)
        }

    @property
    def percent(self) -> Fraction:
        return 100 * self.score / self.max_score if self.max_score else Fraction(0)

    @property
    def status(self) -> Literal["graded", "broken"]:
        return "broken" if any(check.status == "broken" for check in self.checks) else "graded"

    @property
    def next(self) -> Exercise | None:
        """What to do first: the first exercise, in the order of the lesson, that has lost points."""
        return next((exercise for exercise in self.exercises if exercise.trouble is not None), None)


def number(value: Fraction) -> int | float:
    """A score as JSON and people want it: whole where it is whole, else to four places."""
    return value.numerator if value.denominator == 1 else round(float(value), 4)


def together(mistakes: tuple[Mistake, ...]) -> Mistake:
    """Several mistakes in one function as one."""
    if len(mistakes) == 1:
        return mistakes[0]
    name = "+".join(mistake.name for mistake in mistakes)
    return Mistake(name, *(" And: ".join(getattr(mistake, part) for mistake in mistakes) for part in ("text", "hint")))


def by_exercise(checks: Iterable[Check], names: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Exercise, ...]:
    """Group checks under their exercises, in the order of `names` (each with its hints), without those that have none."""
    groups: dict[str, list[Check]] = {}
    for check in sorted(checks, key=lambda check: check.hidden):  # what students have comes first
        groups.setdefault(check.exercise, []).append(check)
    return tuple(Exercise(name, hints, tuple(groups[name])) for name, hints in names if name in groups)
