"""How fast a class is graded, and what it leaves behind: `python tests/benchmarks/class_throughput.py --help`.

Speed is measured by size of class and number of workers, beside the floor: the same checks on the same submissions in one
process, with no wall around them. `--soak` grades a large class and watches memory, processes, descriptors and temporary
files; `--kills` kills it at random moments and compares what comes out in the end; `--against` compares every score with
that of sessions that grade one submission after another.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from classes import SOLUTIONS, G, H, N, T, submissions, write  # noqa: E402

OTHERWISE = {  # the same formula, rounded otherwise in the last digit
    N: (" / q.shape[-1] ** 0.5", " * q.shape[-1] ** -0.5"),
    T: (" / math.sqrt(q.shape[-1])", " * (1 / math.sqrt(q.shape[-1]))"),
    G: (" / math.sqrt(q.shape[-1])", " * (1 / math.sqrt(q.shape[-1]))"),
    H: ("", ""),
}

FLOOR = """
import sys, time
from contextlib import contextmanager
from pathlib import Path
from grader.checks import Checks
from grader.course import find_course
from grader.diagnosis.diagnose import load_catalogue
from grader.grade import run_checks
from grader.student import InProcess
from grader.submission import read_submission

course = find_course(Path.cwd())
everybody = [read_submission(path, course.modules) for path in sorted(Path(sys.argv[1]).iterdir())]

@contextmanager
def inside(submission):
    origin = InProcess(submission)
    yield origin
    origin.close()

times = [time.perf_counter()]
checks = Checks(course, course.seed, load_catalogue(course.solutions / "mistakes"))
def done(submission):
    checks.report("none")
    times.append(time.perf_counter())
