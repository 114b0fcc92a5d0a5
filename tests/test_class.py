"""`grader class` with real processes: killed at any moment, by anybody, it ends with the same bytes, and nobody is lost."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from conftest import TINY
from grading import ROOT, grade_each

from grader.classes.classroom import Journal
from grader.classes.discover import discover
from grader.classes.workers import Job, Order
from grader.course import Course
from grader.submission import Submission, SubmissionError

DIES = """
    import os
    import pytest
    from grader import expect

    @pytest.mark.check("tiny.double", points=1)
    def test_double_of_0(student):
        \"\"\"twice 0 is 0\"\"\"
        if student.double(0) == -13:
            os._exit(9)  # this takes the grader's own process down, and is no student's doing
        expect.integer(student.double(0), 0, "double(0)")
"""
RIGHT = "def double(x):\n    return x + x\n\ndef negate(x):\n    return -x\n"
SUBMISSIONS = {
    **{f"right-{number}": f"{RIGHT}# {number}\n" for number in range(4)},
    **{f"wrong-{number}": f"def double(x):\n    return x * {number}\n\ndef negate(x):\n    return -x\n" for number in (3, 4, 5)},
    "=1+1": RIGHT.replace("-x", "x"),
    "stub": "def double(x):\n    raise NotImplementedError\n",
    "leaves": "import os\n\ndef double(x):\n    os._exit(0)\n\ndef negate(x):\n    return -x\n",
    "<script>alert(1)<": "def double(x):\n    raise ValueError('<script>alert(1)</script>')\n",
    "no python": "def double(:\n",
    "a\nb": RIGHT,
}
RESULTS = ("results.jsonl", "class.html", "gradebook.csv", "canvas.csv", "moodle.csv")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny course with a class, and a check in it that can kill the grader."""
    root = tmp_path_factory.mktemp("tiny")
    for name, text in {**TINY, "tests/checks/hidden/test_dies.py": DIES}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip())
    for student, text in SUBMISSIONS.items():
        folder = root / "class" / student.replace("/", "∕")
        folder.mkdir(parents=True)
        (folder / "tiny.py").write_text(text)
    (root / "class" / "broken.zip").write_text("no zip")
    return root


def command(root: Path, out: Path, *arguments: str, folder: str = "class") -> list[str]:
    return [sys.executable, "-m", "grader", "--course", str(root), "class", str(root / folder), "--out", str(out), *arguments]


def run(root: Path, out: Path, *arguments: str, folder: str = "class", **settings: Any) -> subprocess.CompletedProcess[str]:
    arguments = tuple(command(root, out, *arguments, folder=folder))
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False, **settings)


