"""Everything that is claimed, measured: `python -m tests.benchmarks [--quick] [--output FILE]` writes one Markdown page.

Each part is a command of its own, which can be run alone. A part that fails says so on the page, and the exit status is 1.
Peers' tests are looked for in the folder that PEERS names.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ("numpy", "torch", "pytest", "hypothesis", "nbgrader", "transformers")
PAGE = HERE / "RESULTS.md"


@dataclass(frozen=True)
class Part:
    """A title, a command, what is added or taken when it is to be quick, and what the numbers are."""

    title: str
    command: tuple[str, ...]
    quick: tuple[str, ...] = ()
    about: str = ""
    plain: bool = True  # its output is no Markdown


def script(name: str, *arguments: str) -> tuple[str, ...]:
    return sys.executable, str(HERE / name), *arguments


CLASS = "class_throughput.py"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider")
PARTS = (
    Part("A class", script(CLASS, "--sizes", "10,100,1000", "--rounds", "3"), ("--sizes", "10,60", "--rounds", "1"),
         "Submissions a second by size of class and number of workers, after the first has come, beside the same checks in one "
         "process without a wall (the floor); peak memory of all processes together.", plain=False),
    Part("A class that is all right, on one module", script(CLASS, "--right", "-k", "numpy_attention", "--sizes", "10,100,1000"),
         plain=False),
    Part("Beside other graders", script("autograders.py"), ("--count", "6", "--rounds", "2"),
         "On the exercises of `numpy_attention` alone, every submission right and no two alike. Ours runs all of that module's "
         "checks, ten times as many as the others' asserts, and grades fifty times as many submissions.", plain=False),
    Part("`nbgrader autograde` with our grading in it", script("nbgrader_time.py"), ("4", "24")),
    Part("What a student waits for", script("student_loop.py"), plain=False),
    Part("What is known of a mistake, and of mutants", script("diagnosis.py"), ("--pairs", "5"), plain=False),
    Part("The tests of other courses, on our mistakes", script("peers.py"), ("--quick",), plain=False),
    Part("A student's process", script("confined_cost.py")),
    Part("Attacks, with and without the wall", (*PYTEST, "tests/attacks"), ("-k", "wins_nothing or wall")),
    Part("Random submissions", (sys.executable, "tests/fuzz.py", "--seconds", "600"), ("--seconds", "30")),
    Part("Fused and plain attention", script("sdpa.py"), ("--sizes", "256,512"), plain=False),
)  # fmt: skip
NUMPY = ("-k", "numpy_attention")  # a large class on one module: the whole lesson takes an hour
LARGE = (
    Part("2,000 submissions, all right", script(CLASS, "--soak", "2000", "--right", *NUMPY)),
    Part("A large class, hostile ones among it", script(CLASS, "--soak", "2000"), ("--soak", "240", *NUMPY)),
    Part("Killed twenty times", script(CLASS, "--kills", "20", "--sizes", "60"), NUMPY),
)


def machine() -> str:
    """What the numbers were measured on."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*: (.*)", info.read_text())):
        processor = found[1]
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    load = f"; load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{datetime.date.today()}, {platform.system()} {platform.release()}, {processor}, {cores} cores{load}. "
        f"Python {platform.python_version()}, {', '.join(versions)}."
    )


def measured(part: Part, quick: bool) -> tuple[str, bool]:
    """A section of the page, and whether the part succeeded."""
    command = [*part.command, *(part.quick if quick else ())]
    if len(command) > 1 and command[1].endswith(".py") and not (ROOT / command[1]).exists():
        return f"## {part.title}\n\nThere is no {Path(command[1]).name} here.\n", False
    start = time.perf_counter()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])  # nbgrader calls alembic
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": path}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    ok = run.returncode == 0
    text = run.stdout.strip() if ok else f"{run.stdout.strip()[-2000:]}\n{run.stderr.strip()[-2000:]}"
    if part.plain or not ok:
        text = f"```\n{text}\n```"
    shown = " ".join(["python", *(str(word).replace(f"{ROOT}/", "") for word in command[1:])])
    about = f"{part.about}\n\n" if part.about else ""
    return f"## {part.title}\n\n{about}{text}\n\n`{shown}` took {time.perf_counter() - start:.0f} s.\n", ok


def imports() -> str:
    """Where the time of a start goes: the imports with the most of their own, of `grader --help` and of a grading."""
    lines = ["## Imports", "", "Milliseconds of the slowest imports, each without what it imports in turn.", ""]
    for title, code in (
        ("grader --help", "import grader.cli"),
        ("grader grade", "import grader.grade"),
        ("a check", "import torch"),
    ):
        run = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        rows = [line.split("|") for line in run.stderr.splitlines() if line.count("|") == 2 and "self" not in line]
        own = sorted(((int(row[0].rpartition(":")[2]), row[2].strip()) for row in rows), reverse=True)
        total = sum(time for time, _ in own)
        shown = ", ".join(f"{name} {time / 1000:.0f}" for time, name in own[:8])
        lines.append(f"- `{code}` ({title}): {total / 1000:.0f} ms. {shown}.")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half an hour: small classes, few rounds, few mistakes")
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.add_argument("--only", default="", help="parts whose title holds this")
    parser.add_argument("--note", default="", help="a sentence on the machine's state")
    given = parser.parse_args()
    head = (
        f"# Results\n\nMade by `python -m tests.benchmarks{' --quick' * given.quick}`. {machine()} {given.note}".rstrip() + "\n"
    )
    parts = [part for part in (*PARTS, *LARGE) if given.only.lower() in part.title.lower()]
    sections, well = [head], True
    for part in parts:
        print(f"{part.title} ...", file=sys.stderr, flush=True)
        text, ok = measured(part, given.quick)
        sections.append(text)
        well = well and ok
        given.output.write_text("\n".join(sections), encoding="utf-8")
    if given.only.lower() in "imports":
        sections.append(imports())
    given.output.write_text("\n".join(sections), encoding="utf-8")
    print(given.output)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
