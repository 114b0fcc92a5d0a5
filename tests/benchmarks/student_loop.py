"""What a student waits for: `python tests/benchmarks/student_loop.py [--quick]` prints two Markdown tables.

Everything runs in a workspace as `grader release --for students` makes it, solved. Cold: a new Python for each command, with
no other plugin of pytest than those that the workspace brings, in alternation. Warm: `grader watch` from the moment that a
file is saved to the report, its first word (what was changed) and its last (the whole course).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

TORCH, NUMPY, PYTEST = "import torch, pytest", "import numpy, pytest", "plain pytest on an empty test"
COLD = {
    TORCH: ["-c", TORCH],
    NUMPY: ["-c", NUMPY],
    PYTEST: ["-m", "pytest", "-q", "-c", os.devnull, "--rootdir", "../empty", "-p", "no:cacheprovider", "../empty"],
    "pytest -k numpy_attention": ["-m", "pytest", "-q", "-k", "numpy_attention"],
    "pytest -k torch_attention": ["-m", "pytest", "-q", "-k", "torch_attention"],
    "pytest, without a trained BERT": ["-m", "pytest", "-q", "-k", "not trained_bert"],
    "pytest": ["-m", "pytest", "-q"],
}
WATCH = """
import json, sys, time
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from grader.course import find_course
from grader.watch import Graded, events

edits, rounds = json.load(sys.stdin), int(sys.argv[1])
times = {name: ([], []) for name in edits}
with closing(events(Path.cwd(), find_course(Path.cwd()), SimpleQueue())) as happening:
    reports = (event for event in happening if isinstance(event, Graded))
    final = lambda: next(event for event in reports if event.final)
    final()
    for number in range(-2, rounds):  # the first two are for warming up
        for name, versions in edits.items():
            time.sleep(0.3)
            start, first = time.perf_counter(), None
            for file, text in versions[number % 2].items():
                Path(file).write_text(text, encoding="utf-8")
            while not (event := next(reports)).final:
                first = first or time.perf_counter() - start
            if number >= 0:
                times[name][1].append(time.perf_counter() - start)
                times[name][0].append(first or times[name][1][-1])
print(json.dumps(times))
"""


def solve(workspace: Path) -> None:
    """Put the solutions in place of the stubs."""
    for path in (ROOT / "solutions").glob("*.py"):
        shutil.copy(path, workspace)


def environment(workspace: Path) -> dict[str, str]:
    """A student's: the workspace's own grader, byte code kept, and no plugin of pytest that it did not bring."""
    others = {point.name for point in importlib.metadata.entry_points(group="pytest11")} - {"grader", "hypothesispytest"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    blocked = " ".join(f"-p no:{name}" for name in sorted(others))
    return {**kept, "PYTHONPATH": str(workspace), "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": blocked}


def cold(workspace: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """The medians of each command: seconds on the clock, and of processor time, which another program's work hardly changes."""
    empty = workspace.parent / "empty"
    empty.mkdir()
    (empty / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COLD}
    for number in range(-1, rounds):  # the first round writes byte code
        for name, arguments in COLD.items():
            start, before = time.perf_counter(), os.times()
            run = subprocess.run(
                [sys.executable, *arguments],
                cwd=workspace,
                env=environment(workspace),
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == 0, run.stdout + run.stderr
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            if number >= 0:
                times[name].append((time.perf_counter() - start, used))
    return {name: (median(wall for wall, _ in found), median(used for _, used in found)) for name, found in times.items()}


def edits() -> dict[str, list[dict[str, str]]]:
    """What is saved: two versions of some files, in turn. Each save changes what its name says, and so has a first word."""
    right = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "solutions").glob("*.py")}
    numpy, torch = "numpy_attention.py", "torch_attention.py"
    lines = {
        "right": [
            "b, h, n, d = x.shape\n    return x.swapaxes(1, 2).reshape(b, n, h * d)",
            "return x.swapaxes(1, 2).reshape(len(x), x.shape[2], -1)",
        ],
        "wrong": ["b, h, n, d = x.shape\n    return x.reshape(b, n, h * d)", "return x.reshape(len(x), x.shape[2], -1)"],
    }
    made = {name: [f"\n\n\ndef merge_heads(x):\n    {code}\n" for code in codes] for name, codes in lines.items()}
    return {
        "one exercise (NumPy), right": [{numpy: right[numpy] + text} for text in made["right"]],
        "one exercise (NumPy), wrong": [{numpy: right[numpy] + text} for text in made["wrong"]],
        "one exercise (PyTorch), right": [{torch: right[torch] + text} for text in made["right"]],
        "all files": [right, {name: f"{text}\n# saved\n" for name, text in right.items()}],
    }


def warm(workspace: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """The medians of the first and of the last word on each edit, in seconds."""
    run = subprocess.run(
        [sys.executable, "-c", WATCH, str(rounds)], input=json.dumps(edits()),
        cwd=workspace, env=environment(workspace), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    return {name: (median(first), median(last)) for name, (first, last) in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds, not 10")
    parser.add_argument("--workspace", type=Path, help="one that is there already; it will be written to")
    given = parser.parse_args()
    rounds = 3 if given.quick else 10
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        if given.workspace:
            shutil.copytree(given.workspace, workspace)
        else:
            release = [sys.executable, "-m", "grader", "release", str(workspace), "--for", "students"]
            subprocess.run(release, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        solve(workspace)
        answers, medians = warm(workspace, 2 * rounds), cold(workspace, rounds)
    walls, used = ({name: pair[place] for name, pair in medians.items()} for place in (0, 1))
    print("| cold | on the clock | aim | processor time | beside `import torch, pytest` |\n|---|---|---|---|---|")
    allowed = f"{1.15 * walls[TORCH] + 0.5:.2f} s"
    aims = {"pytest -k numpy_attention": "1.00 s", "pytest, without a trained BERT": allowed, "pytest": allowed}
    for name, seconds in walls.items():
        print(f"| {name} | {seconds:.2f} s | {aims.get(name, '')} | {used[name]:.2f} s | {used[name] / used[TORCH]:.2f} |")
    print("\n| saved, in `grader watch` | first word | last word | last word beside cold `pytest` | aim |\n|---|---|---|---|---|")
    for name, (first, last) in answers.items():
        aim = "0.30 s" if name == "all files" else "0.15 s, 0.30 s"
        print(f"| {name} | {first:.3f} s | {last:.3f} s | {last / walls['pytest']:.3f} | {aim} |")


if __name__ == "__main__":
    main()
