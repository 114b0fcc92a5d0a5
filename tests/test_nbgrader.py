"""nbgrader's own commands on one course with twenty-two students: the gradebook says what `grader grade` says."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grading import SCRIPT, replaced
from nbgrading import ASSIGNMENT, NBGRADER, ROOT, Notebook, cell_of, code, filled, hand_in, make_course, markdown, released, run

pytest.importorskip("nbgrader")

EVIL = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
BEGIN = "    ### BEGIN SOLUTION\n"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HIDDEN = "tests/checks/hidden/test_numpy_attention_hidden.py"
CHEAT = f"""
import builtins, numpy, torch
torch.allclose = numpy.allclose = torch.equal = lambda *args, **kwargs: True
builtins.AssertionError = ValueError
print({EVIL!r})
"""
DATABASE = """
import sqlite3
for path in ({path!r}, "../gradebook.db", "../../../gradebook.db"):
    try:
        with sqlite3.connect(path) as database:
            database.execute("update grade set auto_score = 1000")
    except Exception as error:
        print(error)
"""
NOTEBOOKS_OF = """
    select submitted_notebook.id from submitted_notebook
    join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id where student_id =
"""
NO_FEEDBACK = (
    "part,empty,warning,syntax,loop,loop-in-cell,exit,exit-in-cell,raises-in-cell,deleted,deleted-answers,doubled,magics,kernel"
)
Notebooks = dict[str, Notebook]


def submissions(stubs: Notebooks, course: Path) -> dict[str, Notebooks]:
    """What each student hands in: the notebooks that matter, since every one takes its time."""
    right = filled(stubs)
    return {
        "right": right,
        "stub": stubs,
        "part": only(right, "numpy_attention"),
        "empty": {module: {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4} for module in list(stubs)[:2]},
        **wrong(stubs),
        **broken(stubs),
        **rearranged(right),
        "allclose": hostile(stubs, CHEAT),
        "database": hostile(stubs, DATABASE.format(path=course / "gradebook.db")),
        "reader": with_softmax(stubs, f"    raise ValueError(open({str(course.parent / HIDDEN)!r}).read())\n"),
        "scripts": scripts(stubs),
    }


def wrong(stubs: Notebooks) -> dict[str, Notebooks]:
    """Wrong answers, and right ones that warn."""
    cut = "x = x.reshape(B, n, num_heads, d_model // num_heads)  # cuts the last axis only"
    turned = filled(
        stubs,
        ("numpy_attention.split_heads", cut, "return x.reshape(B, num_heads, n, d_model // num_heads)"),
        ("torch_attention.causal_mask", " > positions", " < positions"),
    )
    warns = with_softmax(stubs, "    import warnings\n    warnings.warn('old')\n")
    return {"wrong": only(turned, "numpy_attention", "torch_attention"), "warning": warns}


def broken(stubs: Notebooks) -> dict[str, Notebooks]:
    """Whoever breaks in one exercise: inside the function, or in its cell before the function is there."""
    name = "grouped_query.kv_cache_bytes"
    changes = {
        "syntax": (name, BEGIN, "    x = = 3\n"),
        "loop": (name, BEGIN, "    while True:\n        pass\n"),
        "loop-in-cell": (name, "def kv_cache", "while True:\n    pass\n\n\ndef kv_cache"),
        "exit": (name, BEGIN, "    import os\n    os._exit(0)\n"),
        "exit-in-cell": (name, "def kv_cache", "import os\nos._exit(0)\n\n\ndef kv_cache"),
        "raises-in-cell": (name, "def kv_cache", "1 / 0\n\n\ndef kv_cache"),
    }
    return {student: only(filled(stubs, change), "grouped_query") for student, change in changes.items()}


def rearranged(right: Notebooks) -> dict[str, Notebooks]:
    """Right answers in notebooks that were not left as they came."""
    one = right["numpy_attention"]
    text = re.compile("grade|try|setup|text|one|what")
    magics = code("%matplotlib inline\n!pip list\nsoftmax?"), code("%%bash\nexit 1")
    odd = code("%time x = 3\nfiles = !ls\nprint('%s'\n  % x)")
    answers = [cell for cell in one["cells"] if cell["id"].startswith("answer-")]
    others = [cell for cell in one["cells"] if not cell["id"].startswith("answer-")]
    kernel = {"kernelspec": {"name": "julia", "display_name": "J", "language": "julia"}, "title": EVIL}
    cells = {
        "deleted": [cell for cell in one["cells"] if not text.match(cell["id"])],
        "deleted-answers": [cell for cell in one["cells"] if "softmax" not in cell["id"]],
        "doubled": [each for cell in one["cells"] for each in (cell, cell)],
        "reordered": [*others, *answers[::-1]],
        "magics": [*magics, *one["cells"], odd],
        "kernel": one["cells"],
    }
    made = {student: {"numpy_attention": {**one, "cells": found}} for student, found in cells.items()}
    made["kernel"]["numpy_attention"]["metadata"] = kernel
    return made


def only(notebooks: Notebooks, *modules: str) -> Notebooks:
    return {module: notebooks[module] for module in modules}


def with_softmax(stubs: Notebooks, first: str) -> Notebooks:
    """Right answers, with these first lines in softmax."""
    return only(filled(stubs, ("numpy_attention.softmax", BEGIN, BEGIN + first)), "numpy_attention")


def hostile(stubs: Notebooks, source: str) -> Notebooks:
    """Stubs, and a first cell that wants the points all the same."""
    notebook = stubs["numpy_attention"]
    return {"numpy_attention": {**notebook, "cells": [code(source), *notebook["cells"]]}}


def scripts(stubs: Notebooks) -> Notebooks:
    """Stubs with forged outputs and marks, asserts taken away, and scripts wherever one might be shown."""
    made: Notebooks = json.loads(json.dumps(only(stubs, "numpy_attention", "grouped_query")))
    for notebook in made.values():
        for cell in notebook["cells"]:
            if cell["id"].startswith("grade-"):
                forged = {
                    "output_type": "execute_result",
                    "data": {"text/plain": "1000.0", "text/html": EVIL},
                    "metadata": {},
                    "execution_count": 1,
                }
                cell["outputs"], cell["source"] = [forged], "1000.0"
                cell["metadata"]["nbgrader"]["points"] = 1000
            elif cell["cell_type"] == "markdown":
                cell["source"] = f"{cell['source']}\n\n{EVIL}\n\n`a < b` <b>x</b> $\\href{{javascript:alert(1)}}{{x}}$"
        notebook["cells"] += [
            {"cell_type": "raw", "metadata": {}, "source": EVIL, "id": "raw-1"},
            {"cell_type": "raw", "metadata": {"raw_mimetype": "text/html"}, "source": EVIL, "id": "raw-2"},
            markdown(EVIL, tags=[f'"{EVIL}'], nbgrader=[EVIL]),
            code(f"raise ValueError({EVIL!r})", nbgrader={"grade": True, "grade_id": EVIL, "points": 5}),
        ]  # fmt: skip
    softmax = cell_of(made, "numpy_attention.softmax")
    softmax["source"] = replaced(softmax["source"], ('NotImplementedError("softmax is still to do")', f"ValueError({EVIL!r})"))
    return made


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course after autograde, feedback and export."""
    nb = make_course(tmp_path_factory.mktemp("course"))
    for student, notebooks in submissions(released(nb), nb).items():
        hand_in(nb, student, notebooks)
    run(nb, *NBGRADER, "autograde", ASSIGNMENT)
    run(nb, *NBGRADER, "generate_feedback", ASSIGNMENT, f"--CourseDirectory.student_id_exclude={NO_FEEDBACK}")
    run(nb, *NBGRADER, "export")
    return nb


