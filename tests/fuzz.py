"""Submissions that nobody would think of: `python tests/fuzz.py --seconds 600` grades random ones with one warm runner.

Random edits of right solutions, random bytes and random notebooks. None may break the grader, and nothing may be left of
any of them: no process, no descriptor, no temporary file. What came is kept in --keep when something is wrong with it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from classes import SOLUTIONS, STUBS  # noqa: E402

from grader.course import Course, find_course  # noqa: E402
from grader.grade import grade_all  # noqa: E402
from grader.report import Report  # noqa: E402
from grader.submission import Submission, SubmissionError, read_submission  # noqa: E402

OPERATORS = ["+", "-", "*", "/", "//", "@", "**", "<", ">", "==", "and", "or", "not ", "is", "in", ",", ":", "(", ")", "[", "]"]
WORDS = ["None", "True", "0", "-1", "1e308", "float('nan')", "10**9", "x", "mask", "q", "self", "np", "torch", "return", "yield"]
WORDS += [
    "raise",
    "import os",
    "while True: pass",
    "lambda: 0",
    "exit()",
    "print(1)",
    "...",
    "'é\\ud800'",
    "\x00",
    "\ufeff",
    "\u2028",
]


def edited(draw: random.Random, text: str) -> str:
    """The text with a few lines or words changed, moved, doubled or taken away."""
    lines = text.split("\n")
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        line = lines[at]
        kind = draw.randrange(7)
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(other, line)
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines[at] = draw.choice(["", " ", "    ", "\t"]) + line[draw.randrange(3) :]
        elif kind == 4:
            place = draw.randrange(len(line) + 1)
            lines[at] = line[:place] + draw.choice(WORDS + OPERATORS) + line[place + draw.randrange(3) :]
        else:
            old = draw.choice(OPERATORS + WORDS)
            lines[at] = line.replace(old, draw.choice(OPERATORS + WORDS), 1)
    return "\n".join(lines)


def source(draw: random.Random) -> tuple[str, bytes]:
    """A Python file."""
    name = draw.choice(sorted(SOLUTIONS))
    kind = draw.randrange(10)
    if kind == 0:
        return name, draw.randbytes(draw.choice([0, 1, 20, 5000]))
    data = edited(draw, draw.choice([SOLUTIONS, SOLUTIONS, SOLUTIONS, STUBS])[name]).encode("utf-8", "surrogatepass")
    if kind == 1:
        cut = draw.randrange(len(data))
        data = data[:cut] + draw.randbytes(draw.randrange(1, 9)) + data[cut + draw.randrange(9) :]
    return name, data


def notebook(draw: random.Random) -> tuple[str, bytes]:
    """A notebook, more or less."""
    name = draw.choice(sorted(SOLUTIONS))
    parts = edited(draw, SOLUTIONS[name]).split("\n\n\n")
    cells: list[Any] = [
        {"cell_type": draw.choice(["code", "code", "code", "markdown", "raw"]), "source": part, "metadata": {}, "outputs": []}
        for part in parts
    ]
    book: Any = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for _ in range(draw.choice([0, 0, 1, 2])):
        cell = draw.choice([*cells, book])
        if isinstance(cell, dict) and cell:
            cell[draw.choice(sorted(cell))] = draw.choice(
                [None, 3, [], {}, [1, None], "%%bash\nls", "!ls\n%time 1", ["a", "b"], "\ud800"]
            )
        if isinstance(book["cells"], list) and draw.random() < 0.3:
            book["cells"].append(draw.choice([None, 1, "x", [], {}]))
    text = json.dumps(draw.choice([book, book, book, book, [], None, cells]))
    data = text.encode()
    return name.replace(".py", ".ipynb"), data[: draw.randrange(len(data) + 1)] if draw.random() < 0.1 else data


def handed_in(draw: random.Random, folder: Path) -> dict[str, bytes]:
    """The files of one submission, written to a folder."""
    files = dict(draw.choice([source, source, source, notebook])(draw) for _ in range(draw.choice([1, 1, 2])))
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return files


def left_behind() -> tuple[set[str], set[str]]:
    """Descriptors of this process, and what is in the folder for temporary files."""
    descriptors = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    return descriptors, set(os.listdir(tempfile.gettempdir()))


def children() -> set[int]:
    """Processes that this one has started, or that theirs have, and that live."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                new = set(map(int, task.read_text().split())) - found
            except OSError:
                continue
            found |= new
            waiting += new
    return found


def fuzz(seconds: float, seed: int, select: str, keep: Path | None, say: Callable[[str], None]) -> list[str]:
    """Grade for so long. Gives a sentence for each thing that is wrong."""
    course = find_course(ROOT)
    course = dataclasses.replace(
        course, limits=dataclasses.replace(course.limits, call_seconds=1, exercise_seconds=2, import_seconds=3)
    )
    draw, until, wrong = random.Random(seed), time.monotonic() + seconds, list[str]()
    counts: Counter[str] = Counter()
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as place:
        folder, temporary = Path(place) / "submission", Path(place) / "temporary"
        folder.mkdir()
        temporary.mkdir()
        tempfile.tempdir = str(temporary)  # whatever is left there is ours

        def done(submission: Submission, report: Report) -> None:
            counts.update({check.status for check in report.checks})
            counts["graded"] += 1
            if report.status != "graded":
                wrong.append(
                    f"number {counts['graded']}: {[check.message for check in report.checks if check.status == 'broken'][:1]}"
                )
                for name, data in files.items() if keep else ():
                    assert keep is not None
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{counts['graded']}-{name}").write_bytes(data)

        def some() -> Iterator[Submission]:
            yield read_submission(ROOT / "solutions", course.modules)  # what is opened or made once is there now
            before = left_behind()
            while time.monotonic() < until:
                files.clear()
                files.update(handed_in(draw, folder))
                yield from _read(folder, course, counts)
            wrong.extend(f"left behind: {sorted(new - old)}" for old, new in zip(before, left_behind(), strict=True) if new - old)

        try:
            grade_all(some(), course, done, select=select)
        finally:
            tempfile.tempdir = None
    wrong.extend(f"a process is left: {pid}" for pid in children())
    say(f"{counts.pop('graded')} submissions in {seconds:.0f} s, seed {seed}; with checks that are {dict(counts)}")
    return wrong


def _read(folder: Path, course: Course, counts: Counter[str]) -> Iterator[Submission]:
    try:
        yield read_submission(folder, course.modules)
    except SubmissionError:
        counts["unreadable"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-k", dest="select", default="", help="only these exercises")
    parser.add_argument("--keep", type=Path, help="a folder for what broke the grader")
    given = parser.parse_args()
    wrong = fuzz(given.seconds, given.seed, given.select, given.keep, print)
    print("\n".join(wrong) or "nothing broke, nothing is left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