run_checks(checks, [everybody[0], *everybody], inside, done, sys.argv[2])
print(times[-1] - times[1])  # the first one warms up
"""


def command(folder: Path, out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "grader", "class", str(folder), "--out", str(out), *arguments]


def family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):  # it has just ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in path.read_text().split():
                yield from family(int(child))


def memory(pid: int) -> float:
    """MiB of a process and all its descendants; what they share is counted once."""
    total = 0
    for member in family(pid):
        try:
            total += int(Path(f"/proc/{member}/smaps_rollup").read_text().split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return total / 1024


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def timed(folder: Path, workers: int, select: str) -> tuple[float, float, float]:
    """Submissions a second after the first came, seconds until then, and the peak of memory in MiB."""
    with tempfile.TemporaryDirectory() as out:
        start, first, peak, begun = time.perf_counter(), 0.0, 0.0, 0
        process = subprocess.Popen(
            command(folder, Path(out), "--workers", str(workers), "-k", select),
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        journal, last, count = Path(out) / "results.jsonl", 0.0, 0
        while process.poll() is None:
            time.sleep(0.2)
            lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
            if lines > count:
                count, last = lines, time.perf_counter()
                first = first or last
                begun = count if first == last else begun
            peak = max(peak, memory(process.pid))
        assert process.returncode == 0
        return (count - begun) / max(last - first, 1e-9), first - start, peak


def floor(folder: Path, select: str) -> float:
    """Submissions a second of the checks alone, one process."""
    run = subprocess.run([sys.executable, "-c", FLOOR, str(folder), select], cwd=ROOT, capture_output=True, text=True, check=True)
    return len(list(folder.iterdir())) / float(run.stdout.split()[-1])


def speed(sizes: list[int], workers: list[int], select: str, rounds: int, everybody_right: bool) -> None:
    """A Markdown table of medians; the floor and each number of workers take turns."""
    print("| class | workers | a second | of the floor | warm after | peak MiB |\n|---|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            tame(Path(folder), size, everybody_right)
            runs: dict[int, list[tuple[float, float, float]]] = {number: [] for number in workers}
            floors = []
            for _ in range(rounds):
                floors.append(floor(Path(folder), select))
                for number in workers:
                    runs[number].append(timed(Path(folder), number, select))
            least = statistics.median(floors)
            print(f"| {size} | none, in-process | {least:.2f} | 1 | | |", flush=True)
            for number, found in runs.items():
                rate, warm, peak = (statistics.median(part) for part in zip(*found, strict=True))
                print(f"| {size} | {number} | {rate:.2f} | {rate / least:.2f} | {warm:.1f} s | {peak:.0f} |", flush=True)


def tame(folder: Path, count: int, everybody_right: bool) -> None:
    """A class without the hostile, which the floor can't survive: right, wrong, mixed and unfinished, or all of it right.

    Right answers are not all the same answers: every other one rounds otherwise, as students' formulas do.
    """
    right = ((f"student-{at:04}", {name: f"{text}\n# {at}\n" for name, text in SOLUTIONS.items()}) for at in range(count))
    some = ((student, files) for student, files in submissions(count * 2) if int(student[-4:]) % 12)
    for student, files in right if everybody_right else itertools.islice(some, count):
        (folder / student).mkdir()
        for name, text in files.items():
            (folder / student / name).write_text(text if int(student[-4:]) % 2 else text.replace(*OTHERWISE[name]))


def results(out: Path) -> dict[str, str]:
    """A digest of every file that was written."""
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def soak(count: int, select: str, everybody_right: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        tame(Path(folder), count, True) if everybody_right else write(Path(folder), count)
        temporary = set(Path(tempfile.gettempdir()).iterdir())
        process = subprocess.Popen(command(Path(folder), Path(out), "-k", select), cwd=ROOT, stdout=subprocess.DEVNULL)
        journal, due, seen = Path(out) / "results.jsonl", count // 10, set[int]()
        while process.poll() is None:
            time.sleep(0.2)
            seen |= set(family(process.pid))
            lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
            if lines >= due:
                due += count // 10
                print(f"{lines:>6} graded, {memory(process.pid):>6.0f} MiB, {descriptors(process.pid)} descriptors", flush=True)
        left = [pid for pid in seen if Path(f"/proc/{pid}").exists()]
        time.sleep(3)
        left = [pid for pid in left if Path(f"/proc/{pid}").exists()]
        after = set(Path(tempfile.gettempdir()).iterdir()) - temporary
        students = {json.loads(line)["student"] for line in journal.read_text().splitlines()}
        print(
            f"exit {process.returncode}; {len(students)} of {count} students; processes left {left}; files left {sorted(after)}"
        )


def kills(count: int, times: int, select: str) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as out:
        write(Path(folder), count)
        quiet = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command(Path(folder), Path(whole), "-k", select), check=True, **quiet)  # type: ignore[call-overload]
        draw, journal, lines = random.Random(1), Path(out) / "results.jsonl", 0
        journal.touch()
        for number in range(times):
            process = subprocess.Popen(command(Path(folder), Path(out), "-k", select), **quiet)  # type: ignore[call-overload]
            if number % 4:  # after some more are graded; else at some moment of the start
                goal = lines + draw.randrange(1, max(2, 2 * count // times))
                while process.poll() is None and journal.read_bytes().count(b"\n") < goal:
                    time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.3) if number % 4 else draw.uniform(0, 8))
            process.kill()
            process.wait()
            lines = journal.read_bytes().count(b"\n")
            print(f"kill {number + 1}: {lines} of {count} graded", flush=True)
        subprocess.run(command(Path(folder), Path(out), "-k", select), check=True, **quiet)  # type: ignore[call-overload]
        was, now = results(Path(whole)), results(Path(out))
        different = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
        print(f"DIFFERENT from undisturbed: {different}" if different else "the same bytes as undisturbed")


def against(count: int, select: str) -> None:
    from grading import grade_each

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        write(Path(folder), count)
        start = time.perf_counter()
        subprocess.run(command(Path(folder), Path(out), "-k", select), cwd=ROOT, check=True)
        seconds = time.perf_counter() - start
        lines = map(json.loads, (Path(out) / "results.jsonl").read_text().splitlines())
        found = {line["student"]: {key: line[key] for key in line if key not in ("student", "fingerprint")} for line in lines}
    everybody, alone = submissions(count), dict[str, Any]()
    while some := dict(itertools.islice(everybody, 50)):  # a session each
        alone |= grade_each(some, select=select)
    different = [student for student in alone if alone[student] != found.get(student)]
    print(f"{count} submissions in {seconds:.0f} s; reports that differ from those of one session: {different or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,40", help="sizes of class, with commas")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--right", action="store_true", help="everybody is right")
    parser.add_argument("-k", dest="select", default="", help="only these exercises")
    parser.add_argument("--soak", type=int, default=0, metavar="COUNT")
    parser.add_argument("--kills", type=int, default=0, metavar="TIMES", help="kill a class of the first size so often")
    parser.add_argument("--against", type=int, default=0, metavar="COUNT")
    given = parser.parse_args()
    sizes, workers = ([int(part) for part in text.split(",")] for text in (given.sizes, given.workers))
    if given.soak:
        soak(given.soak, given.select, given.right)
    elif given.kills:
        kills(sizes[0], given.kills, given.select)
    elif given.against:
        against(given.against, given.select)
    else:
        speed(sizes, workers, given.select, given.rounds, given.right)


if __name__ == "__main__":
    main()