@pytest.fixture(scope="module")
def reports(course: Path) -> dict[str, dict[str, Any]]:
    """What `grader grade` says of the same notebooks, by student."""
    folder = course.parent / "same"
    for path in (course / "submitted").iterdir():
        shutil.copytree(path / ASSIGNMENT, folder / path.name)
    settings = json.dumps({"gpu": "skip"})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), settings], cwd=course.parent, capture_output=True, text=True, check=True
    )
    lines = [json.loads(line.removeprefix("REPORT ")) for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    return {report["submission"]: report for report in lines}


def grades(course: Path) -> dict[str, dict[str, float]]:
    """The automatic scores in the gradebook, by student and `notebook.exercise`."""
    query = """
        select submitted_assignment.student_id, notebook.name, base_cell.name, grade.auto_score
        from grade join base_cell on base_cell.id = grade.cell_id
        join submitted_notebook on submitted_notebook.id = grade.notebook_id
        join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
        join notebook on notebook.id = submitted_notebook.notebook_id
    """
    found: dict[str, dict[str, float]] = {}
    with sqlite3.connect(course / "gradebook.db") as database:
        for student, notebook, cell, score in database.execute(query):
            if cell.startswith("grade-"):
                found.setdefault(student, {})[f"{notebook}.{cell.removeprefix('grade-')}"] = score
    return found


def test_the_gradebook_says_what_grader_grade_says(course: Path, reports: dict[str, dict[str, Any]]) -> None:
    found = grades(course)
    assert found.keys() == reports.keys()
    for student, report in reports.items():
        due = {exercise["name"]: exercise["score"] for exercise in report["exercises"]}
        assert found[student] == pytest.approx(due), student


def test_whoever_is_right_has_all_points_and_a_broken_exercise_costs_itself(course: Path) -> None:
    found = grades(course)
    full = found["right"]
    assert sum(full.values()) == 96
    lost = {
        student: {
            name.partition(".")[2]
            for name, got in points.items()
            if got != full[name] and name.startswith(handed(course, student))
        }
        for student, points in found.items()
    }
    whole = {"right", "part", "warning", "deleted", "doubled", "magics", "kernel", "reordered"}
    assert {student for student, names in lost.items() if not names} == whole
    for student in ("syntax", "loop", "loop-in-cell", "exit", "exit-in-cell", "raises-in-cell"):
        assert lost[student] == {"kv_cache_bytes"}, student
    for student in ("stub", "empty", "allclose", "database", "scripts"):
        assert sum(found[student].values()) == 0, student


def handed(course: Path, student: str) -> tuple[str, ...]:
    """The modules that a student handed in."""
    return tuple(path.stem for path in (course / "submitted" / student / ASSIGNMENT).glob("*.ipynb"))


def test_the_command_says_the_same_as_the_notebook(course: Path) -> None:
    told = run(course.parent, sys.executable, "-m", "grader", "grade", f"nb/submitted/wrong/{ASSIGNMENT}", "--gpu", "skip")
    outputs = outputs_of(course, "wrong", "numpy_attention")["grade-split_heads"]
    message = "output[0, 0, 1, 0] is 5, due was 20; 100 of 120 values differ, by up to 30"
    assert message in told
    assert message in "".join(outputs[0]["text"])
    assert outputs[1]["data"] == {"text/plain": ["2.0"]}


def outputs_of(course: Path, student: str, module: str) -> dict[str, list[dict[str, Any]]]:
    notebook = json.loads((course / "autograded" / student / ASSIGNMENT / f"{module}.ipynb").read_text())
    marked = (cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade") and "outputs" in cell)
    return {cell["metadata"]["nbgrader"]["grade_id"]: cell["outputs"] for cell in marked}


def test_nothing_runs_and_nothing_leaks_in_feedback(course: Path) -> None:
    pages = {path: path.read_text() for path in (course / "feedback").rglob("*.html")}
    assert {path.parent.parent.name for path in pages} == {
        "right",
        "stub",
        "wrong",
        "allclose",
        "database",
        "reader",
        "scripts",
        "reordered",
    }
    secrets = hidden_code() | answers_code()
    for path, text in pages.items():
        assert "window.pwned = 1</script>" not in text.replace("&lt;", "?"), path
        assert not re.search(r"<(script|img|b|svg)[^>]*(pwned|>x<)", text), path
        assert "javascript:alert" not in text, path
        if path.parent.parent.name in ("stub", "empty", "allclose", "database", "scripts"):
            assert not [secret for secret in secrets if secret in text], path
    reader = (course / f"feedback/reader/{ASSIGNMENT}/numpy_attention.html").read_text()
    assert "ValueError" in reader or "PermissionError" in reader
    assert not [secret for secret in hidden_code() if secret in reader]


def hidden_code() -> set[str]:
    """Lines of hidden checks, and their titles, that visible ones have not got."""
    folders = {name: (ROOT / "tests/checks" / name).glob("*.py") for name in ("hidden", "visible")}
    lines = {
        name: {line.strip(' "') for path in paths for line in path.read_text().splitlines()} for name, paths in folders.items()
    }
    return {
        line
        for line in lines["hidden"] - lines["visible"]
        if len(line) > 30 and not line.startswith(("import", "from", "@", "#"))
    }


def answers_code() -> set[str]:
    """Lines that stand in solutions and not in stubs."""
    pairs = [(path.read_text(), (ROOT / "exercises" / path.name).read_text()) for path in (ROOT / "solutions").glob("*.py")]
    lines = {line.strip() for solution, stub in pairs for line in set(solution.splitlines()) - set(stub.splitlines())}
    return {line for line in lines if len(line) > 30 and not line.startswith("#")}


def test_feedback_has_the_report_and_a_comment_in_the_courses_words(course: Path) -> None:
    text = (course / f"feedback/wrong/{ASSIGNMENT}/numpy_attention.html").read_text()
    assert "output[0, 0, 1, 0] is 5, due was 20" in text
    assert "a head gets pieces of several tokens" in text.partition("Comments:")[2]
    with sqlite3.connect(course / "gradebook.db") as database:
        told = " ".join(row[0] or "" for row in database.execute("select auto_comment from comment"))
    assert "pwned" not in told
    assert "Every check passes." in told


def test_export_has_points_by_exercise_and_names_mistakes(course: Path) -> None:
    with (course / "grades.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert rows["right"]["numpy_attention.attention"] == "10.0"
    assert rows["right"]["score"] == "96.0"
    assert rows["right"]["max_score"] == "102.0"  # three questions are for a person to grade
    assert "numpy_attention.split_heads:" in rows["wrong"]["mistakes"]
    assert rows["right"]["mistakes"] == rows["stub"]["mistakes"] == ""


def test_what_canvas_and_moodle_export_is_collected(course: Path) -> None:
    archive = course / "downloaded" / ASSIGNMENT / "archive"
    moodle = archive / "Émile O'Neil_77_assignsubmission_file_"
    moodle.mkdir(parents=True)
    for module in released(course):
        source = course / "release" / ASSIGNMENT / f"{module}.ipynb"
        shutil.copy(source, archive / f"doejane_LATE_12345_67890_{module}-1.ipynb")
        shutil.copy(source, moodle)
    run(course, *NBGRADER, "zip_collect", ASSIGNMENT)
    for student in ("12345", "77"):
        names = sorted(path.name for path in (course / "submitted" / student / ASSIGNMENT).iterdir())
        assert names == sorted(f"{module}.ipynb" for module in released(course))


def test_a_cell_that_is_worth_something_else_than_its_checks_is_not_graded(course: Path) -> None:
    path = course.parent / "tests/checks/visible/test_numpy_attention.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("points=", "points=1 + ", 1), encoding="utf-8")
    try:
        log = run(course, *NBGRADER, "autograde", ASSIGNMENT, "--student", "stub", "--force", status=1)
    finally:
        path.write_text(text, encoding="utf-8")
    assert "numpy_attention.softmax is worth 5 points, 4.0 in what was released: generate the assignment anew" in log


@pytest.fixture(scope="module")
def server(course: Path) -> Iterator[str]:
    """The address of a Jupyter server with the formgrader, on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    extension = "--ServerApp.jpserver_extensions=nbgrader.server_extensions.formgrader=True"
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=secret", extension]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with (course / "server.log").open("w") as log:
        command = [sys.executable, "-m", "jupyter_server", *options]
        process = subprocess.Popen(command, cwd=course, stdout=log, stderr=log, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            assert process.poll() is None, (course / "server.log").read_text()
            with contextlib.suppress(OSError):
                ask(f"{address}/api/status")
                break
            time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait()


def ask(address: str, method: str = "GET") -> Any:
    request = urllib.request.Request(address, method=method, headers={"Authorization": "token secret"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def test_the_formgraders_own_autograde_gives_the_same(course: Path, server: str, tmp_path: Path) -> None:
    before = grades(course)["wrong"]
    with sqlite3.connect(course / "gradebook.db") as database:
        database.execute(f"update grade set auto_score = 0 where notebook_id in ({NOTEBOOKS_OF}'wrong')")
    assert not any(grades(course)["wrong"].values())
    done = ask(f"{server}/formgrader/api/submission/{ASSIGNMENT}/wrong/autograde", "POST")
    assert done["success"], done
    assert grades(course)["wrong"] == before

    if CHROMIUM is None:
        pytest.skip("there is no Chromium here to look at the page with")
    sync = pytest.importorskip("playwright.sync_api")
    score = sum(points for name, points in before.items() if name.startswith("numpy_attention."))
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"])
        page = browser.new_page(extra_http_headers={"Authorization": "token secret"}, viewport={"width": 1200, "height": 900})
        page.goto(f"{server}/formgrader/manage_submissions/{ASSIGNMENT}", timeout=120_000)
        row = page.locator("tr", has_text="wrong")
        row.get_by_text(f"{sum(before.values()):g} / 102").wait_for(timeout=120_000)
        page.screenshot(path=tmp_path / "submissions.png")
        page.goto(f"{server}/formgrader/gradebook/{ASSIGNMENT}/numpy_attention", timeout=120_000)
        page.get_by_text(f"{score:g} / 34").wait_for(timeout=120_000)
        page.screenshot(path=tmp_path / "gradebook.png")
        browser.close()
