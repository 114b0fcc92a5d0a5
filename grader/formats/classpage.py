"""A class as one page: how it did, who needs help, which mistakes were made and what nobody got."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .html import percent, render

AND = " And: "  # how report.together joins the words of two mistakes


@dataclass(frozen=True)
class Cell:
    """A student's result in one exercise."""

    score: float
    percent: int
    status: str


@dataclass(frozen=True)
class Student:
    """A row of the heatmap."""

    name: str
    link: str
    score: float
    max_score: float
    status: str
    cells: Mapping[str, Cell]
    notes: tuple[str, ...]

    @property
    def percent(self) -> int:
        return percent(self.score, self.max_score)

    @property
    def words(self) -> tuple[str, ...]:
        """What a row can be found by, besides its name."""
        statuses = {cell.status for cell in self.cells.values()} | {self.status}
        return tuple(word for word in ("broken", "crashed", "failed", "todo") if word in statuses) + (
            ("note",) if self.notes else ()
        )

    def scores(self, exercises: Iterable[str]) -> list[float | str]:
        """The score of each exercise; empty where it was not graded."""
        return [self.cells[name].score if name in self.cells else "" for name in exercises]


@dataclass
class Seen:
    """A mistake or a check, with the students it concerns."""

    exercises: set[str] = field(default_factory=set)
    text: str = ""
    hint: str = ""
    students: dict[str, str] = field(default_factory=dict)  # links by name
    passed: int = 0


class Class:
    """What the page and the gradebooks need of every report. `add` takes them one at a time."""

    def __init__(self, title: str, exercises: Sequence[str]) -> None:
        self.title, self.exercises = title, list(exercises)
        self.students: list[Student] = []
        self.mistakes: dict[str, Seen] = {}
        self.checks: dict[str, Seen] = {}

    def add(self, report: Mapping[str, Any], link: str) -> None:
        """Add a line of the journal. `link` leads to the student's own page."""
        name, cells = report["student"], {}
        for exercise in report["exercises"]:
            score, most = exercise["score"], exercise["max_score"]
            cells[exercise["name"]] = Cell(score, percent(score, most), exercise["status"])
            for check in exercise["checks"]:
                self._check(check, exercise["name"], name, link)
        notes = tuple(report["notes"])
        self.students.append(Student(name, link, report["score"], report["max_score"], report["status"], cells, notes))

    def _check(self, check: Mapping[str, Any], exercise: str, student: str, link: str) -> None:
        seen = self.checks.setdefault(check["id"], Seen({exercise}, check["title"]))
        if check["status"] not in ("skipped", "broken"):
            seen.students[student] = link
            seen.passed += check["status"] == "passed"
        if check["mistake"] is not None:
            words = (check["mistake"][part].split(AND) for part in ("text", "hint"))
            for name, text, hint in zip(check["mistake"]["name"].split("+"), *words, strict=False):
                mistake = self.mistakes.setdefault(name, Seen(set(), text, hint))
                mistake.exercises.add(exercise)
                mistake.students[student] = link

    def summary(self) -> dict[str, Any]:
        """The numbers at the top."""
        counted = [student.percent for student in self.students if student.max_score]
        return {
            "students": len(self.students),
            "median": round(statistics.median(counted)) if counted else 0,
            "mean": round(statistics.fmean(counted)) if counted else 0,
            "full": sum(value == 100 for value in counted),
            "crashed": sum("crashed" in student.words for student in self.students),
            "broken": sum(student.status == "broken" for student in self.students),
            "bins": [sum(min(value // 10, 9) == number for value in counted) for number in range(10)],
        }


def classpage(page: Class, similar: Sequence[tuple[int, str, str]]) -> str:
    """The page. `similar` are pairs of students, with how alike they are in percent."""
    mistakes = sorted(page.mistakes.items(), key=lambda item: (-len(item[1].students), item[0]))
    hard = sorted((s for s in page.checks.values() if s.students), key=lambda seen: seen.passed / len(seen.students))
    means = {
        name: round(statistics.fmean(values)) if values else None
        for name in page.exercises
        for values in [[s.cells[name].percent for s in page.students if name in s.cells and s.cells[name].status != "broken"]]
    }
    modules = Counter(name.partition(".")[0] for name in page.exercises)
    return render(
        "class.html.j2", page=page, modules=modules.items(), summary=page.summary(), mistakes=mistakes, means=means,
        nobody=[seen for seen in hard if not seen.passed], hardest=[seen for seen in hard if seen.passed][:10],
        similar=similar, links={student.name: student.link for student in page.students},
    )  # fmt: skip