def everything(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def lines(out: Path) -> dict[str, dict[str, Any]]:
    return {data["student"]: data for data in map(json.loads, (out / "results.jsonl").read_text().splitlines())}


def journal(out: Path) -> int:
    try:
        return (out / "results.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            yield child
            yield from descendants(child)


def is_worker(pid: int) -> bool:
    return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def wait_for(what: Any, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tiny: Path) -> dict[str, bytes]:
    """What one worker writes that nobody disturbs."""
    out = tiny / "undisturbed"
    done = run(tiny, out, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "1 with a note, such as a file that can't be read" in done.stdout
    return everything(out)


def test_what_it_writes(tiny: Path, undisturbed: dict[str, bytes]) -> None:
    found = lines(tiny / "undisturbed")
    scores = {name: data["score"] for name, data in found.items()}
    assert scores == {
        **{f"right-{number}": 6 for number in range(4)}, **dict.fromkeys(("wrong-3", "wrong-4", "wrong-5"), 4), "=1+1": 3,
        "stub": 0, "leaves": 3, "<script>alert(1)<": 0, "no python": 0, "a b": 6, "broken": 0,
    }  # fmt: skip
    assert list(found) == sorted(found)
    assert set(RESULTS) < undisturbed.keys()
    assert "broken.zip is no zip that can be opened" in found["broken"]["exercises"][0]["checks"][0]["message"]
    book = undisturbed["gradebook.csv"].decode().splitlines()
    assert book[0] == "student,tiny.double,tiny.negate,score,max_score,status,notes"
    assert "'=1+1,3,0,3,6,graded," in book
    assert any(line.startswith("broken,0") and "broken.zip is no zip that can be opened" in line for line in book)
    assert len(book) == len(found) + 1
    for data in found.values():
        report = {key: value for key, value in data.items() if key not in ("student", "fingerprint")}
        assert any(json.loads(text) == report for name, text in undisturbed.items() if name.endswith("report.json"))
    assert not [name for name in undisturbed if name.endswith(".new")]


def test_killed_at_any_moment_it_goes_on(tiny: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    out, draw = tmp_path / "out", random.Random(3)
    for _ in range(2):  # tests/benchmarks/class_throughput.py does it more often
        process = subprocess.Popen(command(tiny, out, "--workers", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        goal = journal(out) + draw.randrange(1, 6)
        wait_for(lambda goal=goal, process=process: journal(out) >= goal or process.poll() is not None)
        time.sleep(draw.random() * 0.05)
        family = list(descendants(process.pid))
        process.kill()
        process.wait()
        wait_for(lambda family=family: not [pid for pid in family if Path(f"/proc/{pid}").exists()], 20)  # nobody is left behind
        with (out / "results.jsonl").open("ab") as file:
            file.write(b'{"student": "right-1", "sco')  # a line that was torn off
    kept = journal(out)
    done = run(tiny, out, "--workers", "1")
    assert f"{kept} of {len(SUBMISSIONS) + 1} graded, {kept} of them before" in done.stderr
    assert everything(out) == undisturbed


def test_ctrl_c_says_how_to_go_on(tiny: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # who runs us in the background ignores it
    process = subprocess.Popen(command(tiny, out), text=True, start_new_session=True, preexec_fn=heed, **pipes)
    wait_for(lambda: journal(out) >= 3)
    os.killpg(process.pid, signal.SIGINT)
    stderr = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert "stopped. Nothing is lost: run the same command again" in stderr
    assert "Traceback" not in stderr
    assert run(tiny, out, "--workers", "2").returncode == 0
    assert everything(out) == undisturbed


def test_a_killed_worker_costs_nobody(tiny: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(command(tiny, out, "--workers", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: journal(out) >= 3)
    os.kill(next(pid for pid in descendants(process.pid) if is_worker(pid)), signal.SIGKILL)
    assert process.wait(120) == 0
    assert everything(out) == undisturbed


def test_who_kills_every_worker_is_broken_alone_and_tried_again(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "class"
    for student, text in {"one": RIGHT, "killer": RIGHT.replace("x + x", "x + x if x else -13"), "two": f"{RIGHT}#"}.items():
        (folder / student).mkdir(parents=True)
        (folder / student / "tiny.py").write_text(text)
    done = run(tiny, tmp_path / "out", "--workers", "2", folder=str(folder))
    assert done.returncode == 3
    found = lines(tmp_path / "out")
    assert {name: (data["status"], data["score"]) for name, data in found.items()} == {
        "killer": ("broken", 0), "one": ("graded", 6), "two": ("graded", 6),
    }  # fmt: skip
    assert "the grader broke, not the student" in found["killer"]["notes"][0]
    with contextlib.closing(Journal(tmp_path / "out" / "results.jsonl")) as kept:
        assert kept.fingerprints.keys() == {"one", "two"}  # who is broken is due again


def test_only_what_changed_is_graded_again(tiny: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    shutil.copytree(tiny / "class", tmp_path / "class")
    shutil.copytree(tiny / "undisturbed", tmp_path / "out")
    (tmp_path / "class" / "right-1" / "tiny.py").write_text(RIGHT.replace("-x", "x"))
    shutil.rmtree(tmp_path / "class" / "right-2")
    total = len(SUBMISSIONS)
    first = run(tiny, tmp_path / "out", folder=str(tmp_path / "class"))
    assert f"{total - 1} of {total} graded, {total - 1} of them before" in first.stderr
    found = lines(tmp_path / "out")
    assert found["right-1"]["score"] == 3
    assert "right-2" not in found


def test_whatever_a_result_depends_on_changes_its_fingerprint() -> None:
    job, order = Job(Submission("ada", {"tiny": b"x"}), ()), Order("/here", "engine", 1)
    others = [
        job.fingerprint(Order("/here", "engine", 2)), job.fingerprint(Order("/here", "other", 1)),
        job.fingerprint(Order("/here", "engine", 1, "softmax")), job.fingerprint(Order("/here", "engine", 1, "", "strong")),
        Job(Submission("ada", {"tiny": b"y"}), ()).fingerprint(order),
        Job(Submission("ada", {"tiny": b"x"}), ("late",)).fingerprint(order),
        Job(Submission("ada", {}, {"tiny": "x"}), ()).fingerprint(order),
    ]  # fmt: skip
    assert len({job.fingerprint(order), *others}) == 1 + len(others)
    assert job.fingerprint(Order("/there", "engine", 1)) == job.fingerprint(order)


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))  # to a writer this is a disk that fills


def test_a_disk_that_fills_is_one_sentence_and_loses_nothing(tiny: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    full = run(tiny, tmp_path / "out", preexec_fn=limit_files)
    assert full.returncode == 2
    assert "can't be written" in full.stderr
    assert "Traceback" not in full.stderr
    assert journal(tmp_path / "out") > 0
    assert run(tiny, tmp_path / "out").returncode == 0
    assert everything(tmp_path / "out") == undisturbed


def test_another_selection_does_not_take_the_place_of_results(tiny: Path, tmp_path: Path) -> None:
    """A gradebook does not lose columns without a word. More columns, or the same again, is no loss."""
    out = tmp_path / "out"
    assert run(tiny, out, "-k", "double").returncode == 0
    before = everything(out)
    other = run(tiny, out, "-k", "negate")
    assert (other.returncode, other.stderr.count("\n")) == (2, 1)
    assert "holds the results of -k 'double'" in other.stderr
    assert everything(out) == before
    assert run(tiny, out, "-k", "double").returncode == 0
    assert everything(out) == before
    assert run(tiny, out).returncode == 0
    assert b"tiny.negate" in (out / "gradebook.csv").read_bytes()
    assert run(tiny, out, "-k", "double").returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is below")
def test_who_cannot_be_read_is_told(course: Course) -> None:
    """Read by a user who may not enter a student's folder, or the class's: the one is refused, the other is a sentence."""

    def seen(folder: Path) -> str:
        ours, theirs = os.pipe()
        if not (pid := os.fork()):
            os.setuid(59_999)
            try:
                found, _ = discover(folder, course, folder / "out")
                told = "; ".join(f"{item.student}: {item.unreadable or sorted(item.chosen)}" for item in found)
            except SubmissionError as error:
                told = str(error)
            os.write(theirs, told.encode())
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(theirs)
        with os.fdopen(ours) as file:
            return file.read()

    with tempfile.TemporaryDirectory() as place:
        everybody = Path(place)
        everybody.chmod(0o755)
        for student in ("ada", "bob"):
            (everybody / student).mkdir()
            (everybody / student / "numpy_attention.py").write_text("x = 1\n")
        (everybody / "bob").chmod(0o700)
        told = seen(everybody)
        assert "ada: ['numpy_attention']" in told
        assert "bob: bob can't be read: permission denied" in told
        assert "can't be read: permission denied" in seen(everybody / "bob")


@pytest.mark.parametrize("case", ["missing", "empty", "itself", "inside", "file", "busy"])
def test_bad_folders_are_one_sentence(tiny: Path, tmp_path: Path, case: str) -> None:
    folder, out = tmp_path / "class", tmp_path / "out"
    if case != "missing":
        folder.mkdir()
    if case in ("itself", "inside", "file", "busy"):
        (folder / "ada_tiny.py").write_text(RIGHT)
    if case == "file":
        out.write_text("")
    if case == "busy":
        import fcntl

        out.mkdir()
        held = os.open(out, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
    out = {"itself": folder, "inside": tmp_path}.get(case, out)
    before = everything(tmp_path)
    done = run(tiny, out, folder=str(folder))
    assert done.returncode == 2
    assert done.stderr.startswith("grader: ")
    assert done.stderr.count("\n") == 1
    assert everything(tmp_path) == before


def test_a_check_that_cannot_be_collected_stops_at_once(tiny: Path, tmp_path: Path) -> None:
    root = tmp_path / "course"
    shutil.copytree(tiny, root, ignore=shutil.ignore_patterns("undisturbed"))
    (root / "tests/checks/hidden/test_dies.py").write_text("import nothing_of_this_name\n")
    done = run(root, tmp_path / "out")
    assert done.returncode == 3
    assert "the grader broke, not a submission" in done.stderr
    assert journal(tmp_path / "out") == 0


CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, *(worker.pid for worker in cluster.workers.values()), flush=True)
        sys.stdin.readline()
"""


def test_dask_with_a_worker_killed_half_way(tiny: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    out, script = tmp_path / "out", tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, str(script)], text=True, **pipes) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        address, first, _ = cluster.stdout.readline().split()
        process = subprocess.Popen(
            command(tiny, out, "--dask", address), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        wait_for(lambda: journal(out) >= 4)
        os.kill(int(first), signal.SIGKILL)
        stderr = process.communicate(timeout=120)[1]
        cluster.stdin.write("\n")
        cluster.stdin.close()
    assert process.returncode == 0, stderr
    assert everything(out) == undisturbed


def test_no_scheduler_is_one_sentence(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    done = run(tiny, tmp_path / "out", "--dask", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "grader: no Dask scheduler answers at tcp://127.0.0.1:9 (OSError)" in done.stderr


def test_the_course_s_own_class_scores_what_grade_scores(tmp_path: Path) -> None:
    from classes import submissions

    class_ = {student: files for student, files in submissions(14) if student in ("student-0000", "student-0001", "student-0005")}
    for student, files in class_.items():
        for name, text in files.items():
            (tmp_path / "class" / student).mkdir(parents=True, exist_ok=True)
            (tmp_path / "class" / student / name).write_text(text)
    select = "softmax or split_heads"
    assert run(ROOT, tmp_path / "out", "-k", select, folder=str(tmp_path / "class")).returncode == 0
    alone = grade_each(class_, select=select)
    found = lines(tmp_path / "out")
    assert {name: {k: v for k, v in data.items() if k not in ("student", "fingerprint")} for name, data in found.items()} == alone
