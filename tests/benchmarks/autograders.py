"""How fast nbgrader and otter-grader grade the same exercises: `python -m tests.benchmarks.autograders --help`.

Both come from PyPI into an environment of their own under --cache, which is made at the first run. They grade a plain notebook:
the solution of `numpy_attention.py`, and the lesson's worked example and the like as checks, one cell an exercise, which
is less than a tenth of what ours run. Ours grades the same class as notebooks, on all checks of that module. Rounds alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "solutions" / "numpy_attention.py").read_text(encoding="utf-8")
NEEDED = ("otter-grader>=6", "nbgrader>=0.9", "ipykernel")
NAME = "numpy_attention"
TIMES = 50  # how many of ours are graded for one of theirs: a whole class, in less time
CHECKS = {
    "softmax": "assert np.allclose(softmax(np.array([[1.0, 2.0], [1000.0, 1000.0]])).sum(-1), 1)",
    "split_heads": "assert np.allclose(split_heads(np.arange(16.0).reshape(1, 2, 8), 2)[0, 1, 0], [4, 5, 6, 7])",
    "attention": "assert attention(np.ones((3, 2)), np.ones((4, 2)), np.ones((4, 5)))[0].shape == (3, 5)",
    "merge_heads": "x = np.arange(24.0).reshape(1, 2, 3, 4)\nassert np.allclose(split_heads(merge_heads(x), 2), x)",
    "MultiHeadAttention": "assert MultiHeadAttention(8, 2).forward(np.ones((1, 3, 8)))[0].shape == (1, 3, 8)",
}


def environment(cache: Path) -> Path:
    """A Python with both peers, that finds our NumPy as well."""
    place = cache / "autograders"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (place / "ready").exists():
        venv.create(place, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED, "numpy"], check=True)
        (place / "ready").touch()
    return python


def source(number: int) -> str:
    """One student's: all of it right, no two alike."""
    return f"# student {number}\n{SOURCE}"


def nbgrader(python: Path, folder: Path, count: int) -> Callable[[], None]:
    """A course of nbgrader's with one assignment that everybody handed in; gives what grades it."""
    cells = [new_markdown_cell("Multi-head attention", metadata=_meta("intro", locked=True))]
    cells += [new_code_cell(source(0), metadata=_meta("answer", solution=True))]
    cells += [new_code_cell(check, metadata=_meta(name, grade=True, locked=True, points=1)) for name, check in CHECKS.items()]
    _write(folder / "source" / "lesson" / f"{NAME}.ipynb", cells)
    (folder / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'course'\n", encoding="utf-8")
    path = {**os.environ, "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])}
    run = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": path}
    command = [python, "-m", "nbgrader"]
    subprocess.run([*command, "generate_assignment", "lesson", "--create", "--force"], **run)  # type: ignore[call-overload]
    for number in range(count):
        cells[1] = new_code_cell(source(number), metadata=_meta("answer", solution=True))
        _write(folder / "submitted" / f"s{number:04}" / "lesson" / f"{NAME}.ipynb", cells)

    def grade() -> None:
        subprocess.run([*command, "autograde", "lesson", "--force"], **run)  # type: ignore[call-overload]
        graded = list((folder / "autograded").rglob("*.ipynb"))
        assert len(graded) == count
        cells = [cell for path in graded for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)

    return grade


def otter(python: Path, folder: Path, count: int) -> Callable[[], None]:
    """A folder of submissions for `otter run`, which is what `otter grade` starts in a container for each."""
    tests = folder / "tests"
    tests.mkdir(parents=True)
    for name, check in CHECKS.items():
        lines = "".join(f">>> {line}\n" for line in check.split("\n"))
        case = {
            "name": name,
            "points": 1,
            "suites": [{"type": "doctest", "cases": [{"code": lines, "hidden": False, "locked": False}]}],
        }
        (tests / f"{name}.py").write_text(f"OK_FORMAT = True\ntest = {case!r}\n", encoding="utf-8")
    script = [python, "-m", "otter", "run"]
    config = folder / "otter_config.json"
    config.write_text('{"show_stdout": false}', encoding="utf-8")
    archive = shutil.make_archive(str(folder / "autograder"), "zip", root_dir=folder, base_dir=".")
    for number in range(count):
        _write(folder / "submitted" / f"s{number:04}.ipynb", [new_code_cell(source(number)), *_otter_cells()])

    def grade() -> None:
        for path in sorted((folder / "submitted").iterdir()):
            out = folder / "results" / path.stem
            out.mkdir(parents=True, exist_ok=True)
            command = [*script, str(path), "-a", archive, "-o", str(out), "--no-logo"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            found = json.loads((out / "results.json").read_text())["tests"]
            assert sum(test.get("score", 0) for test in found) == len(CHECKS), found

    return grade


def _otter_cells() -> list[Any]:
    cells = [new_code_cell("import otter\ngrader = otter.Notebook()")]
    return cells + [new_code_cell(f'grader.check("{name}")') for name in CHECKS]


def ours(folder: Path, count: int, workers: int) -> Callable[[], None]:
    """The same notebooks for `grader class`, on every check of the module."""
    for number in range(count):
        _write(folder / "class" / f"s{number:04}" / f"{NAME}.ipynb", [new_code_cell(source(number))])

    def grade() -> None:
        shutil.rmtree(folder / "out", ignore_errors=True)
        command = [sys.executable, "-m", "grader", "class", str(folder / "class"), "--out", str(folder / "out")]
        command += ["--workers", str(workers), "-k", NAME]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]
        assert len(found) == count
        assert all(report["score"] == report["max_score"] > 0 for report in found)

    return grade


def _meta(name: str, **more: Any) -> dict[str, Any]:
    cell = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, "grade_id": name, **more}
    return {"nbgrader": cell}


def _write(path: Path, cells: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), path)


def main(quick: bool = False, count: int = 0, rounds: int = 0, cache: str = "") -> str:
    """Markdown: seconds a round and submissions a second, for each; the medians' ratios to ours."""
    count, rounds = count or (4 if quick else 20), rounds or (1 if quick else 3)
    python = environment(Path(cache or os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attention-exercises")
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in ("nbgrader", "otter", "1 worker", "2 workers")}
        graders = {
            "stock `nbgrader autograde`": nbgrader(python, folders["nbgrader"], count),
            "`otter run`": otter(python, folders["otter"], count),
            "`grader class`, 1 worker": ours(folders["1 worker"], TIMES * count, 1),
            "`grader class`, 2 workers": ours(folders["2 workers"], TIMES * count, 2),
        }
        times: dict[str, list[float]] = {name: [] for name in graders}
        for _ in range(rounds):
            for name, grade in graders.items():
                start = time.perf_counter()
                grade()
                times[name].append(time.perf_counter() - start)
    rates = {name: (count if "class" not in name else TIMES * count) / statistics.median(each) for name, each in times.items()}
    best = rates["`grader class`, 2 workers"]
    lines = ["| grader | submissions | rounds | a second, start-up included | ours with 2 workers is |", "|---|---|---|---|---|"]
    for name, rate in rates.items():
        number = count if "class" not in name else TIMES * count
        lines.append(f"| {name} | {number} | {rounds} | {rate:.3g} | {best / rate:.3g} times as fast |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="submissions that a peer grades; ours grades fifty times as many")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--cache", default="", help="where the peers' environment is kept")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(main(given.quick, given.count, given.rounds, given.cache))
