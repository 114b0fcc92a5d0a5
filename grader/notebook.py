"""What a lesson's notebook calls: `check` shows what the code above it does, `points` what the checks here give for it."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .course import Course, CourseError, find_course
from .report import Check, Report, number
from .trouble import Frame, Trouble

NAMESPACE = "__main__"  # what a notebook's cells define is there
PRINTED = 500  # characters of it are shown


class Shown:
    """A result: HTML in a notebook, text elsewhere."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def check(exercise: str) -> Shown:
    """Run the visible checks of an exercise, such as "numpy_attention.softmax", on what this notebook defines."""
    from .formats import inline

    __tracebackhide__ = True
    report, pictures, printed = _graded(exercise)
    if report is None:
        return Shown(inline.sentence(printed), printed)
    return Shown(inline.html(report, pictures, printed), inline.text(report, printed))


def points(exercise: str) -> float:
    """The points that the visible checks give, as a plain number. What counts is graded after it was handed in."""
    __tracebackhide__ = True
    report, _, printed = _graded(exercise)
    if report is None:
        print(printed)
        return 0.0
    print(f"{number(report.score)} of {number(report.max_score)} points. When it is graded, more checks may be run.")
    return float(report.score)


def _graded(exercise: str) -> tuple[Report | None, Mapping[str, Any], str]:
    """The report, the arrays that were compared by the id of a check, and what was printed; or None and a sentence."""
    __tracebackhide__ = True  # who stops an endless loop sees their own line
    if "get_ipython" not in vars(sys.modules[NAMESPACE]):
        raise RuntimeError("check and points are for a notebook")  # nor is a notebook's cell run twice when it is graded
    try:
        course = find_course(Path.cwd())
    except CourseError:
        return None, {}, "The checks are not here: open this notebook in the folder that your course gave you."
    if course.exercise(exercise) is None:
        return None, {}, f"There is no exercise {exercise}."
    with _undisturbed() as printed:
        report, pictures = _run(exercise, replace(course, hidden=course.root / "nothing"))
    return report, pictures, printed.getvalue()[-PRINTED:]


def _run(exercise: str, course: Course) -> tuple[Report, Mapping[str, Any]]:
    import pytest

    from .checks import Checks
    from .diagnosis.stored import catalogue_of
    from .grade import run_checks
    from .judge import student_frames
    from .submission import Submission

    class Watched(Checks):
        """Keeps the arrays that a check compared, for a picture."""

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport | None:
            seen = getattr(call.excinfo.value, "seen", None) if call.excinfo else None
            if seen is not None and item.nodeid in self.described:
                pictures[self.described[item.nodeid].id] = seen
            return super().pytest_runtest_makereport(item, call)

        def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
            looped.extend(student_frames(excinfo.value, here.files))

    __tracebackhide__ = True
    pictures: dict[str, Any] = {}
    reports: list[Report] = []
    looped: list[Frame] = []
    module = exercise.rpartition(".")[0]
    here = _Here(module)
    submission = Submission(module, {module: here.source()})
    checks = Watched(course, course.seed, catalogue_of(course))
    run_checks(
        checks, [submission], lambda _: contextlib.nullcontext(here), lambda _: reports.append(checks.report("none")),
        f"{exercise}/visible",
    )  # fmt: skip
    if not reports:  # the student stopped it
        raise KeyboardInterrupt(*(f"{frame.place}: {frame.code}" for frame in looped[-1:]))
    exercises = (replace(item, checks=tuple(_followed(check, course) for check in item.checks)) for item in reports[0].exercises)
    return replace(reports[0], exercises=tuple(exercises)), pictures


def _followed(check: Check, course: Course) -> Check:
    """A check that crashed in the code of another exercise follows from that one, whose own checks are not run here."""
    frames = check.trouble.frames if check.trouble is not None else ()
    name = f"{check.exercise.partition('.')[0]}.{frames[-1].function.partition('.')[0]}" if frames else check.exercise
    if check.status != "crashed" or name == check.exercise or course.exercise(name) is None:
        return check
    return replace(check, mistake=None, symptom="", follows=(name,))


class _Here:
    """The notebook's own namespace as the student's module: an origin, as in student.py."""

    gpu = ("", "checks that need one are run when it is graded")

    def __init__(self, module: str) -> None:
        self.names = vars(sys.modules[NAMESPACE])
        self.files = {file: f"{module}.ipynb {_label(file)}" for file in _files(self.names)}

    def source(self) -> bytes:
        """The cells that define something, for the rules that are read from code."""
        return "\n".join("".join(linecache.getlines(file)) for file in self.files).encode("utf-8", "replace")

    def module(self, module: str, exercise: str, device: str = "") -> Any:
        from .student import StudentModule

        found, function = StudentModule(module), exercise.rpartition(".")[2]
        vars(found).update((name, value) for name, value in self.names.items() if not name.startswith("__"))
        if function not in self.names:
            words = f"{function} is not there yet: write it in the cell above, and run that cell first"
            found.trouble = Trouble("missing", "AttributeError", words)
        return found


def _files(names: Mapping[str, Any]) -> dict[str, None]:
    """What tracebacks call the cells in which the notebook's own functions and classes were defined, in their order."""
    own = [value for value in names.values() if getattr(value, "__module__", "") == NAMESPACE]
    parts = [*own, *(part for value in own if isinstance(value, type) for part in vars(value).values())]
    return dict.fromkeys(part.__code__.co_filename for part in parts if hasattr(part, "__code__"))


def _label(file: str) -> str:
    """`In[3]`, as Jupyter itself says."""
    shell = vars(sys.modules[NAMESPACE])["get_ipython"]()
    found = shell.compile.format_code_name(file) if shell is not None else None
    return str(found[1]).replace(" ", "") if found else "a cell"


@contextlib.contextmanager
def _undisturbed() -> Iterator[io.StringIO]:
    """Keep what is printed, and give torch its threads back."""
    torch, printed = sys.modules.get("torch"), io.StringIO()
    threads = torch.get_num_threads() if torch is not None else 0
    try:
        with contextlib.redirect_stdout(printed):
            yield printed
    finally:
        if torch is not None:
            torch.set_num_threads(threads)
