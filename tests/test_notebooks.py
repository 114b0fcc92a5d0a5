"""Lessons as notebooks, and notebooks as submissions: what is built, what a student sees in one, and what a cell can cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grading import grade_each
from nbgrading import ROOT, filled

from grader import build, notebook
from grader.confined.runner import Runner
from grader.course import Course, Limits, Rule
from grader.formats import inline
from grader.notebooks import cells, notebook_source, parse
from grader.report import Check, Report, by_exercise
from grader.source import rule_broken
from grader.student import InProcess
from grader.submission import Submission, read_submission
from grader.trouble import Trouble
from grader.worksheet import MISSING, SETUP, WorksheetError, worksheet


def code(*texts: str, **metadata: Any) -> bytes:
    """A notebook of code cells."""
    made = [{"cell_type": "code", "metadata": metadata, "source": text, "outputs": []} for text in texts]
    return json.dumps({"cells": made, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


def parts(*texts: str) -> list[str]:
    return [cell.text for cell in cells("lesson", notebook_source(code(*texts)))]


# Reading


def test_cells_keep_their_numbers_and_lines() -> None:
    found = cells("lesson", notebook_source(code("a = 1\n", "", "def f():\n    return a")))
    assert [(cell.file, cell.text.rstrip("\n")) for cell in found] == [
        ("lesson.ipynb cell 1", "a = 1"),
        ("lesson.ipynb cell 2", ""),
        ("lesson.ipynb cell 3", "def f():\n    return a"),
    ]
    assert found[2].name == "cell 3"
    assert found[2].defines("f")
    assert not found[2].defines("a")


def test_a_plain_file_has_no_cells() -> None:
    assert cells("lesson", b"# %%\nx = 1\n") == ()
    assert cells("lesson", b"# %% cell of mine\nx = 1\n") == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("%matplotlib inline\n!ls\n?f\nf?\nobj.method??\nx = 1", {"x": 1}),
        ("files = !ls\ntimes = %timeit -o 1\n%time y = 2", {"files": None, "times": None, "y": 2}),
        ("%%time\ny = 2", {"y": 2}),
        ("%%bash\nrm -rf x\ny = 2", {}),
        ("%%writefile x.py\nimport nothing_such", {}),
        ("text = '%s' \\\n  % 3", {"text": "3"}),  # a line that begins with % and is Python
        ("x = 1; y = '''\n!kept\n'''", {"x": 1, "y": "\n!kept\n"}),
        ("if True:\n    !ls\n    z = 3", {"z": 3}),
    ],
)
def test_magics_and_shell_lines_do_nothing_and_python_stays(text: str, names: dict[str, object]) -> None:
    (cell,) = parts(text)
    found: dict[str, object] = {}
    exec(cell, found)
    assert {name: value for name, value in found.items() if name != "__builtins__"} == names
    assert cell.rstrip("\n").count("\n") == text.count("\n")


def test_cells_that_nbgrader_puts_back_do_not_count() -> None:
    marks = {"grade": True, "locked": True, "solution": False, "grade_id": "grade-f"}
    assert notebook_source(code("def f(): return 1", nbgrader=marks)) == b""
    assert b"def f" in notebook_source(code("def f(): return 1", nbgrader={**marks, "grade": False, "locked": False}))
    assert b"def f" in notebook_source(code("def f(): return 1", nbgrader={**marks, "solution": True}))


@pytest.mark.parametrize(
    "data", [b"[]", b"{}", b'{"cells": 3}', b'{"cells": [3]}', b'{"cells": [{"cell_type": "code", "metadata": 3}]}']
)
def test_what_is_no_notebook_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        notebook_source(data)


def test_a_notebook_with_pictures_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "lesson.ipynb"
    made = json.loads(code("x = 1"))
    made["cells"][0]["outputs"] = [{"output_type": "display_data", "data": {"image/png": "A" * 3_000_000}, "metadata": {}}]
    path.write_text(json.dumps(made))
    assert b"x = 1" in read_submission(path, ["lesson"]).sources["lesson"]


def test_a_rule_is_read_from_the_cells_that_are_python() -> None:
    source = notebook_source(code("x = = 3", "import torch.nn.functional as F\ndef f(q):\n    return F.fused(q)"))
    assert len(parse(source).body) == 2
    assert rule_broken(source, "f", Rule(forbid=("fused",))) == "f must not call fused: write the formula out"


# Running


CELLS = {
    "right": ("def f(): return 1", "def g(): return 2", None),
    "syntax": ("def f(): return 1", "def g():\n    x = = 3", "lesson.ipynb cell 2 line 2 is no Python (invalid syntax): x = = 3"),
    "raises": ("def f(): return 1", "1 / 0\ndef g(): return 2", "ZeroDivisionError in cell 2, line 1"),
    "null": ("def f(): return 1", "def g():\n    return '\0'", "null bytes"),
}
DEATHS = {
    "loop": ("while True: pass\ndef g(): return 2", "ran longer than 2 s (cell 2, line 1)"),
    "exit": ("import os\nos._exit(0)\ndef g(): return 2", "it ended the process (exit status 0)"),
    "system exit": ("raise SystemExit\ndef g(): return 2", "SystemExit"),
    "segfault": ("import ctypes\nctypes.string_at(0)\ndef g(): return 2", "segmentation fault, cell 2, line 2"),
}


@pytest.fixture(scope="module")
def runner() -> Any:
    with Runner(Limits(call_seconds=2, import_seconds=2), preload=()) as started:
        yield started


@pytest.mark.parametrize("name", [*CELLS, *DEATHS])
def test_what_breaks_in_a_cell_costs_that_cell(name: str, runner: Runner) -> None:
    first, second, words = CELLS[name] if name in CELLS else ("def f(): return 1", *DEATHS[name])
    source = notebook_source(code(first, second, "def h(): return f() + 2"))
    with runner.open({"lesson": source}) as confined:
        student = confined.module("lesson")
        assert (student.f(), student.h()) == (1, 3)
        if words is None:
            assert student.g() == 2
            return
        with pytest.raises(Exception) as error:
            student.g()
        trouble: Trouble = error.value.trouble  # type: ignore[attr-defined]
        assert trouble.kind == "import"
        assert words in trouble.message


def test_names_from_before_a_cell_raised_are_there(runner: Runner) -> None:
    with runner.open({"lesson": notebook_source(code("def f(): return 1\nprint(f(2))"))}) as confined:
        assert confined.module("lesson").f() == 1


def test_an_error_names_the_cell_and_the_line(runner: Runner) -> None:
    source = notebook_source(code("x = 1", "def f():\n    return {}[x]"))
    with runner.open({"lesson": source}) as confined, pytest.raises(KeyError) as error:
        confined.module("lesson").f()
    (frame,) = error.value.trouble.frames  # type: ignore[attr-defined]
    assert (frame.file, frame.line, frame.code) == ("lesson.ipynb cell 2", 2, "return {}[x]")
    assert frame.place == "cell 2, line 2"


def test_too_many_cells_that_end_the_process_end_the_module(runner: Runner) -> None:
    deaths = ["import os; os._exit(1)"] * 9
    with runner.open({"lesson": notebook_source(code("def f(): return 1", *deaths))}) as confined:
        with pytest.raises(Exception, match="ended the process"):
            confined.module("lesson").f()
        assert confined.generation < 9


@pytest.mark.parametrize("name", CELLS)
def test_a_students_own_pytest_runs_cells_the_same_way(name: str) -> None:
    first, second, words = CELLS[name]
    source = notebook_source(code(first, second, "def h(): return f() + 2"))
    origin = InProcess(Submission("me", {"lesson": source}, paths={"lesson": Path("lesson.ipynb")}))
    try:
        student = origin.module("lesson", "lesson.g")
        assert (student.f(), student.h()) == (1, 3)
        if words is not None:
            with pytest.raises(Exception) as error:
                student.g()
            assert words in error.value.trouble.message  # type: ignore[attr-defined]
    finally:
        origin.close()


WRONG = (
    ("numpy_attention.split_heads", "return x.transpose(0, 2, 1, 3)", "return x.reshape(B, num_heads, n, -1)"),
    ("numpy_attention.merge_heads", "B, h, n, d_v = x.shape", "B, h, n, d_v = x.shape[1:]"),
)


def test_a_notebook_counts_as_the_same_code_in_a_file() -> None:
    stub = json.loads((ROOT / "exercises/numpy_attention.ipynb").read_text(encoding="utf-8"))
    made = filled({"numpy_attention": stub}, *WRONG)["numpy_attention"]
    source = "\n\n".join("".join(cell["source"]) for cell in made["cells"] if cell["id"].startswith(("answer-", "code-import")))
    handed = {"notebook": {"numpy_attention.ipynb": json.dumps(made)}, "file": {"numpy_attention.py": source}}
    reports = grade_each(handed, select="numpy_attention", gpu="skip")
    notebook, file = (
        [without_places(check) for item in reports[name]["exercises"] for check in item["checks"]] for name in handed
    )
    assert notebook == file
    assert {check["status"] for check in file} == {"passed", "failed", "crashed"}


def without_places(check: dict[str, Any]) -> dict[str, Any]:
    """A check of a report without the lines that it names."""
    message = re.sub(r"\((cell \d+, )?line \d+", "(line", check["message"])
    return {**check, "message": message, "trace": len(check.get("trace", ()))}


def test_a_notebook_is_graded_without_jupyter(tmp_path: Path) -> None:
    path = tmp_path / "handed" / "numpy_attention.ipynb"
    path.parent.mkdir()
    path.write_bytes(
        code("import numpy as np", "def merge_heads(x):\n    return x.transpose(0, 2, 1, 3).reshape(len(x), x.shape[2], -1)")
    )
    absent = ("nbgrader", "jupytext", "nbformat", "nbconvert", "nbclient", "IPython")
    start = f"import sys; sys.modules.update(dict.fromkeys({absent})); from grader.cli import main; main()"
    for given in (path, path.parent):
        command = [sys.executable, "-c", start, "grade", str(given), "--format", "json", "-k", "numpy_attention.merge_heads"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["score"] == 5


# Building


STUB = textwrap.dedent('''\
    """A lesson."""

    # %% [markdown]
    # # The title
    #
    # Text with $x^2$.

    # %%
    import math


    def twice(x):
        """Twice x."""
        raise NotImplementedError("twice is still to do")


    Pair = tuple

    # %% [markdown] question="why" points=2
    # Why twice?

    # %%
    if __name__ == "__main__":  # try it
        print(twice(2))
''')


def test_a_stub_becomes_a_notebook() -> None:
    made = json.loads(worksheet("lesson", STUB, "", {"twice": Fraction(5, 2)}))
    found = {cell["id"]: cell for cell in made["cells"]}
    assert list(found) == [
        *("text-the-title", "setup", "code-import-math", "answer-twice", "try-twice", "grade-twice", "code-pair-tuple"),
        *("text-why-twice", "why", "code-if-name-main-try-it"),
    ]
    assert "".join(found["text-the-title"]["source"]).startswith("# The title\n\nA lesson.\n\n")
    assert "".join(found["answer-twice"]["source"]).startswith("def twice(x):")
    assert found["grade-twice"]["source"] == ['points("lesson.twice")']
    marks = {id: cell["metadata"].get("nbgrader", {}) for id, cell in found.items()}
    assert (marks["grade-twice"]["points"], marks["grade-twice"]["locked"], marks["grade-twice"]["solution"]) == (
        2.5,
        True,
        False,
    )
    assert (marks["answer-twice"]["solution"], marks["answer-twice"]["locked"], marks["answer-twice"]["grade"]) == (
        True,
        False,
        False,
    )
    assert (marks["why"]["points"], marks["why"]["grade"], marks["why"]["solution"]) == (2, True, True)
    assert {mark["schema_version"] for mark in marks.values() if mark} == {3}
    assert made["metadata"]["kernelspec"]["name"] == "python3"


def test_a_demonstration_says_what_is_still_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(worksheet("lesson", STUB, "", {"twice": Fraction(1)}))
    source = "\n".join("".join(cell["source"]) for cell in made["cells"] if cell["id"].startswith(("answer", "code")))
    exec(source, {"__name__": "__main__"})
    assert capsys.readouterr().out == "twice is still to do\n"


def test_a_notebooks_own_cells_stand_at_its_end_and_never_run_when_graded() -> None:
    more = '# %% [markdown]\n# More.\n\n# %%\nif __name__ == "__main__":\n    print(3)\n'
    made = json.loads(worksheet("lesson", STUB, more, {"twice": Fraction(1)}))
    assert [cell["cell_type"] for cell in made["cells"][-2:]] == ["markdown", "code"]
    with pytest.raises(WorksheetError, match="begins with 'if __name__"):
        worksheet("lesson", STUB, "# %%\nprint(3)\n", {"twice": Fraction(1)})


def test_without_jupytext_build_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(WorksheetError, match=r"need jupytext: pip install -e '\.\[instructor\]'"):
        worksheet("lesson", STUB, "", {})


def test_the_notebooks_give_what_the_checks_give(course: Course) -> None:
    points = build.exercise_points(course)
    assert sum(points.values()) == 96  # of 100: what needs a GPU is left out
    for module in course.modules:
        made = json.loads((course.stubs / f"{module}.ipynb").read_text(encoding="utf-8"))
        marks = {cell["id"]: cell["metadata"].get("nbgrader", {}) for cell in made["cells"]}
        for exercise in course.exercises:
            if exercise.module == module:
                assert marks[f"grade-{exercise.function}"]["points"] == points[exercise.name]


def test_the_notebooks_are_valid(course: Course) -> None:
    nbformat = pytest.importorskip("nbformat")
    for path in sorted(course.stubs.glob("*.ipynb")):
        read = nbformat.read(path, as_version=4)
        nbformat.validate(read)
        assert len({cell.id for cell in read.cells}) == len(read.cells)
        assert not any("BEGIN SOLUTION" in cell.source for cell in read.cells)


# In Jupyter


def execute(path: Path, made: Any) -> dict[str, Any]:
    """Run a notebook top to bottom, as Jupyter does; its outputs by the cell's id."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    read = nbformat.reads(json.dumps(made), as_version=4)
    where = {"metadata": {"path": str(path)}}
    nbclient.NotebookClient(read, timeout=300, kernel_name="python3", allow_errors=True, resources=where).execute()
    return {cell.id: cell.get("outputs", []) for cell in read.cells}


