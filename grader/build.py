"""`grader build`: the stubs and notebooks that students get, made from the solutions by emptying the marked regions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

from .course import Course
from .worksheet import WorksheetError, worksheet

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


class BuildError(Exception):
    """A solution can't be turned into a stub; the message is `path:line: what is wrong`."""


def build(course: Course) -> dict[Path, str]:
    """The text of every generated file, by its path under the course's folder of stubs.

    Raises BuildError for a bad marker, a solution that is missing or no Python, and an exercise without a marked region.
    """
    stubs = {module: _stub(course, module) for module in course.modules}
    return {course.stubs / f"{module}.py": stub for module, stub in stubs.items()} | _notebooks(course, stubs)


def exercise_points(course: Course) -> dict[str, Fraction]:
    """What each exercise is worth, by its name, on any machine: checks that need a GPU are left out. Raises BuildError."""
    import pytest

    from .checks import Checks
    from .grade import GraderFailed, run_checks

    points = dict.fromkeys((exercise.name for exercise in course.exercises), Fraction(0))

    class Collected(Checks):
        def pytest_collection_finish(self, session: pytest.Session) -> None:
            for item in session.items:
                if item.nodeid in self.described and "gpu" not in getattr(item, "fixturenames", ()):
                    points[self.described[item.nodeid].exercise] += self.described[item.nodeid].points

    try:
        run_checks(Collected(course, course.seed, None), (), lambda _: nullcontext(None), lambda _: None)  # type: ignore[arg-type]
    except GraderFailed as error:
        raise BuildError(f"the checks say what exercises are worth, and {error}") from None
    return points


def _notebooks(course: Course, stubs: dict[str, str]) -> dict[Path, str]:
    points, made = exercise_points(course), {}
    for module, stub in stubs.items():
        own = {exercise.function: points[exercise.name] for exercise in course.exercises if exercise.module == module}
        more = course.solutions / "notebooks" / f"{module}.py"
        try:
            text = worksheet(module, stub, more.read_text(encoding="utf-8") if more.is_file() else "", own)
        except WorksheetError as error:
            raise BuildError(f"{module}.ipynb: {error}") from None
        made[course.stubs / f"{module}.ipynb"] = text
    return made


def stale(course: Course, built: dict[Path, str]) -> list[str]:
    """A sentence for each generated file that is missing, differs from what `build` gives, or that nothing generates."""
    found = {path for path in course.stubs.glob("*") if path.suffix in (".py", ".ipynb")} if course.stubs.is_dir() else set()
    names = {path: path.relative_to(course.root).as_posix() for path in found | built.keys()}
    sentences = [f"{names[path]}: nothing generates it" for path in sorted(found - built.keys())]
    for path, text in built.items():
        if path not in found:
            sentences.append(f"{names[path]}: missing")
        elif path.read_bytes() != text.encode():
            sentences.append(f"{names[path]}: differs from what grader build writes")
    return sentences


def write(built: dict[Path, str]) -> list[Path]:
    """Write what changed, and return those paths."""
    changed = [path for path, text in built.items() if not path.is_file() or path.read_bytes() != text.encode()]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(built[path].encode())
    return changed


def _stub(course: Course, module: str) -> str:
    path = course.solutions / f"{module}.py"
    where = path.relative_to(course.root).as_posix()
    try:
        source = path.read_text(encoding="utf-8")
        owners = _owners(ast.parse(source))
    except OSError as error:
        raise BuildError(f"{where}:1: can't be read: {error.strerror}") from None
    except SyntaxError as error:
        raise BuildError(f"{where}:{error.lineno}: {error.msg}") from None
    emptied: set[str] = set()
    stub = "\n".join(_emptied_lines(where, source.split("\n"), owners, emptied))
    for function in (exercise.function for exercise in course.exercises if exercise.module == module):
        if function not in emptied:
            line = next((line for line, owner in owners.items() if owner == function), 1)
            raise BuildError(f"{where}:{line}: exercise {function} has no region between {BEGIN!r} and {END!r}")
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise BuildError(f"{where}:1: without its solutions the module is no Python: {error}") from None
    return stub


def _owners(tree: ast.Module) -> dict[int, str]:
    """The top-level function or class that each line belongs to."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        line: node.name
        for node in tree.body
        if isinstance(node, kinds)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 2)  # an END may stand one line below the body
    }


def _emptied_lines(where: str, lines: list[str], owners: dict[int, str], emptied: set[str]) -> Iterator[str]:
    begun = 0  # the line of the open BEGIN
    for number, line in enumerate(lines, 1):
        marker = line.strip()
        if marker == BEGIN:
            if begun:
                raise BuildError(f"{where}:{number}: a solution begins inside the one begun in line {begun}")
            if number not in owners:
                raise BuildError(f"{where}:{number}: a solution must stand inside a function or class")
            begun = number
            emptied.add(owners[number])
            indent = line[: len(line) - len(line.lstrip())]
            yield f'{indent}raise NotImplementedError("{owners[number]} is still to do")'
        elif marker == END:
            if not begun:
                raise BuildError(f"{where}:{number}: a solution ends that never began")
            begun = 0
        elif marker.lstrip("# ").upper() in ("BEGIN SOLUTION", "END SOLUTION"):
            raise BuildError(f"{where}:{number}: a marker is written exactly {BEGIN!r} or {END!r}")
        elif not begun:
            yield line
        elif owners.get(number, owners[begun]) != owners[begun]:
            raise BuildError(f"{where}:{begun}: the solution of {owners[begun]} runs past its end")
    if begun:
        raise BuildError(f"{where}:{begun}: a solution begins and never ends")
