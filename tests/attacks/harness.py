"""Grades hostile submissions and says what they won. Run as a program it prints that as JSON.

An attack is one file, `KIND/IDEA.py`: a submission of one exercise file that answers wrongly and tries one thing, which
its docstring says. What it may try to reach is set up by `Bait`: a secret to read, a folder to write to, a process to
signal, ports and sockets to connect to. An attack that got hold of the secret prints it, raises it or returns it.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # when it is run as a program

from grader import grade
from grader.checks import Checks
from grader.confined.runner import Runner
from grader.course import Course, Limits, find_course
from grader.report import Report
from grader.submission import Submission
from grader.tape import Taped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ATTACKS = {  # what is hardly Python lies in .txt, so that no tool trips over it
    path.relative_to(HERE).with_suffix("").as_posix(): path for path in sorted([*HERE.glob("*/*.py"), *HERE.glob("*/*.txt")])
}
MODULES = {"torch": "torch_attention", "grouped": "grouped_query"}  # by kind; all others hand in NumPy's
SELECT = [  # these show as much as all exercises, sooner
    *("numpy_attention.softmax", "numpy_attention.attention", "torch_attention.attention", "torch_attention.MultiHeadAttention"),
    *("grouped_query.grouped_query_attention", "grouped_query.GroupedQueryAttention", "grouped_query.kv_cache_bytes"),
]
FORM = (  # no value is due there, only parameters, a shape and inputs left alone: an attack has to come so far first
    *("mha_parameters", "layer_parameters", "layer_state", "attention_leaves_its_inputs"),
)
LIMITS = Limits(call_seconds=0.5, exercise_seconds=0.5, import_seconds=1.2, memory_mb=512, cpu_seconds=20)
PATIENT = Limits(memory_mb=512)
MEMORY = 400  # MiB that the grader may grow by over one attack


class Bait:
    """What an attack may try to reach; `touched` says what was. Two with other numbers do not meet."""

    def __init__(self, number: int) -> None:
        self.number, self.secret, self.folder = number, secrets.token_hex(16), Path(f"/tmp/grader-bait{number or ''}")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.victim = self._victim()
        self._lay()
        self.sockets = [
            self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 47113 + 10 * number)),
            self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 47114 + 10 * number)),
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "socket")),
            self._listen(socket.AF_UNIX, socket.SOCK_DGRAM, str(self.folder / "letters")),
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, f"\0grader-bait{number or ''}"),
        ]
        for name in ("socket", "letters"):
            (self.folder / name).chmod(0o777)
        self.before, self.kernel, self.memory = self._files(), self._kernel() | self._keys(), 0

    def source(self, path: Path) -> bytes:
        """An attack, turned to this bait."""
        text = path.read_bytes()
        for number in (47113, 47114):
            text = text.replace(str(number).encode(), str(number + 10 * self.number).encode())
        text = text.replace(b"0x42", hex(0x42 + self.number).encode())
        return text.replace(b"grader-bait", f"grader-bait{self.number or ''}".encode())

    def _victim(self) -> subprocess.Popen[bytes]:
        nowhere = subprocess.DEVNULL  # it would hold our pipes if this process died
        return subprocess.Popen(["sleep", "1000"], env={"SECRET": self.secret}, stdin=nowhere, stdout=nowhere, stderr=nowhere)

    def _lay(self) -> None:
        """The files as they should be."""
        shutil.rmtree(self.folder / "open", ignore_errors=True)
        (self.folder / "open").mkdir()
        texts = {"secret.txt": self.secret, "victim.pid": str(self.victim.pid), "open/kept.txt": "kept"}
        for name, text in texts.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o666 if "open" in name else 0o644)
        (self.folder / "open").chmod(0o777)

    def _listen(self, family: int, kind: int, address: object) -> socket.socket:
        end = socket.socket(family, kind)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind(address)
        if kind == socket.SOCK_STREAM:
            end.listen()
        end.setblocking(False)
        return end

    def _files(self) -> list[tuple[Any, ...]]:
        found = []
        for path in sorted((self.folder, *self.folder.rglob("*"))):
            state, names = path.lstat(), os.listxattr(path, follow_symlinks=False)
            text = path.read_bytes() if path.is_file() else b""
            found.append((str(path), state.st_mode, state.st_uid, state.st_mtime_ns, names, text))
        return found

    def _kernel(self) -> set[str]:
        """System V's objects under this bait's key, which outlive a process."""
        lines = {line for kind in ("shm", "msg", "sem") for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]}
        return {line for line in lines if int(line.split()[0]) == 0x42 + self.number}

    @staticmethod
    def _keys() -> set[str]:
        """The users that keep keys in the kernel besides their two rings. Each submission is a user of its own, when root grades."""
        path = Path("/proc/key-users")
        lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
        users = (line[0].rstrip(":") for line in lines if int(line[3].partition("/")[0]) > 2)
        return {f"keys of user {user}" for user in users if 61184 <= int(user) < 65520}  # as `lockdown` picks them

    def _forget(self) -> None:
        """Take away what attacks left in the kernel under their key, when the wall was off."""
        libc = ctypes.CDLL(None)
        removals = {"shm": lambda id: libc.shmctl(id, 0, None), "msg": lambda id: libc.msgctl(id, 0, None)}
        removals["sem"] = lambda id: libc.semctl(id, 0, 0)
        for kind, remove in removals.items():
            for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]:
                key, id = map(int, line.split()[:2])
                if key == 0x42 + self.number:
                    remove(id)
        for user in (keys.split()[-1] for keys in self._keys() - self.kernel):
            clear = "[libc.syscall(250, 7, ring) for ring in (-4, -5)]"  # keyctl's KEYCTL_CLEAR
            become = f"import ctypes, os; libc = ctypes.CDLL(None); os.setresuid({user}, {user}, {user})"
            subprocess.run([sys.executable, "-S", "-c", f"{become}; {clear}"], check=True)

    def touched(self, report: Report) -> list[str]:
        """What an attack reached, in words; everything is as before afterwards."""
        found = [f"it reached {end.getsockname()!r}" for end in self.sockets if self._heard(end)]
        found += [f"it left {thing} in the kernel" for thing in (self._kernel() | self._keys()) - self.kernel]
        if self.secret in repr(report):
            found.append("it read the secret")
        if self.victim.poll() is not None:
            found.append("it killed a process")
            self.victim = self._victim()
        elif self._files() != self.before:
            found.append("it changed files")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        if self.memory and peak > self.memory + MEMORY:
            found.append(f"the grader needed {peak - self.memory} MiB more")
        self.memory = peak
        if found:
            self._forget()
            self._lay()
            self.before, self.kernel = self._files(), self._kernel() | self._keys()
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
        shutil.rmtree(self.folder)


class Patient(Taped):
    """An honest submission has all the time that it needs, on a busy machine too; attacks have little."""

    honest: frozenset[bytes] = frozenset()

    def __init__(self, runner: Runner, modules: Any, *more: Any) -> None:
        super().__init__(runner, modules, *more)
        if self.honest.issuperset(modules.values()):
            self.limits = PATIENT


def descendants(pid: int) -> set[int]:
    """The processes below `pid`, zombies too."""
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = {int(child) for task in tasks for child in (task / "children").read_text().split()}
        return children.union(*map(descendants, children))
    return set()


def wins(course: Course, names: Sequence[str], number: int = 0, **weaker: Any) -> dict[str, list[str]]:
    """What each attack won, graded one after another with an honest submission after each."""
    if "switches" in weaker and (os.geteuid() != 0 or "uid" not in weaker["switches"]):
        raise ValueError("with a part of the wall off, only another user's rights keep attacks from this machine")
    bait, won, threads = Bait(number), {}, threading.active_count()
    own = descendants(os.getpid())
    sources = {name: (course.solutions / f"{name}.py").read_bytes() for name in ("numpy_attention", *MODULES.values())}
    last = ""

    def submissions() -> Iterator[Submission]:
        for name in names:
            module = MODULES.get(name.partition("/")[0], "numpy_attention")
            yield Submission(name, {module: bait.source(ATTACKS[name])})
            if len(descendants(os.getpid()) - own) > 1:  # the zygote is there; the submission's own process has ended
                won[last].append("it left a process behind")
            yield Submission("honest", {module: sources[module]})

    def done(graded: Submission, report: Report) -> None:
        nonlocal last
        (module,) = graded.sources
        checks = [check for check in report.checks if check.exercise.startswith(module)]
        if graded.name == "honest":
            if not checks or any(check.status not in ("passed", "skipped") for check in checks):
                won[last].append("the next submission lost points")
            return
        last, earned = graded.name, [check.id for check in checks if check.status == "passed" and not check.id.endswith(FORM)]
        won[last] = bait.touched(report) + [f"it passed {id}" for id in earned]
        won[last] += [note for note in report.notes if "could not look for the mistake" in note]
        won[last] += [f"it broke {check.id}: {check.message}" for check in checks if check.status == "broken"]

    Patient.honest = frozenset(sources.values())
    patched = grade.Runner, grade.Taped
    grade.Runner, grade.Taped = functools.partial(Runner, **weaker), Patient  # type: ignore[misc, assignment]
    try:
        grade.grade_all(submissions(), dataclasses.replace(course, limits=LIMITS), done, select=" or ".join(SELECT))
    finally:
        grade.Runner, grade.Taped = patched  # type: ignore[misc]
        bait.close()
    assert threading.active_count() == threads
    return won


def honest_until(course: Course, seconds: float) -> list[str]:
    """Grade right submissions for some time; what went wrong."""
    right = {name: (course.solutions / f"{name}.py").read_bytes() for name in ("numpy_attention", *MODULES.values())}
    wrong, count, end = [], 0, time.monotonic() + seconds

    def submissions() -> Iterator[Submission]:
        nonlocal count
        while time.monotonic() < end or not count:
            yield Submission("honest", right)
            count += 1

    def done(_: Submission, report: Report) -> None:
        wrong.extend(f"{check.id}: {check.message}" for check in report.checks if check.status not in ("passed", "skipped"))

    grade.grade_all(submissions(), course, done, select=" or ".join(SELECT))
    return [*wrong, *(["nothing was graded"] if not count else [])]


def two_at_once(
    names: Sequence[str], *, python: Sequence[str] = (sys.executable,), cwd: Path = ROOT, causes: bool = False, **weaker: Any
) -> dict[str, list[str]]:
    """What `wins` says of these attacks, graded by two processes beside each other; with `causes`, mistakes are looked for."""
    found: dict[str, list[str]] = {}
    running = []
    for number in range(2):
        order = {"names": names[number::2], "number": number, "causes": causes, "weaker": weaker}
        command = [*python, str(cwd / "tests" / "attacks" / "harness.py"), json.dumps(order)]
        running.append(subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for process in running:
        out, errors = process.communicate(timeout=900)
        told = [line.removeprefix("WON ") for line in out.splitlines() if line.startswith("WON ")]
        assert told, out[-3000:] + errors[-3000:]
        found |= json.loads(told[0])
    return found


def main() -> None:
    """The command line holds one JSON object: what to grade."""
    order, course = json.loads(sys.argv[1]), find_course(ROOT)
    if not order.get("causes"):
        Checks._cause = lambda *_: {}  # type: ignore[method-assign]  # advice on mistakes: slower than all the rest
    weaker = order.get("weaker", {})
    if "switches" in weaker:
        weaker["switches"] = frozenset(weaker["switches"])
    if "honest_seconds" in order:
        result: Any = honest_until(course, order["honest_seconds"])
    else:
        result = wins(course, order["names"], order["number"], **weaker)
    print("WON", json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