@pytest.fixture(scope="module")
def executed() -> dict[str, dict[str, Any]]:
    """The notebook of the NumPy lesson, run with every answer filled in, and as it comes; and one with three mistakes."""
    stub = json.loads((ROOT / "exercises/numpy_attention.ipynb").read_text(encoding="utf-8"))
    right = filled({"numpy_attention": stub})
    mistakes = filled(
        {"numpy_attention": stub},
        ("numpy_attention.split_heads", "return x.transpose(0, 2, 1, 3)", "return x.reshape(B, num_heads, n, -1)"),
        ("numpy_attention.softmax", "x = as_float(x)", "print('<b>hello')\n    x = None + x"),
        ("numpy_attention.merge_heads", "B, h, n, d_v = x.shape", "raise SystemExit('<script>')"),
    )
    made = {"right": right["numpy_attention"], "stub": stub, "mistakes": mistakes["numpy_attention"]}
    return {name: execute(ROOT / "exercises", notebook) for name, notebook in made.items()}


def shown(outputs: list[Any]) -> str:
    """The HTML of a cell's result."""
    return "".join(output.data.get("text/html", "") for output in outputs if output.output_type == "execute_result")


def test_a_finished_notebook_is_all_green(executed: dict[str, dict[str, Any]]) -> None:
    tried = {id: shown(outputs) for id, outputs in executed["right"].items() if id.startswith("try-")}
    assert len(tried) == 5
    for text in tried.values():
        assert "✓ passed" in text
        assert not any(word in text for word in ("✗", "○", "todo"))
    points = [
        output.data["text/plain"] for id in executed["right"] if id.startswith("grade-") for output in executed["right"][id][-1:]
    ]
    assert points == ["2.0", "3.0", "5.0", "2.5", "3.0"]


