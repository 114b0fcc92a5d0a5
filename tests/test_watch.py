"""`grader watch`: what it draws, how it hears of a save, and whole evenings of it in a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from queue import SimpleQueue
from textwrap import dedent
from typing import Any

import pytest
from conftest import TINY
from grading import ROOT, grade_each, replaced
from rich.console import Console

from grader.course import Course, find_course
from grader.report import Check, Exercise, Mistake, Report, Status
from grader.submission import Submission, read_submission
from grader.terminal import Seen, after, screen
from grader.trouble import Trouble
from grader.watch import Graded, Saved, changed, saves

LONG = 120  # seconds that a slow machine may take; whatever is waited for comes much sooner
RIGHT = "def double(x):\n    return x + x\n\n\ndef negate(x):\n    return -x\n"
WRONG = RIGHT.replace("x + x", "x * 3")
STUB = "def double(x):\n    raise NotImplementedError\n\n\ndef negate(x):\n    raise NotImplementedError\n"
LOOP = RIGHT.replace("return x + x", "while True:\n        x = x")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny course with room for endless loops; its students write in `work`."""
    root = tmp_path_factory.mktemp("tiny")
    for name, text in TINY.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip(), encoding="utf-8")
    return root


def put(folder: Path, text: str, name: str = "tiny.py") -> None:
    """Save as most editors do: whole, by renaming."""
    beside = folder / f".{name}.new"
    beside.write_text(text, encoding="utf-8")
    beside.replace(folder / name)


# What is drawn


def check(exercise: str, title: str, status: Status, message: str = "", **more: Any) -> Check:
    return Check(f"{exercise}/visible/{title}", exercise, title, Fraction(1), status, message, **more)


def report_of(course: Course, *checks: Check) -> Report:
    """A report in which every exercise passes but for those of `checks`."""
    own = {item.exercise: item for item in checks}
    names = ((exercise.name, exercise.hints) for exercise in course.exercises)
    exercises = [Exercise(name, hints, (own.get(name) or check(name, "is right", "passed"),)) for name, hints in names]
    return Report("me", tuple(exercises), "strong", 1)


def drawn(seen: Seen, width: int, height: int) -> list[str]:
    """The lines on a screen of this size."""
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as captured:
        console.print(screen(seen, width, height), end="")
    lines = captured.get().rstrip("\n").split("\n")
    assert len(lines) == height
    assert all(len(line) <= width for line in lines), lines
    return lines


MISTAKE = Mistake("tokens_first", "The features are read in the wrong order.", "What does a reshape keep?")
FAILED = check("torch_attention.split_heads", "head 0 comes first", "failed", "output[0] is 5, due was 20", mistake=MISTAKE)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 24), (120, 50), (30, 10), (12, 4)])
def test_a_screen_of_any_size_is_filled_and_no_line_too_long(course: Course, width: int, height: int) -> None:
    seen = after(Seen(course), Graded(report_of(course, FAILED), True, 0.1), height)
    for keys in ("", "h", "hh", "l", "l ", "l   b"):
        for key in keys:
            seen = after(seen, key, height)
        drawn(seen, width, height)
    drawn(Seen(course), width, height)
    drawn(replace(seen, why="the folder is gone", listing=False), width, height)


def test_the_screen_shows_the_lesson_in_order_and_the_one_next_thing(course: Course) -> None:
    seen = after(Seen(course), Graded(report_of(course, FAILED), True, 0.1), 22)
    lines = drawn(seen, 80, 24)
    text = "\n".join(lines)
    assert lines[0].split() == ["Multi-head", "attention", "20", "of", "21", "points"]
    modules = [line.split()[0] for line in lines if line[:1].isalpha() and "█" in line]
    assert modules == list(course.modules)  # folded, but for the one of what is next
    assert [line.split()[0] for line in lines if line.startswith("  ") and ("█" in line or "···" in line)] == [
        exercise.function for exercise in course.exercises if exercise.module == "torch_attention"
    ]
    assert "Next: torch_attention.split_heads" in text
    assert "output[0] is 5, due was 20" in text
    assert MISTAKE.text in text
    assert "h hint  l list  q quit" in lines[-1]
    assert "graded in 0.10 s" in lines[-1]
    tall = drawn(seen, 80, 50)
    assert sum("█" in line or "···" in line for line in tall) == len(course.modules) + len(course.exercises)


