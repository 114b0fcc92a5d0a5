"""Shared by the tests of the grader: the real course, and a tiny one that a test can bend."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.course import Course, find_course

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent

TINY = {
    "pyproject.toml": """
        [tool.pytest.ini_options]
        addopts = ["--strict-markers", "--import-mode=importlib"]
        [tool.grader]
        title = "Tiny"
        submission = "."
        [tool.grader.limits]
        call_seconds = 2
        exercise_seconds = 3
        import_seconds = 3
        [tool.grader.exercises.tiny]
        double = ["What is twice a number?", "x + x", "Add x to itself."]
        negate = ["Which number gives 0 with x?", "0 - x", "Take x from 0."]
    """,
    "solutions/tiny.py": '''
        """A tiny lesson."""


        def double(x):
            """Twice x."""
            ### BEGIN SOLUTION
            return x + x
            ### END SOLUTION


        def negate(x):
            """Minus x."""
            ### BEGIN SOLUTION
            return -x
            ### END SOLUTION
    ''',
    "tests/checks/visible/test_tiny.py": '''
        import pytest
        from grader import expect

        @pytest.mark.check("tiny.double", points=2)
        def test_double(student):
            """twice 3 is 6"""
            expect.integer(student.double(3), 6, "double(3)")

        @pytest.mark.check("tiny.negate", points=3)
        @pytest.mark.parametrize("x", [1, 2, 5])
        def test_negate(student, x):
            """minus x"""
            expect.integer(student.negate(x), -x, f"negate({x})")
    ''',
}


@pytest.fixture(scope="session")
def course() -> Course:
    """The course of this repository."""
    return find_course(ROOT)


@pytest.fixture(scope="session")
def students_files(course: Course) -> dict[str, bytes]:
    """The workspace that students get: it takes a while to make."""
    from grader.release import release

    return release(course, "students")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, driven by playwright. Not for a whole session: its event loop would be in others' way."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"])
        yield launched
        launched.close()


@pytest.fixture
def tiny(pytester: pytest.Pytester) -> pytest.Pytester:
    """A course of two exercises in a folder of its own, with nothing handed in yet."""
    from textwrap import dedent

    for name, text in TINY.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip(), encoding="utf-8")
    return pytester
