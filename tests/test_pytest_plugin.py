"""pytest in a student's workspace: real runs of real pytest on a tiny course."""

from __future__ import annotations

import sys
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
    code = "import numpy as np\n\ndef double(x):\n    a, n, m, _ = np.ones((2, 3)), 4, None, 5\n    return a @ a, n, m\n"
    result = run(tiny, code)
    result.stdout.fnmatch_lines(["ValueError: matmul*(line 5: return a @ a, n, m)", "There: a (2, 3), n 4, m None."])


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


def test_a_call_that_fits_no_parameters_is_no_fault_of_the_grader(diagnosed: pytest.Pytester) -> None:
    result = run(diagnosed, "def double(x, axis):\n    return x + x\n", "-k", "double")
    result.stdout.fnmatch_lines(["tiny.double*0 of 2*crashed", "*TypeError: double() missing 1*'axis'", "*Keep the parameters*"])


def test_where_no_check_was_chosen_the_student_reads_how_to_choose(tiny: pytest.Pytester) -> None:
    result = run(tiny, RIGHT, "-k", "duoble")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["No check was chosen: run pytest in *, or pytest -k double"])


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


def test_checks_run_in_the_order_of_the_lesson_among_other_tests(tiny: pytest.Pytester) -> None:
    path = tiny.path / "tests/checks/visible"
    (path / "test_a.py").write_text((path / "test_tiny.py").read_text().split("\n\n@pytest.mark.check(")[0] + NEGATE)
    (path / "test_tiny.py").write_text((path / "test_tiny.py").read_text().split('\n@pytest.mark.check("tiny.negate"')[0])
    (tiny.path / "tests/test_0.py").write_text("def test_mine():\n    pass\n")
    result = run(tiny, RIGHT, "-v", "tests")
    ran = [line.split()[0].rpartition("::")[2] for line in result.outlines if "::" in line]
    assert ran == ["test_double", "test_negate", "test_mine"]


NEGATE = '''

@pytest.mark.check("tiny.negate", points=3)
def test_negate(student):
    """minus x"""
    expect.integer(student.negate(4), -4, "negate(4)")
'''


def test_the_hint_that_is_asked_for_is_shown_alone(tiny: pytest.Pytester) -> None:
    wrong = "def double(x):\n    return 7\n"
    result = run(tiny, wrong, "--hint=2")
    result.stdout.fnmatch_lines(["Next: tiny.double", "*Hint 2 of 3: x + x", "*(the next step: pytest --hint=3)"])
    result.stdout.no_fnmatch_line("*FAILURES*")
    result.stdout.no_fnmatch_line("*From x, what gives 0*")
    run(tiny, wrong, "--hint").stdout.fnmatch_lines(["*Hint 1 of 3: What is twice a number?", "*pytest --hint=2)"])
    last = run(tiny, wrong, "--hint=3").stdout
    last.fnmatch_lines(["*Hint 3 of 3: Add x to itself."])
    last.no_fnmatch_line("*the next step*")
    result = run(tiny, wrong, "--hint", "tests/checks")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'tests/checks' is no step: write --hint=2*"])


def test_a_course_may_celebrate_what_is_whole(tiny: pytest.Pytester) -> None:
    path = tiny.path / "pyproject.toml"
    path.write_text(path.read_text().replace('title = "Tiny"', 'title = "Tiny"\ncelebration = "Now you can count backwards."'))
    run(tiny, RIGHT).stdout.fnmatch_lines(["Every check passes.", "", "Now you can count backwards."])
    part = run(tiny, RIGHT, "-k", "double").stdout
    part.fnmatch_lines(["1 of 4 checks ran", "Every check that ran passes."])
    part.no_fnmatch_line("*backwards*")


def test_what_keeps_a_file_from_being_imported_is_told_once(tiny: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)  # where it is set, pytest's own summary repeats the whole message
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    result = run(tiny, "def double(x)\n    return x\n")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*1 failed, 3 crashed*"])
    assert sum("is no Python" in line for line in result.outlines) == 2  # in the first failure, and in the summary