def test_hints_climb_from_the_mistakes_own_to_the_last_of_the_ladder(course: Course) -> None:
    seen = after(Seen(course), Graded(report_of(course, FAILED), True, 0.1), 22)
    hints = course.exercise("torch_attention.split_heads").hints  # type: ignore[union-attr]
    assert "Hint" not in "\n".join(drawn(seen, 120, 50))
    for step, hint in enumerate((MISTAKE.hint, *hints, hints[-1]), 1):
        seen = after(seen, "h", 22)
        assert f"Hint {min(step, 4)} of 4: {hint[:40]}" in "\n".join(drawn(seen, 120, 50))
    seen = after(seen, Graded(report_of(course, FAILED), True, 0.2), 22)
    assert seen.steps == 4  # the same cause: the hint stays
    seen = after(seen, Graded(report_of(course, replace(FAILED, mistake=None)), True, 0.2), 22)
    assert seen.steps == 0


def test_no_hint_on_the_lesson_for_what_is_no_python(course: Course) -> None:
    trouble = Trouble("import", "SyntaxError", "numpy_attention.py line 3 is no Python")
    broken = check("numpy_attention.softmax", "rows sum to 1", "crashed", trouble.message, trouble=trouble)
    seen = after(after(Seen(course), Graded(report_of(course, broken), True, 0.1), 22), "h", 22)
    assert seen.ladder == ()
    assert "Hint" not in "\n".join(drawn(seen, 80, 24))


def test_the_list_can_be_read_to_its_end_and_back(course: Course) -> None:
    seen = after(Seen(course), Graded(report_of(course, FAILED), True, 0.1), 22)
    first = drawn(seen := after(seen, "l", 22), 80, 24)
    for _ in range(9):
        seen = after(seen, " ", 22)
    last = drawn(seen, 80, 24)
    assert course.exercises[-1].name in last[-3]
    assert drawn(after(after(seen, "up", 22), "down", 22), 80, 24) == last
    for _ in range(9):
        seen = after(seen, "b", 22)
    assert drawn(seen, 80, 24) == first
    assert not after(seen, "l", 22).listing


def test_what_a_student_wrote_can_not_move_the_cursor(course: Course) -> None:
    evil = "\x1b[2J\x1b[31mred\x9b\u202e"
    trouble = Trouble("raised", "ValueError", evil, printed=evil)
    crashed = check("numpy_attention.softmax", evil, "crashed", evil, trouble=trouble, symptom=evil)
    seen = after(Seen(course), Graded(replace(report_of(course, crashed), notes=(evil,)), True, 0.1), 22)
    for shown in (seen, after(seen, "l", 22), after(seen, Saved(None, evil), 22)):
        text = "\n".join(drawn(shown, 80, 24))
        assert not set("\x1b\x9b\u202e") & set(text)
        assert "\\x1b[2J" in text


def test_what_is_left_out_is_said_with_its_reason(course: Course) -> None:
    skipped = check("torch_attention.split_heads", "head 0 comes first", "skipped", "torch is not installed here")
    seen = after(Seen(replace(course, celebration="You did it")), Graded(report_of(course, skipped), True, 0.1), 22)
    text = "\n".join(drawn(seen, 80, 24))
    assert "left out: 1 points, torch is not installed here" in text
    assert "You did it" not in text


def test_the_end_is_celebrated_when_the_whole_lesson_is_done(course: Course) -> None:
    seen = after(Seen(replace(course, celebration="You did it")), Graded(report_of(course), True, 0.1), 22)
    assert "You did it" in "\n".join(drawn(seen, 80, 24))
    part = replace(report_of(course), exercises=report_of(course).exercises[:3])
    text = "\n".join(drawn(after(seen, Graded(part, True, 0.1), 22), 80, 24))
    assert "Every check passes." in text
    assert "You did it" not in text


