"""The confined process: what ordinary code can do in it, what is told when it fails, and what it is kept from."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from grader.confined import link, lockdown, sources
from grader.confined.runner import IsolationUnavailable, Runner, RunnerFailed
from grader.course import Limits
from grader.trouble import Opaque, Stopped, Trouble

LIMITS = Limits(call_seconds=1, exercise_seconds=30, import_seconds=4, memory_mb=512, cpu_seconds=30, printed_kb=1)
LINUX = sys.platform.startswith("linux")
WALL = LINUX and not lockdown.missing()
KINDS = ["strong"] * WALL + ["process"] * LINUX + ["spawned"]


def start(kind: str, **settings: object) -> Runner:
    settings = {"limits": LIMITS, "preload": ("numpy",), **settings}
    if kind == "spawned":
        return Runner(**settings, zygote=False)  # type: ignore[arg-type]
    return Runner(**settings, isolation=kind)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=KINDS)
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    with start(request.param) as runner:
        yield runner


@pytest.fixture(scope="module")
def strong() -> Iterator[Runner]:
    if not WALL:
        pytest.skip("no Landlock and seccomp here")
    with start("strong") as runner:
        yield runner


def run(runner: Runner, source: str, *args: object, function: str = "f") -> object:
    """What `function` of a module with this source gives."""
    with runner.open({"work": source.encode()}) as confined:
        return getattr(confined.module("work", f"work.{function}"), function)(*args)


def trouble(runner: Runner, source: str, *args: object) -> Trouble:
    """What goes wrong in it."""
    with pytest.raises(Exception) as caught:
        run(runner, source, *args)
    found = getattr(caught.value, "trouble", None)
    assert isinstance(found, Trouble), repr(caught.value)
    return found


def test_a_generator_without_a_seed_is_another_each_time_but_the_same_in_every_run(runner: Runner) -> None:
    source = "import numpy as np\ndef f(): return np.stack([np.random.default_rng().random(3) for _ in range(2)])"
    (first, second), again = run(runner, source), run(runner, source)  # type: ignore[misc]
    assert np.any(first != second)
    np.testing.assert_array_equal([first, second], again)


def test_who_ends_the_process_in_each_call_pays_for_the_imports() -> None:
    source = b"import os, time\ntime.sleep(0.5)\ndef f(): os._exit(3)"
    told = []
    kind = "process" if LINUX else "spawned"
    with start(kind, limits=Limits(exercise_seconds=1)) as runner, runner.open({"work": source}) as confined:
        for _ in range(6):
            with pytest.raises(Stopped) as caught:
                confined.module("work", "work.f").f()
            told.append(str(caught.value))
    assert "f ended the process" in told[0]
    assert "used up its 1 s" in told[-1]


ORDINARY = {
    "plots": "import matplotlib.pyplot as plt\ndef f(): return callable(plt.plot)",
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\ndef f(): return A(3).x == 3",
    "a late import": "def f():\n    import numpy.fft, decimal, sqlite3, concurrent.futures, logging, unittest\n    return True",
    "threads": "import threading\ndef f():\n    o = []\n"
    "    t = [threading.Thread(target=o.append, args=(i,)) for i in range(8)]\n"
    "    [x.start() for x in t]; [x.join() for x in t]\n    return len(o) == 8",
    "a pool": "from concurrent.futures import ThreadPoolExecutor as P\ndef f():\n"
    "    with P(4) as p: return list(p.map(abs, [-1, 2])) == [1, 2]",
    "random numbers": "import os, random, secrets, numpy as np\ndef f():\n"
    "    return len(os.urandom(4)) == 4 and np.random.default_rng().random() < 1 and random.random() < 1",
    "a clock": "import time\ndef f():\n    time.sleep(0.01); return time.perf_counter() > 0",
    "linear algebra": "import numpy as np\ndef f(): return np.linalg.inv(np.eye(64)).sum() == 64",
    "its own names": "import inspect\ndef f(): return 'def f' in inspect.getsource(f) and __name__ == 'work'",
    "an empty /dev/null": "import os\ndef f():\n    with open(os.devnull) as g: return g.read() == ''",
}


@pytest.mark.parametrize("source", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_code_works(runner: Runner, source: str) -> None:
    assert run(runner, source)


def test_one_module_imports_another(runner: Runner) -> None:
    modules = {"first": b"def f(x): return x + 1", "second": b"from first import f\ndef g(x): return f(x) * 2"}
    with runner.open(modules) as confined:
        assert confined.module("second").g(1) == 4


def test_print_and_prints_end(runner: Runner) -> None:
    found = trouble(runner, "def f():\n    print('x' * 5000); print('the end'); raise ValueError('boo')")
    assert (found.kind, found.type, found.message) == ("raised", "ValueError", "boo")
    assert found.printed.endswith("the end\n") and len(found.printed) <= 1024
    assert [(frame.file, frame.line, frame.function) for frame in found.frames] == [("work.py", 2, "f")]
    assert found.frames[0].code.startswith("print('x' * 5000)")


def test_frames_are_the_students_own(runner: Runner) -> None:
    found = trouble(runner, "import numpy as np\ndef g(x):\n    return np.linalg.inv(x)\ndef f(): return g(np.zeros((2, 2)))")
    assert [frame.line for frame in found.frames] == [4, 3]
    assert (found.type, found.message) == ("ValueError", "LinAlgError: Singular matrix")


def test_an_endless_recursion_has_few_frames(runner: Runner) -> None:
    assert len(trouble(runner, "def f(): return f()").frames) == 20


ENDS = {
    "exits": ("import sys\ndef f(): sys.exit(3)", "exited", "f ended the process (SystemExit: 3)"),
    "exits at once": ("import os\ndef f(): os._exit(0)", "exited", "f ended the process (exit status 0)"),
    "skips": ("import pytest\ndef f(): pytest.skip('ha')", "exited", "f ended the process (Skipped: ha)"),
    "is interrupted": ("def f(): raise KeyboardInterrupt", "exited", "f ended the process (KeyboardInterrupt)"),
    "loops": ("def f():\n    while True:\n        x = 1", "timeout", "f ran longer than 1 s (line 2)"),
    "loops and calls": (
        "def h(n):\n    for i in range(n):\n        n = i\ndef g():\n    n = 9\n    while n:\n        h(99)\n        h(98)\n"
        "def f():\n    for i in range(9):\n        g()",
        "timeout",
        "f ran longer than 1 s (line 6)",
    ),
    "loops for long": (
        "def g(i):\n    return i\ndef f():\n    for i in range(10**12):\n        for j in range(9):\n            g(j)",
        "timeout",
        "f ran longer than 1 s (line 4)",
    ),
    "loops in C": ("def f():\n\n    return sum(range(10**14))", "timeout", "f ran longer than 1 s (line 3)"),
    "blocks signals": (
        "import signal, time\ndef f():\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n    time.sleep(60)",
        "timeout",
        "f ran longer than 1 s",
    ),
    "stops itself": (
        "import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGSTOP)",
        "timeout",
        "f ran longer than 1 s",
    ),
    "segfaults": (
        "import ctypes\ndef f():\n    ctypes.string_at(0)",
        "killed",
        "f crashed the interpreter (segmentation fault, line 3)",
    ),
    "aborts": ("import os\ndef f():\n    os.abort()", "killed", "f crashed the interpreter (abort, line 3)"),
    "prints without end": ("def f():\n    while True: print('x' * 10**5)", "malformed", "more than 64 MiB"),
    "answers too much": (
        "import numpy as np\ndef f(): return np.zeros(10**8, 'i1')",
        "malformed",
        "it has 95 MiB, and 64 are",
    ),
    "answers a giant": (
        "import numpy as np\ndef f(): return np.broadcast_to(np.float32(0), (10**6, 10**6))",
        "malformed",
        "what f gave back can't be taken",
    ),
    "writes to the wire": ("import os\ndef f(): os.write(3, b'x' * 99); return 1", "malformed", "longer than is allowed"),
}


@pytest.mark.parametrize(("source", "kind", "words"), ENDS.values(), ids=ENDS.keys())
def test_how_a_call_ends_is_told(runner: Runner, source: str, kind: str, words: str) -> None:
    if runner.source.__class__ is sources.Spawned and kind in ("malformed",) and "os.write(3" in source:
        pytest.skip("its frames have another descriptor")
    found = trouble(runner, source)
    assert found.kind == kind
    assert words in found.message


@pytest.mark.skipif(not LINUX, reason="memory is limited on Linux only")
@pytest.mark.parametrize("code", ["bytearray(2 << 30)", "[np.ones(10**6) for _ in range(10**4)]", "'x' * (2 << 30)"])
def test_memory_is_bounded(code: str) -> None:
    with start(KINDS[0], limits=Limits(memory_mb=512)) as runner:
        found = trouble(runner, f"import numpy as np\ndef f(): return {code}")
    assert (found.kind, found.message) == ("memory", "f needed more than the 512 MiB of memory")


def test_all_answers_together_are_bounded() -> None:
    source = b"import numpy as np\ndef f(): return np.zeros(10**5, bool)"
    with start(KINDS[0], limits=Limits(reply_mb=16)) as runner, runner.open({"work": source}) as confined:
        for _ in range(10):
            assert confined.module("work").f().size == 10**5
        with pytest.raises(Stopped, match="the answers of all calls are more than 16 MiB"):
            confined.module("work").f()


@pytest.mark.skipif(not LINUX, reason="there is a zygote on Linux only")
def test_a_process_that_is_ready_before_we_look_is_no_liar(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = link.Link.exchange
    monkeypatch.setattr(link.Link, "exchange", lambda *args: (time.sleep(0.2 if args[1] == b"" else 0), begin(*args))[1])
    with start(KINDS[0]) as runner:
        assert run(runner, "def f(): return 1") == 1


def test_no_process_leaves_a_note_for_the_next(strong: Runner) -> None:
    note = "import fcntl, os\ndef f():\n    was = fcntl.fcntl(0, 3)\n    fcntl.fcntl(0, 4, was | os.O_NONBLOCK)\n    return was"
    assert run(strong, note) == run(strong, note)


def test_a_crash_costs_only_its_own_call(runner: Runner) -> None:
    source = b"import os\nstate = []\ndef bad(): os._exit(1)\ndef good():\n    state.append(1)\n    return len(state)"
    with runner.open({"work": source}) as confined:
        work = confined.module("work")
        assert (work.good(), work.good()) == (1, 2)
        for _ in range(2):
            with pytest.raises(Stopped):
                work.bad()
        assert work.good() == 1


def test_an_exercise_has_its_own_time() -> None:
    limits = Limits(call_seconds=0.4, exercise_seconds=0.6, import_seconds=2)
    source = b"def slow():\n    while True: pass\ndef quick(): return 1"
    with start(KINDS[0], limits=limits) as runner, runner.open({"work": source}) as confined:
        messages = []
        for _ in range(3):
            with pytest.raises(Stopped) as caught:
                confined.module("work", "work.slow").slow()
            messages.append(str(caught.value))
        began = time.monotonic()
        assert confined.module("work", "work.quick").quick() == 1
        assert time.monotonic() - began < 0.4
        confined.begin("work.slow")
        with pytest.raises(Stopped):
            confined.module("work").quick()
    assert messages[0].startswith("slow ran longer than 0.4 s")
    assert messages[1:] == ["slow used up its 0.6 s"] * 2


@pytest.mark.skipif(not LINUX, reason="processor time is limited on Linux only")
def test_processor_time_is_bounded() -> None:
    limits = Limits(call_seconds=10, exercise_seconds=10, cpu_seconds=1)
    with start(KINDS[0], limits=limits) as runner:
        found = trouble(runner, "def f():\n    while True: pass")
    assert (found.kind, found.message) == ("timeout", "f used up 1 s of processor time")


IMPORTS = {
    "no Python": (b"def f(x:\n  return", "SyntaxError", "work.py line 1 is no Python ('(' was never closed): def f(x:"),
    "raises": (b"\nraise KeyError('a')", "KeyError", "work.py could not be imported: KeyError in line 2: 'a'"),
    "exits": (
        b"import os; os._exit(0)",
        "Stopped",
        "work.py could not be imported: it ended the process (exit status 0)",
    ),
    "hangs": (b"while True: pass", "TimeLimit", "work.py could not be imported: it ran longer than 4 s (line 1)"),
    "an unknown coding": (b"# coding: klingon\n", "SyntaxError", "unknown encoding: klingon"),
    "not UTF-8": (b"x = '\xff'\n", "SyntaxError", "work.py"),
    "nested deeply": (b"x = " + b"(" * 5000 + b")" * 5000, "SyntaxError", "too many nested parentheses"),
    "imports nothing real": (b"import nothing_real", "ModuleNotFoundError", "No module named 'nothing_real'"),
}


@pytest.mark.parametrize(("source", "name", "words"), IMPORTS.values(), ids=IMPORTS.keys())
def test_a_module_that_can_not_be_imported_says_why_each_time(runner: Runner, source: bytes, name: str, words: str) -> None:
    with runner.open({"work": source, "other": b"def f(): return 1"}) as confined:
        for _ in range(2):
            with pytest.raises(Exception) as caught:
                confined.module("work").f()
            found = caught.value.trouble  # type: ignore[attr-defined]
            assert (found.kind, found.type) == ("import", name)
            assert words in found.message
        assert confined.module("other").f() == 1


def test_a_byte_order_mark_and_a_coding_line_are_fine(runner: Runner) -> None:
    assert run(runner, "\ufeffdef f(): return 'é'") == "é"
    with runner.open({"work": "# coding: latin-1\ndef f(): return 'é'".encode("latin-1")}) as confined:
        assert confined.module("work").f() == "é"


def test_a_missing_function_is_told_when_it_is_called(runner: Runner) -> None:
    found = trouble(runner, "def g(): pass")
    assert (found.kind, found.message) == ("missing", "work has no f: it is still to do")


def test_an_answer_that_is_no_data_is_told(runner: Runner) -> None:
    assert run(runner, "def f(): return f") == Opaque("function", "<function f>")


def test_changed_arguments_come_back_changed(runner: Runner) -> None:
    x = np.zeros((2, 3)).T
    run(runner, "def f(x): x[1] = 7", x)
    assert x.tolist() == [[0, 0], [7, 7], [0, 0]]


REFUSED = {
    "start other processes": ["import os\ndef f(): os.fork()", "import subprocess\ndef f(): subprocess.run(['ls'])"],
    "use the network": ["import socket\ndef f(): socket.socket()"],
    "write files": ["def f(): open('/tmp/x', 'w')", "import tempfile\ndef f(): tempfile.TemporaryFile()"],
    "change files": ["import tempfile\ndef f(): tempfile.mkdtemp()", "import os\ndef f(): os.remove('/tmp/x')"],
}


@pytest.mark.parametrize(("what", "source"), [(what, source) for what, sources in REFUSED.items() for source in sources])
def test_what_is_refused_is_said_in_a_sentence(runner: Runner, what: str, source: str) -> None:
    found = trouble(runner, source)
    assert found.type in ("PermissionError", "FileNotFoundError")
    assert what in found.message or "usable temporary directory" in found.message


def test_nothing_of_the_environment_is_there(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(runner, "import os, sys\ndef f(): return [*os.environ, *sys.argv[:1], os.getcwd()]")
    assert isinstance(names, list)
    assert not [name for name in names if "PYTEST" in name or "HOME" in name or "PATH" in name.replace("PATH", "", 1)]
    assert names[-1] == os.path.abspath(os.sep)


def test_descriptors_are_closed(strong: Runner) -> None:
    source = "import os\ndef f():\n    out = []\n    for i in range(256):\n        try: os.fstat(i); out.append(i)\n"
    assert run(strong, source + "        except OSError: pass\n    return out") == [0, 1, 2, 3, 4]


HIDDEN = ["/etc/passwd", "/proc/self/environ", "/proc/1/cmdline", str(Path(__file__)), "/root", "/tmp"]


@pytest.mark.parametrize("path", HIDDEN)
def test_the_wall_hides_files(strong: Runner, path: str) -> None:
    read = f"import os\ndef f():\n    p = {path!r}\n    return os.listdir(p) if os.path.isdir(p) else open(p).read()"
    assert trouble(strong, read).type == "PermissionError"


RAW = "import ctypes\ndef f(*args):\n    c = ctypes.CDLL(None, use_errno=True)\n    return c.syscall(*args), ctypes.get_errno()"
CALLS = {
    "fork": (57,), "vfork": (58,), "clone": (56, 17, 0, 0, 0, 0), "execve": (59, 0, 0, 0), "socket": (41, 2, 1, 0),
    "unix socket": (41, 1, 1, 0), "ptrace": (101, 16, 1, 0, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "memfd": (319, 0, 0),
    "io_uring": (425, 1, 0), "bpf": (321, 0, 0, 0), "chmod": (90, 0, 0o777), "truncate": (76, 0, 0), "setuid": (105, 0),
    "prctl": (157, 4, 1), "setsid": (112,), "shmget": (29, 0, 4096, 0o1600), "kill others": (62, 1, 0), "kill all": (62, -1, 0),
    "F_SETOWN": (72, 3, 8, 1), "O_ASYNC": (72, 3, 4, 0o20000), "FIOASYNC": (16, 3, 0x5452, 0), "TIOCSTI": (16, 1, 0x5412, 0),
    "shared memory": (9, 0, 4096, 3, 0x21, -1, 0), "a growing stack": (9, 0, 4096, 3, 0x122, -1, 0),
    "an fcntl beyond 32 bits": (72, 3, (1 << 32) | 8, 1), "prlimit of another": (302, 1, 7, 0, 0), "userfaultfd": (323, 0),
    "keyctl": (250, 0, 0), "mount": (165, 0, 0, 0, 0, 0), "unshare": (272, 0x10000000), "pidfd_open": (434, 1, 0),
    "open to write": (2, 0, 1), "open to create": (2, 0, 0o100), "open to truncate": (2, 0, 0o1000), "landlock": (444, 0, 0, 0),
}  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64" if LINUX else True, reason="these are the numbers of x86-64")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_system_calls_are_refused(strong: Runner, call: tuple[int, ...]) -> None:
    with strong.open({"work": RAW.encode()}) as confined:
        assert confined.module("work").f(*call) == (-1, 1)


def test_newer_calls_are_unknown(strong: Runner) -> None:
    with strong.open({"work": RAW.encode()}) as confined:
        assert confined.module("work").f(435, 0, 0) == (-1, 38)  # clone3: threads fall back to clone
        assert confined.module("work").f(437, 0, 0, 0, 0) == (-1, 38)  # openat2


def test_threads_are_bounded(strong: Runner) -> None:
    source = "import threading, time\ndef f():\n    for n in range(500):\n"
    source += "        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    assert "can't start new thread" in trouble(strong, source).message


@pytest.mark.skipif(not WALL or os.geteuid() != 0, reason="only root can become somebody else")
def test_root_becomes_nobody(strong: Runner) -> None:
    ids = run(strong, "import os\ndef f(): return [*os.getresuid(), *os.getresgid(), *os.getgroups()]")
    assert isinstance(ids, list) and len(set(ids)) == 1 and ids[0] >= 61184


@pytest.mark.skipif(not WALL, reason="no Landlock and seccomp here")
@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5, 6])
def test_older_landlocks_hold_too(abi: int) -> None:
    with start("strong", abi=abi) as runner:
        assert trouble(runner, "def f(): open('/etc/passwd')").type == "PermissionError"
        assert run(runner, "def f(): return 1") == 1
        with runner.open({"work": RAW.encode()}) as confined:
            for name in ("open to truncate", "truncate", "kill others", "socket", "TIOCSTI"):
                assert confined.module("work").f(*CALLS[name]) == (-1, 1)


def test_strong_isolation_is_refused_where_it_can_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockdown, "missing", lambda: "this kernel offers no Landlock")
    with pytest.raises(IsolationUnavailable, match=r"strong isolation can't be had on this machine: this kernel"):
        Runner(LIMITS, isolation="strong")
    with start("process") as runner:
        assert runner.isolation == "process"


@pytest.mark.skipif(not LINUX, reason="there is a zygote on Linux only")
def test_a_lockdown_that_fails_is_the_graders_fault() -> None:
    with start("process", limits=Limits(files=-5)) as runner, pytest.raises(RunnerFailed, match="could not be locked"):
        run(runner, "def f(): return 1")


@pytest.mark.skipif(not LINUX, reason="there is a zygote on Linux only")
def test_a_zygote_that_died_is_started_again() -> None:
    with start(KINDS[0]) as runner:
        assert run(runner, "def f(): return 1") == 1
        assert isinstance(runner.source, sources.Warm)
        with runner.open({"work": b"import time\ndef f(): time.sleep(9)"}) as confined:
            confined.start()
            runner.source.process.kill()
            with pytest.raises(RunnerFailed):
                confined.module("work").f()
        assert run(runner, "def f(): return 2") == 2


@pytest.mark.skipif(not LINUX, reason="processes are listed in /proc")
def test_nothing_survives() -> None:
    source = """
import ctypes, os, time
libc = ctypes.CDLL(None)
def f():
    pipe = os.pipe()
    if libc.fork() == 0:
        os.setsid()
        orphan = libc.fork()
        if orphan == 0:
            time.sleep(60)
        os.write(pipe[1], str(orphan).encode())
        os._exit(0)
    return int(os.read(pipe[0], 20))
"""
    with start("process", switches=frozenset()) as runner:
        pid = run(runner, source)
        assert not Path(f"/proc/{pid}").exists()


def test_the_next_process_without_a_fork_is_started_ahead_and_a_dead_one_replaced() -> None:
    pids = []
    with start("spawned") as runner:
        assert isinstance(runner.source, sources.Spawned)
        for round in range(3):
            with runner.open({"work": b"def f(): return 3"}) as confined:
                assert confined.module("work").f() == 3
                assert confined.link is not None
                pids.append(confined.link.pid)
            assert runner.source.ahead is not None
            pids.append(runner.source.ahead.process.pid)
            if round == 1:
                runner.source.ahead.process.kill()
                runner.source.ahead.process.wait()
        last = runner.source.ahead.process
    assert pids[1] == pids[2]
    assert pids[3] != pids[4]
    assert last.returncode is not None