def test_an_untouched_notebook_says_todo_and_shows_no_traceback(executed: dict[str, dict[str, Any]]) -> None:
    outputs = executed["stub"]
    assert not [output for outs in outputs.values() for output in outs if output.output_type == "error"]
    for id, outs in outputs.items():
        if id.startswith("try-"):
            assert f"{id.removeprefix('try-')} is still to do" in shown(outs)
        if id.startswith("grade-"):
            assert outs[-1].data["text/plain"] == "0.0"


@pytest.mark.parametrize("module", ["torch_attention", "grouped_query", "head_analysis"])
def test_the_other_notebooks_go_from_todo_to_green(module: str) -> None:
    stub = json.loads((ROOT / f"exercises/{module}.ipynb").read_text(encoding="utf-8"))
    right = filled({module: stub})[module]
    answers = [{**cell, "id": f"then-{cell['id']}"[:64]} for cell in right["cells"] if cell["id"].startswith(("answer-", "try-"))]
    demonstrations = [cell for cell in right["cells"] if "__main__" in "".join(cell["source"])]
    kept = [
        cell for cell in stub["cells"] if module == "grouped_query" or cell not in demonstrations
    ]  # two of them take their time
    outputs = execute(ROOT / "exercises", {**stub, "cells": kept + answers})
    assert not [output for outs in outputs.values() for output in outs if output.output_type == "error"]
    tried = {id: shown(outs) for id, outs in outputs.items() if id.startswith(("try-", "then-try-"))}
    assert len(tried) == 2 * len([cell for cell in stub["cells"] if cell["id"].startswith("try-")])
    for id, text in tried.items():
        assert ("✓ passed" in text and "✗" not in text) if id.startswith("then-") else "is still to do" in text, id


