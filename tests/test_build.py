"""`grader build`: stubs come from the solutions, byte for byte, and a bad marker is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader import build
from grader.course import Course, find_course

BEGIN, END = build.BEGIN, build.END


@pytest.fixture(scope="module")
def built(course: Course) -> dict[Path, str]:
    return build.build(course)


def test_the_committed_exercises_are_what_build_writes(course: Course, built: dict[Path, str]) -> None:
    assert build.stale(course, built) == []


def test_no_solution_line_is_left_in_a_stub(course: Course, built: dict[Path, str]) -> None:
    for path, stub in built.items():
        if path.suffix == ".ipynb":
            stub = "\n".join("".join(cell["source"]) for cell in json.loads(stub)["cells"])
        source = (course.solutions / f"{path.stem}.py").read_text(encoding="utf-8")
        regions = [part.split(END)[0] for part in source.split(BEGIN)[1:]]
        assert regions
        answers = {line.strip() for region in regions for line in region.splitlines()}
        answers = {line for line in answers if len(line) > 20 and not line.startswith(("#", "raise", "else"))}
        code = {line.strip() for line in stub.splitlines()}
        assert not answers & code


def test_building_twice_changes_nothing(tiny: pytest.Pytester) -> None:
    tiny_course = find_course(tiny.path)
    assert [path.name for path in build.write(build.build(tiny_course))] == ["tiny.py", "tiny.ipynb"]
    assert build.write(build.build(tiny_course)) == []
    assert build.stale(tiny_course, build.build(tiny_course)) == []


def test_a_stale_a_missing_and_a_surplus_file_are_each_told(tiny: pytest.Pytester) -> None:
    tiny_course = find_course(tiny.path)
    built = build.build(tiny_course)
    assert build.stale(tiny_course, built) == ["exercises/tiny.py: missing", "exercises/tiny.ipynb: missing"]
    build.write(built)
    (tiny.path / "exercises/tiny.py").write_text("old")
    (tiny.path / "exercises/other.py").write_text("")
    (tiny.path / "exercises/other.ipynb").write_text("{}")
    assert build.stale(tiny_course, built) == [
        "exercises/other.ipynb: nothing generates it",
        "exercises/other.py: nothing generates it",
        "exercises/tiny.py: differs from what grader build writes",
    ]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (f"def double(x):\n    {BEGIN}\n    return 1\n", "solutions/tiny.py:2: a solution begins and never ends"),
        (f"def double(x):\n    return 1\n    {END}\n", "solutions/tiny.py:3: a solution ends that never began"),
        (f"{BEGIN}\nx = 1\n{END}\n", "solutions/tiny.py:1: a solution must stand inside a function or class"),
        (
            f"def double(x):\n    {BEGIN}\n    {BEGIN}\n    return 1\n    {END}\n",
            "solutions/tiny.py:3: a solution begins inside",
        ),
        (
            "def double(x):\n    # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\n",
            "solutions/tiny.py:2: a marker is written exactly",
        ),
        (
            f"def double(x):\n    {BEGIN}\n    return 1\ndef negate(x):\n    return 2\n    {END}\n",
            "solutions/tiny.py:2: the solution of double runs past",
        ),
        (
            f"def double(x):\n    {BEGIN}\n    return 1\n    {END}\n\ndef negate(x):\n    return 2\n",
            "solutions/tiny.py:6: exercise negate has no region",
        ),
        ("def double(x:\n", "solutions/tiny.py:1: '(' was never closed"),
    ],
)
def test_a_bad_solution_is_told_with_its_place(tiny: pytest.Pytester, source: str, complaint: str) -> None:
    (tiny.path / "solutions/tiny.py").write_text(source)
    with pytest.raises(build.BuildError) as error:
        build.build(find_course(tiny.path))
    assert str(error.value).startswith(complaint)


def test_a_missing_solution_is_told(tiny: pytest.Pytester) -> None:
    Path(tiny.path / "solutions/tiny.py").unlink()
    with pytest.raises(build.BuildError, match=r"solutions/tiny.py:1: can't be read: No such file"):
        build.build(find_course(tiny.path))
