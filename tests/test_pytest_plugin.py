"""pytest in a student's workspace: real runs of real pytest on a tiny course."""

from __future__ import annotations

from textwrap import dedent

import pytest


def run(tiny: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    (tiny.path / "tiny.py").write_text(dedent(code))
    return tiny.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


RIGHT = """
    def double(x):
        return x + x

    def negate(x):
        return -x
"""


def test_right_code_passes_and_the_table_says_so(tiny: pytest.Pytester) -> None:
    result = run(tiny, RIGHT)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["tiny.double*2 of 2*passed", "tiny.negate*3 of 3*passed", "5 of 5 points", "Every check passes."]
    )


def test_nothing_handed_in_is_todo_and_exits_with_1(tiny: pytest.Pytester) -> None:
    result = tiny.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*4 todo*"])
    result.stdout.no_fnmatch_line("*FAILURES*")


def test_each_kind_of_trouble_has_its_word(tiny: pytest.Pytester) -> None:
    result = run(
        tiny,
        """
        def double(x):
            return 7

        def negate(x):
            if x == 1:
                return double_missing(x)
            if x == 2:
                raise NotImplementedError("negate is still to do")
            return _helper(x)

        def _helper(x):
            return other(x)

        def other(x):
            import pytest
            pytest.skip("nothing to see")
        """,
        "-v",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*test_double FAILED*",
            "*double(3) is 7, due was 6*",
            "NameError: name 'double_missing' is not defined (line 7: return double_missing(x))",
            "other ended the run (Skipped: nothing to see)",
        ]
    )
    result.stdout.fnmatch_lines(["*test_negate?2? TODO*"])
    result.stdout.no_fnmatch_line("*SKIPPED*")


def test_a_check_that_meets_another_stub_is_blocked_by_it(tiny: pytest.Pytester) -> None:
    code = 'def double(x):\n    raise NotImplementedError("double is still to do")\n\ndef negate(x):\n    return x - double(x)\n'
    result = run(tiny, code)
    result.stdout.fnmatch_lines(["*1 todo, 3 blocked*"])


def test_a_syntax_error_is_told_with_its_line(tiny: pytest.Pytester) -> None:
    result = run(tiny, "def double(x)\n    return x\n")
    result.stdout.fnmatch_lines(["*tiny.py line 1 is no Python (expected ':'): def double(x)"])


def test_a_crash_shows_the_shapes_on_its_line(tiny: pytest.Pytester) -> None:
    code = "import numpy as np\n\ndef double(x):\n    a, other = np.ones((2, 3)), np.ones(7)\n    return a @ a\n"
    result = run(tiny, code)
    result.stdout.fnmatch_lines(["ValueError: matmul*(line 5: return a @ a)", "There: a (2, 3)."])


def test_a_folder_after_submission_is_told_how_to_be_written(tiny: pytest.Pytester) -> None:
    (tiny.path.parent / "elsewhere").mkdir(exist_ok=True)
    result = run(tiny, RIGHT, "--submission", str(tiny.path.parent / "elsewhere"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*write --submission=*"])


def test_with_a_submission_only_checks_run(tiny: pytest.Pytester) -> None:
    (tiny.path / "tests/test_other.py").write_text("def test_other():\n    assert False\n")
    assert run(tiny, RIGHT, "--submission=.").ret == 0


def test_a_warning_in_a_students_code_costs_nothing(tiny: pytest.Pytester) -> None:
    result = run(tiny, "import warnings\n" + dedent(RIGHT).replace("return -x", "warnings.warn('hm'); return -x"), "-W", "error")
    assert result.ret == 0


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ('"tiny.double"', "write @pytest.mark.check"),
        ('"tiny.dubble", points=2', "there is no exercise 'tiny.dubble'"),
        ('"tiny.double", points=0', "points is 0"),
        ('"tiny.double", points="2"', "points is '2'"),
    ],
)
def test_a_typo_in_a_marker_is_an_error_with_its_place(tiny: pytest.Pytester, marker: str, complaint: str) -> None:
    path = tiny.path / "tests/checks/visible/test_tiny.py"
    path.write_text(path.read_text().replace('"tiny.double", points=2', marker))
    result = run(tiny, RIGHT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*test_tiny.py:4: *{complaint}*"])


def test_a_check_without_a_title_is_an_error(tiny: pytest.Pytester) -> None:
    path = tiny.path / "tests/checks/visible/test_tiny.py"
    path.write_text(path.read_text().replace('"""twice 3 is 6"""', ""))
    result = run(tiny, RIGHT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_tiny.py:4: *the check's title, and there is none*"])


def test_a_fault_of_a_check_is_the_graders_own(tiny: pytest.Pytester) -> None:
    path = tiny.path / "tests/checks/visible/test_tiny.py"
    path.write_text(path.read_text().replace('expect.integer(student.double(3), 6, "double(3)")', "student.double(3).shape"))
    result = run(tiny, RIGHT)
    result.stdout.fnmatch_lines(["*broken: twice 3 is 6", "*the grader broke, not you: AttributeError*"])
    result.stdout.fnmatch_lines(["3 of 3 points"])


def test_outside_a_course_the_plugin_is_inert(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_mine(request):\n    assert not request.config.pluginmanager.has_plugin('grader-checks')\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*points*")


def test_one_exercise_file_may_import_another(tiny: pytest.Pytester) -> None:
    text = (tiny.path / "pyproject.toml").read_text()
    (tiny.path / "pyproject.toml").write_text(text + '\n[tool.grader.exercises.more]\ntriple = ["x"]\n')
    (tiny.path / "more.py").write_text("from tiny import double\n\ndef triple(x):\n    return x + double(x)\n")
    (tiny.path / "tests/checks/visible/test_more.py").write_text(
        dedent(
            '''
            import pytest
            from grader import expect

            @pytest.mark.check("more.triple", points=1)
            def test_triple(student):
                """three times"""
                expect.integer(student.triple(2), 6, "triple(2)")
            '''
        )
    )
    assert run(tiny, RIGHT).ret == 0
