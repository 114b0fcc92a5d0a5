"""Hostile submissions: none wins, and the next student's is graded as if nothing had been.

An attack is one file, `tests/attacks/KIND/IDEA.py`: a submission of `numpy_attention.py` that answers wrongly and tries one thing, which the first line of its docstring says. What it may
try to reach is set up by `Bait`: a secret to read, a folder to write to, a process to signal, ports and sockets to connect to.
An attack that got hold of the secret prints it, raises it or returns it.

It has won when it scores, when the next submission loses points, or when the bait is touched. `wins` is also run with the
wall switched off: a suite in which nothing wins then proves nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import grade, lockdown
from grader.course import Course, Limits
from grader.report import Report
from grader.runner import Runner
from grader.submission import Submission

HERE = Path(__file__).resolve().parent
ATTACKS = sorted(path for path in HERE.glob("*/*.py") if not path.name.startswith("test_"))
BAIT = Path("/tmp/grader-bait")  # attacks know this path, and the ports below
TCP, UDP = 47113, 47114
SELECT = "numpy_attention.softmax or numpy_attention.attention"  # two exercises show as much as five, sooner
LIMITS = Limits(call_seconds=0.7, exercise_seconds=0.7, import_seconds=1.5, memory_mb=512, cpu_seconds=20)

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the wall is Linux's"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


class Bait:
    """What an attack may try to reach; `touched` says what was."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        BAIT.mkdir()
        BAIT.chmod(0o777)
        self.victim = self._victim()
        self._lay()
        self.sockets = [
            self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", TCP)),
            self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", UDP)),
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, str(BAIT / "socket")),
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, "\0grader-bait"),
        ]
        (BAIT / "socket").chmod(0o777)
        self.before = self._files()

    def _victim(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "1000"], env={"SECRET": self.secret})

    def _lay(self) -> None:
        """The files as they should be."""
        shutil.rmtree(BAIT / "open", ignore_errors=True)
        (BAIT / "open").mkdir()
        for name, text, mode in (
            ("secret.txt", self.secret, 0o644),
            ("victim.pid", str(self.victim.pid), 0o644),
            ("open/kept.txt", "kept", 0o666),
        ):
            (BAIT / name).write_text(text)
            (BAIT / name).chmod(mode)
        (BAIT / "open").chmod(0o777)

    def _listen(self, family: int, kind: int, address: object) -> socket.socket:
        end = socket.socket(family, kind)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind(address)
        if kind == socket.SOCK_STREAM:
            end.listen()
        end.setblocking(False)
        return end

    def _files(self) -> list[tuple[str, int, int, bytes]]:
        return sorted(
            (str(path), path.lstat().st_mode, path.lstat().st_uid, path.read_bytes() if path.is_file() else b"")
            for path in (BAIT, *BAIT.rglob("*"))
        )

    def touched(self, report: Report) -> list[str]:
        """What an attack reached, in words; everything is as before afterwards."""
        found = [f"it reached {end.getsockname()!r}" for end in self.sockets if self._heard(end)]
        if self.secret in repr(report):
            found.append("it read the secret")
        if self.victim.poll() is not None:
            found.append("it killed a process")
            self.victim = self._victim()
        elif self._files() != self.before:
            found.append("it changed files")
        if found:
            self._lay()
            self.before = self._files()
        return found

    def _heard(self, end: socket.socket) -> int:
        """How many connections or messages came."""
        for count in range(10_000):
            try:
                if end.type == socket.SOCK_STREAM:
                    end.accept()[0].close()
                else:
                    end.recv(99)
            except BlockingIOError:
                return count
        return 10_000

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for end in self.sockets:
            end.close()
        shutil.rmtree(BAIT)


def descendants(pid: int) -> set[int]:
    """The processes below `pid`, zombies too."""
    with contextlib.suppress(OSError):
        children = {
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        }
        return children.union(*map(descendants, children))
    return set()


def wins(course: Course, attacks: list[Path], **weaker: object) -> dict[str, list[str]]:
    """What each attack won, graded one after another with an honest submission after each."""
    bait, won, threads = Bait(), {}, threading.active_count()
    own = descendants(os.getpid())
    honest = Submission("honest", {"numpy_attention": (course.solutions / "numpy_attention.py").read_bytes()})

    def submissions() -> Iterator[Submission]:
        for path in attacks:
            yield Submission(f"{path.parent.name}/{path.stem}", {"numpy_attention": path.read_bytes()})
            if len(descendants(os.getpid()) - own) > 1:  # the zygote is there; the submission's own process has ended
                won[last].append("it left a process behind")
            yield honest

    def done(graded: Submission, report: Report) -> None:
        nonlocal last
        if graded is not honest:
            last = graded.name
            won[last] = bait.touched(report)
            if report.score > 0:
                won[last].append(f"it scored {report.score}")
        elif not report.checks or any(check.status != "passed" for check in report.checks):
            won[last].append("the next submission lost points")

    last = ""
    patched, grade.Runner = grade.Runner, functools.partial(Runner, **weaker)  # type: ignore[misc, assignment]
    try:
        limited = dataclasses.replace(course, limits=LIMITS)
        grade.grade_all(submissions(), limited, done, select=SELECT)
    finally:
        grade.Runner = patched  # type: ignore[misc]
        bait.close()
    assert threading.active_count() == threads
    return won


@pytest.fixture(scope="module")
def won(course: Course) -> dict[str, list[str]]:
    if lockdown.missing():
        pytest.skip(lockdown.missing())
    return wins(course, ATTACKS)


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_attack_wins_nothing(won: dict[str, list[str]], path: Path) -> None:
    assert won[f"{path.parent.name}/{path.stem}"] == []


WEAKER = {
    "limits alone": (frozenset({"rlimits", "uid"}), 20),
    "no Landlock": (lockdown.ALL - {"landlock"}, 5),
    "no seccomp": (lockdown.ALL - {"seccomp"}, 2),  # the other user and Landlock stop the rest
}


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="without the wall, only another user's rights protect this one"
)
@pytest.mark.parametrize(("switches", "least"), WEAKER.values(), ids=WEAKER.keys())
def test_without_a_part_of_the_wall_attacks_win(course: Course, switches: frozenset[str], least: int) -> None:
    if lockdown.missing():
        pytest.skip(lockdown.missing())
    quick = [path for path in ATTACKS if path.parent.name in ("files", "network", "reading", "signals", "survivors")]
    won = {name: found for name, found in wins(course, quick, switches=switches).items() if found}
    assert len(won) >= least