NO_TORCH = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
"""


@pytest.mark.parametrize("where", ["the student's file", "the check"])
def test_what_needs_torch_is_left_out_where_there_is_none(tiny: pytest.Pytester, where: str) -> None:
    (tiny.path / "conftest.py").write_text(NO_TORCH)
    config = tiny.path / "pyproject.toml"
    config.write_text(
        config.read_text().replace('title = "Tiny"', 'title = "Tiny"\ncelebration = "Now you can count backwards."')
    )
    path = tiny.path / "tests/checks/visible/test_tiny.py"
    if where == "the check":
        path.write_text(path.read_text().replace('"""twice 3 is 6"""', '"""twice 3 is 6"""\n    import torch'))
    result = run(tiny, "import torch\n" * (where != "the check") + dedent(RIGHT))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*points, torch is not installed here: pip install torch"])
    result.stdout.no_fnmatch_line("*the grader broke*")
    result.stdout.no_fnmatch_line("*crashed*")
    assert sum("pip install torch" in line for line in result.outlines) == 1
    result.stdout.no_fnmatch_line("*backwards*")  # no celebration of half a lesson


@pytest.fixture
def diagnosed(tiny: pytest.Pytester) -> pytest.Pytester:
    """The tiny course with a catalogue that knows nothing, and a symptom that asks the student's function once more."""
    mistakes = tiny.path / "solutions/mistakes/__init__.py"
    mistakes.parent.mkdir()
    mistakes.write_text("def double(x):\n    return x + x\n\nEXERCISES = {'tiny.double': double}\n")
    symptoms = tiny.path / "tests/checks/symptoms/__init__.py"
    symptoms.parent.mkdir()
    symptoms.write_text("SYMPTOMS = {'tiny.double': lambda calls, student: f'For 10 it gives {student(10)}.'}\n")
    return tiny


def test_a_diagnosis_prints_nothing_and_stops_nowhere(diagnosed: pytest.Pytester) -> None:
    code = "def double(x):\n    print('called with', x)\n    breakpoint()\n    return 7\n"
    (diagnosed.path / "tiny.py").write_text(code)
    result = diagnosed.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "double", stdin=b"c\n")
    result.stdout.fnmatch_lines(["*What it looks like: For 10 it gives 7."])
    assert result.stdout.str().count("(Pdb)") == 1
    result.stdout.fnmatch_lines(["*called with 3"])
    result.stdout.no_fnmatch_line("*called with 10*")


def test_what_was_stopped_is_not_called_again(diagnosed: pytest.Pytester) -> None:
    code = """
        import signal

        def double(x):
            with open("calls", "a") as file:
                print(x, file=file)
            return 7

        def negate(x):
            signal.raise_signal(signal.SIGINT)
    """
    result = run(diagnosed, code)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["tiny.double*0 of 2*failed", "0 of 2 points", "1 of 4 checks ran", "Next: tiny.double"])
    result.stdout.fnmatch_lines(["*tiny.py:10: KeyboardInterrupt"])
    assert (diagnosed.path / "calls").read_text() == "3\n"


def test_pdb_walks_through_the_check_and_the_students_code_alone(tiny: pytest.Pytester) -> None:
    (tiny.path / "tiny.py").write_text("def double(x):\n    found = {x: 9}\n    return sum(1 / y for y in [x, 0])\n")
    result = tiny.run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pdb", "-x", stdin=b"w\np y\nu\np found\nu\nl\nq\n"
    )
    result.stdout.fnmatch_lines(["*(Pdb)*0*", "*{3: 9}*", "*expect.integer(student.double(3)*"])
    result.stdout.fnmatch_lines(["tiny.double*0 of 2*crashed", "Next: tiny.double"])
    wrong = tiny.path / "tiny.py"
    wrong.write_text("def double(x):\n    return 7\n")
    result = tiny.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pdb", "-x", stdin=b"l\nq\n")
    result.stdout.fnmatch_lines(["*->*expect.integer(student.double(3)*"])