# What changed

MODULE = """
import numpy as np
SCALE = 2

def helper(x):
    return x * SCALE

def softmax(x):
    return helper(x)

def split_heads(x):
    return x
"""


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        ("return helper(x)", "return helper(x) + 1", {"softmax"}),
        ("return x * SCALE", "return x", {"softmax"}),
        ("SCALE = 2", "SCALE = 3", {"softmax", "split_heads"}),
        ("def split_heads(x):\n    return x", "def split_heads(x):\n    return -x", {"split_heads"}),
        ("def split_heads(x):", "def split_head(x):", {"split_heads"}),
        ("def helper(x):\n", "@np.vectorize\ndef helper(x):\n", {"softmax"}),
        ("import numpy as np\n", "import numpy as np\n\n\n", set()),
    ],
)
def test_an_exercise_changes_with_what_it_uses(course: Course, old: str, new: str, due: set[str]) -> None:
    before, now = (Submission("me", {"numpy_attention": text.encode()}) for text in (MODULE, replaced(MODULE, (old, new))))
    functions = {exercise.function for exercise in course.exercises if exercise.module == "numpy_attention"}
    rest = functions - {"softmax", "split_heads"}  # can't be told apart: they are not there
    assert {name.rpartition(".")[2] for name in changed(before, now, course)} - rest == due


def test_a_file_that_is_no_python_changes_all_of_its_exercises(course: Course) -> None:
    before, now = (Submission("me", {"numpy_attention": text.encode()}) for text in (MODULE, f"{MODULE})("))
    due = {exercise.name for exercise in course.exercises if exercise.module == "numpy_attention"}
    assert changed(before, now, course) == changed(now, before, course) == due
    assert changed(now, Submission("me", {}), course) == due


# Hearing of a save


class Watching:
    """`saves` in a thread, as `watch` runs it."""

    def __init__(self, path: Path, poll: bool = False) -> None:
        self.heard: SimpleQueue[Saved] = SimpleQueue()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(path, poll))
        self.thread.start()

    def _run(self, path: Path, poll: bool) -> None:
        for saved in saves(path, ("tiny", "other"), self.stop, poll):
            self.heard.put(saved)

    def until(self, due: Callable[[Saved], bool]) -> Saved:
        """The first of what is heard from now on that is due. Raises Empty."""
        while not due(saved := self.heard.get(timeout=LONG)):
            pass
        return saved

    def text(self, text: str, name: str = "tiny") -> None:
        """Wait until a file reads so."""
        self.until(lambda saved: saved.submission is not None and saved.submission.sources.get(name) == text.encode())

    def close(self) -> None:
        self.stop.set()
        self.thread.join(LONG)
        assert not self.thread.is_alive()


@pytest.fixture(params=[False, True], ids=["told", "poll"])
def watching(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Watching, Path]]:
    folder = tmp_path / "work"
    folder.mkdir()
    put(folder, "first")
    watching = Watching(folder, request.param)
    watching.text("first")
    yield watching, folder
    watching.close()


def test_every_way_to_save_is_heard(watching: tuple[Watching, Path]) -> None:
    heard, folder = watching
    put(folder, "renamed")
    heard.text("renamed")
    (folder / "tiny.py").write_text("in place")
    heard.text("in place")
    (folder / "tiny.py").rename(folder / "tiny.py~")
    (folder / "tiny.py").write_text("a backup was made")
    heard.text("a backup was made")
    (folder / "tiny.py").unlink()
    heard.until(lambda saved: saved.submission is not None and not saved.submission.sources)
    (folder / "tiny.py").write_text("made again")
    heard.text("made again")