def test_a_mistake_is_shown_with_a_picture_and_escaped(executed: dict[str, dict[str, Any]]) -> None:
    outputs = executed["mistakes"]
    split = shown(outputs["try-split_heads"])
    assert "output[0, 0, 1, 0] is 5, due was 20" in split
    assert "A reshape keeps the numbers in their order in memory" in split
    assert split.count("<table") == 2
    assert "<caption>due</caption>" in split
    softmax = shown(outputs["try-softmax"])
    assert "(In[3], line 24: x = None + x)" in softmax
    assert "It printed: &lt;b&gt;hello" in softmax
    assert "This follows from numpy_attention.softmax: mend that first." in shown(outputs["try-attention"])
    assert "SystemExit" in shown(outputs["try-merge_heads"])
    assert "<script>" not in shown(outputs["try-merge_heads"])


def test_who_stops_an_endless_loop_reads_where_it_was() -> None:
    stub = json.loads((ROOT / "exercises/numpy_attention.ipynb").read_text(encoding="utf-8"))
    stopped = ("numpy_attention.softmax", "x = as_float(x)", "__import__('signal').raise_signal(2)")
    made = filled({"numpy_attention": stub}, stopped)["numpy_attention"]
    ids = [cell["id"] for cell in made["cells"]]
    made["cells"] = made["cells"][: ids.index("try-softmax") + 1]
    (error,) = execute(ROOT / "exercises", made)["try-softmax"]
    assert error.ename == "KeyboardInterrupt"
    assert error.evalue == "In[3], line 23: __import__('signal').raise_signal(2)"
    assert "hidden" in "".join(error.traceback)


