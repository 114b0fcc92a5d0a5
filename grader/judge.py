"""From what a check raised to its verdict. Pure: the same exception gives the same words, in-process or confined."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from .course import Course
from .diagnosis.explain import meaning
from .diagnosis.recording import observe
from .report import Status
from .trouble import Frame, Trouble, shapes_at


@dataclass(frozen=True)
class Verdict:
    """What one check found, before points are counted."""

    status: Status
    message: str = ""
    trouble: Trouble | None = None


PASSED = Verdict("passed")
NO_TORCH = Verdict("skipped", "torch is not installed here: pip install torch")


def judge(error: BaseException | None, exercise: str, course: Course, files: Mapping[str, str]) -> Verdict:
    """The verdict of a check of `exercise` that ended with `error`.

    `files` maps the full paths of a student's in-process files to the names to show. What came out of the student's code is
    theirs; an AssertionError is the check's own word; anything else is the grader's fault.
    """
    if error is None:
        return PASSED
    trouble = trouble_of(error, files)
    if (trouble is None or trouble.kind == "import") and "No module named 'torch'" in str(error) and not find_spec("torch"):
        return NO_TORCH
    if trouble is not None:
        return _in_the_student(trouble, exercise, course)
    if isinstance(error, AssertionError):
        return Verdict("failed", str(error) or "the check failed without a word")
    if isinstance(error, pytest.skip.Exception):
        return Verdict("skipped", str(error))
    if type(error).__module__.startswith("hypothesis") and "Flaky" in type(error).__name__:
        return Verdict("failed", "the same call gave different answers: does something stay behind from one call to the next?")
    return Verdict("broken", f"the grader broke, not you: {_where(error)}")


def trouble_of(error: BaseException, files: Mapping[str, str]) -> Trouble | None:
    """The trouble that `error` carries, or the one that its traceback tells: through a student's file, or a call of their code.

    A call may fail in no line of theirs: when a parameter is missing, or a layer's `forward`. From behind the wall, where they
    have no `files` here, what is theirs comes with its trouble.
    """
    carried = getattr(error, "trouble", None)
    if isinstance(carried, Trouble):
        return carried
    frames = student_frames(error, files)
    called = any(frame.f_code is observe.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))
    if not frames and not (called and files):
        return None
    is_exit = isinstance(error, SystemExit | pytest.skip.Exception | pytest.fail.Exception | pytest.exit.Exception)
    if is_exit:
        return Trouble(
            "exited",
            type(error).__name__,
            f"{frames[-1].function} ended the run ({type(error).__name__}: {error})",
            frames,
        )
    return Trouble("raised", type(error).__name__, str(error), frames)


def student_frames(error: BaseException, files: Mapping[str, str]) -> tuple[Frame, ...]:
    """The frames of `error` that lie in the student's own files, outermost first."""
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if code.co_filename in files:
            text = traceback.linecache.getline(code.co_filename, line).strip()  # type: ignore[attr-defined]
            frames.append(Frame(files[code.co_filename], line, code.co_qualname, text, shapes_at(text, frame.f_locals)))
    return tuple(frames)


def _in_the_student(trouble: Trouble, exercise: str, course: Course) -> Verdict:
    if trouble.kind == "missing":
        return Verdict("todo", trouble.message, trouble)
    if trouble.type == "NotImplementedError" and trouble.kind == "raised" and _is_stub(trouble):
        missing = _stub_of(trouble, exercise, course)
        if missing == exercise:
            return Verdict("todo", f"{_short(exercise)} is still to do", trouble)
        return Verdict("blocked", f"{_short(exercise)} waits for {_short(missing)}, which is still to do", trouble)
    if trouble.kind == "rule":
        return Verdict("failed", trouble.message, trouble)
    if trouble.kind != "raised":
        return Verdict("crashed", trouble.message, trouble)
    return Verdict("crashed", _crash(trouble), trouble)


def _crash(trouble: Trouble) -> str:
    """The error, the student's line where it came up, and what such an error means."""
    error = f"{trouble.type}: {trouble.message}" if trouble.message else trouble.type
    last = trouble.frames[-1] if trouble.frames else None
    place = f" ({last.place}: {last.code})" if last else ""
    place += f"\nThere: {last.shapes}." if last and last.shapes else ""
    advice = meaning(trouble.message)
    return f"{error}{place}\n{advice}" if advice else f"{error}{place}"


def _is_stub(trouble: Trouble) -> bool:
    """Whether it is the student's own line that raises; torch raises the same of dtypes that an operation does not know."""
    code = trouble.frames[-1].code if trouble.frames else "a call"
    return not code or "NotImplementedError" in code


def _stub_of(trouble: Trouble, exercise: str, course: Course) -> str:
    """The exercise whose stub was met: the innermost of the student's frames that is an exercise says which."""
    for frame in reversed(trouble.frames):
        name = f"{frame.file.rpartition('.')[0]}.{frame.function.split('.')[0]}"
        if course.exercise(name) is not None:
            return name
    return exercise


def _short(exercise: str) -> str:
    return exercise.rpartition(".")[2]


def _where(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({last[0].filename.rpartition('/')[2]} line {last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {error}{place}"