def test_a_folder_that_is_deleted_and_made_again_is_watched_on(watching: tuple[Watching, Path]) -> None:
    heard, folder = watching
    shutil.rmtree(folder)
    assert "no such file" in heard.until(lambda saved: saved.submission is None).why
    folder.mkdir()
    put(folder, "second")
    heard.text("second")
    put(folder, "third")
    heard.text("third")


def test_files_saved_together_are_one_save_and_others_are_none(tmp_path: Path) -> None:
    put(tmp_path, "1")
    put(tmp_path, "1", "other.py")
    heard = Watching(tmp_path)
    heard.text("1")
    (tmp_path / "notes.txt").write_text("not an exercise")
    put(tmp_path, "2")
    put(tmp_path, "2", "other.py")
    heard.text("2", "other")
    time.sleep(1.5)  # it has looked by itself meanwhile
    assert heard.heard.empty()
    put(tmp_path, "2", "other.py")  # the same text, but a save
    heard.text("2", "other")
    heard.close()


def test_a_single_file_can_be_watched(tmp_path: Path) -> None:
    put(tmp_path, "1")
    heard = Watching(tmp_path / "tiny.py")
    heard.text("1")
    put(tmp_path, "2")
    heard.text("2")
    heard.close()


# Whole evenings in a pipe