def test_without_the_engine_one_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grader.notebook", None)
    names: dict[str, Any] = {}
    exec(SETUP, names)
    assert names["check"]("lesson.f") == names["points"]("lesson.f") == 0.0  # under another autograder it earns nothing
    assert capsys.readouterr().out == f"{MISSING}\n" * 2


def test_check_is_for_notebooks() -> None:
    with pytest.raises(RuntimeError, match="for a notebook"):
        notebook.check("numpy_attention.softmax")


def test_long_and_flat_arrays_have_pictures_too() -> None:
    got, due = np.arange(40.0), np.arange(40.0)
    got[35] = np.nan
    report = one_check("failed")
    text = inline.html(report, {"a/1": (got, due, got == due)}, "")
    assert text.count("<td") == 20
    assert "nan" in text
    assert "35" in text
    assert "<table" not in inline.html(report, {"a/1": (np.float64(1), np.float64(2), np.bool_(False))}, "")


def one_check(status: str) -> Report:
    check = Check("a/1", "lesson.f", "a title <b>", Fraction(1), status, "it is & was")  # type: ignore[arg-type]
    return Report("me", by_exercise([check], [("lesson.f", ("A hint?",))]), "none", 1)


def test_html_and_text_say_the_same_and_escape() -> None:
    report = one_check("failed")
    html, text = inline.html(report, {}, "printed <i>"), inline.text(report, "printed <i>")
    for words in ("a title <b>", "it is & was", "Hint: A hint?", "It printed: printed <i>"):
        assert words in text
        assert escape(words) in html
        assert "<b>:" not in html
