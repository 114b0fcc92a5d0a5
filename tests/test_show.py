"""`grader show`: the student's matrices beside those due, in a terminal, in a file, and as a figure for a notebook."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from grading import ROOT, replaced
from rich.console import Console

from grader.course import Course
from grader.pictures import WRONG, Picture, drawers, figure, in_text
from grader.student import InProcess
from grader.submission import read_submission

NUMPY = (ROOT / "solutions" / "numpy_attention.py").read_text(encoding="utf-8")
PICTURED = importlib.import_module("checks.visible.pictures").PICTURES


def show(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grader", "show", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300
    )


@pytest.fixture
def unscaled(tmp_path: Path) -> Path:
    (tmp_path / "numpy_attention.py").write_text(replaced(NUMPY, (" / q.shape[-1] ** 0.5", "")))
    return tmp_path


@pytest.fixture(scope="module")
def solutions(course: Course) -> Any:
    origin = InProcess(read_submission(course.submission, course.modules))
    yield origin
    origin.close()


def nudged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with answers that are a little off."""

    def off(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(off, value))
        boolean = value.dtype in (torch.bool, np.bool_)
        return ~value if boolean else value + 0.01

    if isinstance(function, type):
        name = "forward" if hasattr(function, "forward") else "__call__"
        return type(function.__name__, (function,), {name: nudged(getattr(function, name))})
    return lambda *args, **kwargs: off(function(*args, **kwargs))


@pytest.mark.parametrize("exercise", PICTURED)
def test_the_solutions_are_as_due_and_anything_else_is_marked(course: Course, solutions: Any, exercise: str) -> None:
    module, function = exercise.split(".")
    student = solutions.module(module, exercise)
    drawn = list(drawers(course)[exercise](student))
    assert drawn
    assert all(picture.summary.endswith("as due") for picture in drawn)
    wrong = list(drawers(course)[exercise](SimpleNamespace(**{function: nudged(getattr(student, function))})))
    assert all(picture.wrong.all() for picture in wrong)


def test_differences_are_marked_in_the_terminal(unscaled: Path) -> None:
    done = show("numpy_attention.attention", "--submission", str(unscaled))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "weights of head 0: 9 of 9 numbers differ"
    assert lines[3].split() == ["token", "0", "0.422!", "0.155!", "0.422!", "token", "0", "0.401", "0.198", "0.401"]
    assert "\x1b" not in done.stdout
    head = lines.index("weights of head 1: 6 of 9 numbers differ")
    assert "!" not in lines[head + 5]  # token 2 matches nothing, with or without a scale


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_goes_into_a_file(unscaled: Path, suffix: str, start: bytes) -> None:
    path = unscaled / f"heads.{suffix}"
    done = show("numpy_attention.attention", "--submission", str(unscaled), "--output", str(path))
    assert (done.returncode, done.stdout) == (0, f"wrote {path}\n"), done.stderr
    assert path.read_bytes().startswith(start)


def test_a_stub_and_an_error_are_told_in_a_sentence(tmp_path: Path) -> None:
    done = show("numpy_attention.split_heads", "--submission", "exercises")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "grader: numpy_attention.split_heads has nothing to show: split_heads is still to do\n"
    (tmp_path / "numpy_attention.py").write_text("def softmax(x):\n    raise ValueError('\\x1b[31mred')\n")
    done = show("softmax", "--submission", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith(r"grader: numpy_attention.softmax has nothing to show: ValueError: \x1b[31mred (line 2: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["attention_entropy"], "there is no picture of attention_entropy; name one of numpy_attention.softmax, "),
        (["attention"], "more than one exercise by the name of attention; name one of numpy_attention.attention, "),
        (["softmax", "--output", "x.txt"], "x.txt is no picture: write a name that ends in .png, .svg, .pdf"),
        (["softmax", "--submission", "nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_what_can_not_be_shown(arguments: list[str], words: str) -> None:
    done = show(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def picture() -> Picture:
    due = np.array([[0.25, 0.75], [1.0, 0.0]])
    return Picture("weights", due + np.array([[0, 0.1], [np.nan, 0]]), due, ("a", "b"), ("c", "d"))


def test_a_figure_frames_what_differs(picture: Picture) -> None:
    drawn = figure([picture, picture])
    frames = [patch for axis in drawn.axes for patch in axis.patches]
    assert len(drawn.axes) == 6
    assert len(frames) == 8  # two numbers, in two of the three columns, of two pictures
    assert {patch.get_xy() for patch in frames} == {(0.5, -0.5), (-0.5, 0.5)}


def test_a_terminal_has_colours(picture: Picture) -> None:
    console = Console(force_terminal=True, width=80, color_system="truecolor", record=True)
    with console.capture() as seen:
        console.print(in_text([picture]))
    red = ";".join(str(int(WRONG[at : at + 2], 16)) for at in (1, 3, 5))
    assert f"38;2;{red}" in seen.get()
    assert "nan!" in seen.get().replace(" ", "")
    assert "0.850!" in seen.get()