class Piped:
    """`grader watch` with its output in a pipe."""

    def __init__(self, root: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "grader", "--course", str(root), "watch", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        assert self.process.stdout is not None
        self.out = self.process.stdout

    def line(self) -> dict[str, Any]:
        line = self.out.readline()
        assert line, self.process.communicate(timeout=LONG)[1]
        return json.loads(line)  # type: ignore[no-any-return]

    def end(self, number: int) -> tuple[int, str, str]:
        """Send a signal; give the exit status and what was still said."""
        self.process.send_signal(number)
        out, error = self.process.communicate(timeout=LONG)
        return self.process.returncode, out, error

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def piped(tiny: Path, tmp_path: Path) -> Iterator[Callable[..., Piped]]:
    started: list[Piped] = []

    def start(text: str, *arguments: str) -> Piped:
        put(tmp_path, text)
        started.append(Piped(tiny, str(tmp_path), *arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


def states(data: dict[str, Any]) -> dict[str, str]:
    return {exercise["name"]: exercise["status"] for exercise in data["exercises"]}


def test_jsonl_is_a_report_a_save_whatever_is_saved(piped: Callable[..., Piped], tmp_path: Path) -> None:
    watch = piped(STUB, "--format", "jsonl")
    assert states(watch.line()) == {"tiny.double": "todo", "tiny.negate": "todo"}
    for text, due in (
        (WRONG, ("failed", "passed")),
        (RIGHT, ("passed", "passed")),
        (f"{RIGHT})(", ("crashed", "crashed")),
        (RIGHT.replace("return -x", "import os\n    os._exit(0)"), ("passed", "crashed")),
        (RIGHT, ("passed", "passed")),
        (RIGHT, ("passed", "passed")),
    ):
        put(tmp_path, text)
        assert tuple(states(watch.line()).values()) == due
    status, out, error = watch.end(signal.SIGINT)
    assert (status, out) == (130, "")
    assert error == "grader: stopped\n"


def test_a_stale_run_is_given_up_for_a_new_save(piped: Callable[..., Piped], tmp_path: Path) -> None:
    watch = piped(RIGHT, "--format", "jsonl")
    assert watch.line()["score"] == 5
    put(tmp_path, LOOP)
    time.sleep(0.7)  # it turns; its calls may take 2 s each, its exercise 3 s
    put(tmp_path, WRONG)
    found = watch.line()
    assert found["exercises"][0]["checks"][0]["message"] == "double(3) is 9, due was 6"
    put(tmp_path, LOOP)
    looped = watch.line()
    assert "ran longer than 2 s" in looped["exercises"][0]["checks"][0]["message"]
    put(tmp_path, LOOP)
    time.sleep(0.7)
    assert watch.end(signal.SIGTERM)[:2] == (130, "")


def test_a_closed_pipe_ends_it_quietly(piped: Callable[..., Piped]) -> None:
    watch = piped(RIGHT, "--format", "jsonl")
    watch.line()
    watch.out.close()
    assert watch.process.wait(LONG) == 0
    assert watch.process.stderr is not None
    assert watch.process.stderr.read() == ""


def test_without_a_terminal_text_is_a_summary_a_save(piped: Callable[..., Piped], tmp_path: Path) -> None:
    watch = piped(WRONG)
    assert "tiny.double" in watch.out.readline()
    assert "tiny.negate" in watch.out.readline()
    assert watch.out.readline() == "3 of 5 points\n"
    put(tmp_path, RIGHT)
    rest = iter(watch.out.readline, "")
    assert "5 of 5 points\n" in rest
    status, out, _ = watch.end(signal.SIGINT)
    assert status == 130
    assert "\x1b" not in out


def test_what_can_not_be_watched_is_said_at_once(tiny: Path, tmp_path: Path) -> None:
    for arguments, words in ((["nowhere"], "no such file"), ([str(tmp_path), "-k", "no such thing"], "is no expression")):
        watch = Piped(tiny, *arguments)
        assert watch.process.wait(LONG) == 2
        assert words in watch.process.communicate()[1]


# Against fresh grades

EVENTS = """
import json, sys
from pathlib import Path
from grader.course import find_course
from grader.formats.json import as_data
from grader.submission import read_submission
from grader.watch import Ended, Graded, Grading
from queue import SimpleQueue

queue, course = SimpleQueue(), find_course(Path.cwd())
grading = Grading(course, queue.put, select="numpy_attention or kv_cache_bytes")
for folder in sorted(Path(sys.argv[1]).iterdir()):
    grading.grade(read_submission(folder / "me", course.modules))
    while True:
        event = queue.get()
        if isinstance(event, Ended):
            raise SystemExit(repr(event.error))
        print("EVENT", json.dumps([folder.name, event.final, as_data(event.report)]), flush=True)
        if event.final:
            break
grading.close()
"""


def edits() -> list[str]:
    """One file, as it is saved again and again."""
    right = (ROOT / "solutions" / "numpy_attention.py").read_text(encoding="utf-8")
    helped = f"{right}\n\nSCALE = 1.0\n\n\ndef helper(x):\n    return x * SCALE\n\n\n"
    helped += "def merge_heads(x):\n    b, h, n, d = x.shape\n    return helper(x.transpose(0, 2, 1, 3).reshape(b, n, h * d))\n"
    return [
        (ROOT / "exercises" / "numpy_attention.py").read_text(encoding="utf-8"),
        right,
        helped,
        replaced(helped, ("x * SCALE", "x * SCALE + 1")),
        replaced(helped, ("SCALE = 1.0", "SCALE = 2.0")),
        f"# a line above\n{replaced(helped, ('SCALE = 1.0', 'SCALE = 2.0'))}",
        f"{right}\n\ndef split_heads(x, num_heads):\n    return x.reshape(len(x), num_heads, -1, x.shape[2] // num_heads)\n",
        f"{right}\n\ndef softmax(x):\n    raise KeyError(0)\n",
        f"\n\n{right}\n\ndef softmax(x):\n    raise KeyError(0)\n",
        f"{right}\n)(",
        right,
    ]


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], dict[str, Any]]:
    """What a watch tells of the edits, and what fresh grades say of each."""
    folder = tmp_path_factory.mktemp("evening")
    kept = (ROOT / "solutions" / "grouped_query.py").read_text(encoding="utf-8")
    files = [{"numpy_attention.py": text, "grouped_query.py": kept} for text in edits()]
    for number, texts in enumerate(files):
        for name, text in texts.items():
            path = folder / f"{number:02}" / "me" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    run = subprocess.run([sys.executable, "-c", EVENTS, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    told = [json.loads(line.removeprefix("EVENT ")) for line in run.stdout.splitlines() if line.startswith("EVENT ")]
    assert run.returncode == 0, run.stderr
    fresh = {f"{number:02}": texts for number, texts in enumerate(files)}
    return told, grade_each(fresh, select="numpy_attention or kv_cache_bytes")


def test_the_last_word_is_what_a_fresh_grade_says(evening: tuple[list[Any], dict[str, Any]]) -> None:
    told, fresh = evening
    finals = {name: data for name, final, data in told if final}
    assert finals.keys() == fresh.keys()
    for name, data in finals.items():
        assert data == {**fresh[name], "submission": "me"}, name
    assert len({data["score"] for data in finals.values()}) > 3  # the edits do make differences


def test_the_first_word_is_right_too(evening: tuple[list[Any], dict[str, Any]]) -> None:
    told, _ = evening
    firsts = {name: data for name, final, data in told if not final}
    finals = {name: data for name, final, data in told if final}
    assert len(firsts) > 6
    for name, data in firsts.items():
        assert data == finals[name], name


# On a terminal


class Terminal:
    """`grader watch` on a terminal of 80 columns and 24 lines, and what stands on it."""

    def __init__(self, root: Path, folder: Path, before: Sequence[str] = ()) -> None:
        pexpect, self.pyte = pytest.importorskip("pexpect"), pytest.importorskip("pyte")
        environment = {**os.environ, "TERM": "xterm-256color"}
        command = [*before, "-m", "grader", "--course", str(root), "watch", str(folder)]
        self.gone, self.late = pexpect.EOF, pexpect.TIMEOUT
        self.process = pexpect.spawn(sys.executable, command, dimensions=(24, 80), env=environment, timeout=LONG)
        self.screen = self.pyte.Screen(80, 24)
        self.stream = self.pyte.ByteStream(self.screen)
        self.raw = b""
        self.modes = self.attributes()

    def attributes(self) -> Any:
        import termios

        return termios.tcgetattr(self.process.child_fd)

    def read(self) -> bool:
        """Draw what has come. False when nothing more will."""
        try:
            data = self.process.read_nonblocking(1 << 16, 0.2)
        except self.late:
            return True
        except self.gone:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    def until(self, *words: str) -> str:
        """Read until all of these stand on the screen."""
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            going = self.read()
            text = "\n".join(self.screen.display)
            if all(word in text for word in words):
                return text
            assert going, f"it has ended; {words} never came:\n{text}"
        raise AssertionError(f"{words} never came:\n" + "\n".join(self.screen.display))

    def ended(self) -> int:
        """The exit status; the terminal must be as it was."""
        modes = None
        deadline = time.monotonic() + LONG
        while b"\x1b[?1049l" not in self.raw and time.monotonic() < deadline and self.read():
            pass
        while time.monotonic() < deadline and (modes := self.attributes()) != self.modes and self.read():
            pass
        assert modes == self.modes
        while time.monotonic() < deadline and self.read():
            pass
        assert self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l")  # the cursor is seen
        assert self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h")
        self.process.close()
        return int(self.process.exitstatus)


@pytest.fixture
def terminal(tiny: Path, tmp_path: Path) -> Iterator[Terminal]:
    put(tmp_path, STUB)
    terminal = Terminal(tiny, tmp_path)
    yield terminal
    terminal.process.close(force=True)


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
def test_an_evening_on_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until("Tiny", "0 of 5 points", "Next: tiny.double", "still to do", "h hint  l list  q quit", "graded in")
    put(tmp_path, WRONG)
    terminal.until("3 of 5 points", "twice 3 is 6", "double(3) is 9, due was 6", "graded in")
    terminal.process.send("h")
    terminal.until("Hint 1 of 3: What is twice a number?")
    terminal.process.send("h")
    terminal.until("Hint 2 of 3: x + x")
    put(tmp_path, WRONG.replace("-x", "x"))
    terminal.until("0 of 5 points", "Hint 2 of 3: x + x", "graded in")  # the next thing is the same
    put(tmp_path, RIGHT.replace("-x", "x"))
    assert "Hint" not in terminal.until("2 of 5 points", "Next: tiny.negate", "graded in")
    put(tmp_path, f"{RIGHT})(")
    terminal.until("crashed", "tiny.py line 7 is no Python", "graded in")
    put(tmp_path, LOOP)
    terminal.until("running")
    terminal.process.send("l")  # a key is heard while it runs
    terminal.until("l lesson", "x twice 3 is 6")
    terminal.process.send("l")
    terminal.until("double ran longer than 2 s (line ", "graded in")
    put(tmp_path, RIGHT)
    terminal.until("5 of 5 points", "Every check passes.", "graded in")
    put(tmp_path, LOOP.replace("return -x", "while True:\n        x = x"))
    terminal.until("double ran longer than 2 s (line ", "running")  # the first word comes before negate is done
    put(tmp_path, RIGHT)
    terminal.until("5 of 5 points", "Every check passes.", "graded in")
    terminal.process.send("q")
    assert terminal.ended() == 0
    assert terminal.raw.endswith(b"5 of 5 points\r\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
@pytest.mark.parametrize("how", ["key", "signal"])
def test_a_terminal_is_as_it_was_after_an_interrupt(terminal: Terminal, how: str) -> None:
    terminal.until("graded in")
    assert terminal.attributes() != terminal.modes
    if how == "key":
        terminal.process.sendintr()
    else:
        terminal.process.kill(signal.SIGTERM)
    assert terminal.ended() == 130


SHELL = """
import os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
before = termios.tcgetattr(0)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
while True:
    os.tcsetpgrp(0, job)
    status = os.waitpid(job, os.WUNTRACED)[1]
    os.tcsetpgrp(0, os.getpid())
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    input("stopped, terminal " + ("as it was" if termios.tcgetattr(0) == before else "spoilt"))
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(tiny: Path, tmp_path: Path) -> None:
    put(tmp_path, RIGHT)
    terminal = Terminal(tiny, tmp_path, ["-c", SHELL])
    terminal.until("5 of 5 points", "graded in")
    put(tmp_path, LOOP)
    terminal.until("running")
    terminal.process.send("\x1a")
    terminal.until("stopped, terminal as it was")
    assert terminal.raw.rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l")  # the cursor is seen
    assert terminal.raw.rfind(b"\x1b[?1049l") > terminal.raw.rfind(b"\x1b[?1049h")
    put(tmp_path, STUB)
    terminal.process.send("\n")
    terminal.until("0 of 5 points", "Next: tiny.double", "h hint  l list  q quit", "graded in")
    terminal.process.send("q")
    assert terminal.ended() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
def test_what_was_stopped_meanwhile_is_not_late(tiny: Path, tmp_path: Path) -> None:
    put(tmp_path, RIGHT)
    terminal = Terminal(tiny, tmp_path, ["-c", SHELL])
    terminal.until("5 of 5 points", "graded in")
    put(tmp_path, f"import time\n{WRONG}".replace("return x * 3", "time.sleep(1.2)\n    return x * 3"))
    terminal.until("running")
    terminal.process.send("\x1a")
    terminal.until("stopped, terminal as it was")
    time.sleep(2)
    terminal.process.send("\n")
    assert "ran longer" not in terminal.until("double(3) is 9, due was 6", "graded in")
    terminal.process.send("q")
    assert terminal.ended() == 0


@pytest.mark.parametrize("absent", ["termios tty select.poll fcntl resource pwd", "msvcrt winreg"])
def test_it_can_be_imported_where_a_system_lacks_modules(absent: str) -> None:
    hidden = "; ".join(f"sys.modules[{name!r}] = None" for name in absent.split() if "." not in name)
    code = f"import sys; {hidden}; import grader.watch, grader.terminal, grader.verbs.watch"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=LONG)


def test_the_courses_own_folder_is_the_default(tiny: Path) -> None:
    course = find_course(tiny)
    assert course.submission == tiny
    assert read_submission(course.submission, course.modules).name == tiny.name
