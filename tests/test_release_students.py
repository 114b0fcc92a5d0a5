"""The students' workspace: what must not be in it is searched for and tried out, and what is in it is used as a student would."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import oracle
from grading import ROOT, replaced

from grader.build import BEGIN, END
from grader.course import Course
from grader.release import ReleaseError, write, zipped

LONG = 25  # characters of a statement without spaces, from which on it is no coincidence
SPLIT = ("x = x.reshape(B, n, num_heads, d_model // num_heads)", "return x.reshape(B, num_heads, n, d_model // num_heads)")


@pytest.fixture(scope="module")
def workspace(students_files: Mapping[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, as a student unpacks it."""
    folder = tmp_path_factory.mktemp("student") / "attention"
    write(students_files, folder)
    return folder


@pytest.fixture(scope="module")
def python(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment of its own in which the workspace is installed, and that borrows other packages from this one."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    (Path(paths["purelib"]) / "zz_borrowed.pth").write_text(sysconfig.get_path("purelib"))
    made = str(Path(paths["scripts"]) / Path(sys.executable).name)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        made,
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-e",
        str(workspace),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    return made


def run(python: str, folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`python -m ARGUMENTS` in a folder, as in a terminal of 100 columns."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COVERAGE"))}
    environment |= {"COLUMNS": "100", "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [python, "-m", *arguments],
        **{"cwd": folder, "env": environment, "input": stdin, "capture_output": True, "text": True, "timeout": 300},
        check=False,
    )


@pytest.fixture
def evening(workspace: Path, tmp_path: Path) -> Path:
    """A copy of the workspace to write in."""
    folder = tmp_path / "mine"
    for path in workspace.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            (folder / path.relative_to(workspace)).parent.mkdir(parents=True, exist_ok=True)
            (folder / path.relative_to(workspace)).write_bytes(path.read_bytes())
    return folder


def solved(folder: Path, *changes: tuple[str, str]) -> None:
    """Write the NumPy lesson's solution, with changes, into a workspace."""
    source = (ROOT / "solutions/numpy_attention.py").read_text(encoding="utf-8")
    (folder / "numpy_attention.py").write_text(replaced(source, *changes), encoding="utf-8")


# What must not be in it


def test_the_verb_makes_the_same_bytes_again(students_files: Mapping[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "made.zip"
    command = [sys.executable, "-m", "grader", "release", str(path), "--for", "students"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True, capture_output=True, timeout=600)
    with zipfile.ZipFile(path) as again:
        assert [name for name, data in students_files.items() if again.read(name) != data] == []
    assert path.read_bytes() == zipped(students_files)


def test_a_place_that_is_taken_is_refused_at_once_and_a_new_one_is_made(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    for taken in (tmp_path, tmp_path / "there"):
        command = [sys.executable, "-m", "grader", "release", str(taken), "--for", "students"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False)
        assert (done.returncode, done.stderr) == (2, f"grader: {taken} is there already: give a new name, or remove it first\n")
    with pytest.raises(ReleaseError, match=r"a folder or a \.zip was due"):
        write({"a": b"b"}, tmp_path / "workspace.tar.gz")
    write({"a": b"b"}, tmp_path / "no/folder.zip")
    assert (tmp_path / "no/folder.zip").is_file()


def test_names_are_plain_and_portable(students_files: Mapping[str, bytes]) -> None:
    for name in students_files:
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)*", name, re.ASCII), name
    lowered = [name.lower() for name in students_files]
    assert len(set(lowered)) == len(lowered)


def statements(source: str) -> Iterator[str]:
    """Each statement of a source, docstrings left out, in one spelling without spaces; of a block its head alone."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            text = re.sub(r"\s", "", ast.unparse(node).split("\n")[0])
            if len(text) >= LONG and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                yield text


def code(files: Mapping[str, bytes]) -> dict[str, str]:
    """What is Python in these files, notebooks too, by name."""
    found = {name: data.decode() for name, data in files.items() if name.endswith(".py")}
    for name in (name for name in files if name.endswith(".ipynb")):
        cells = json.loads(files[name])["cells"]
        found[name] = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return found


def answers(course: Course) -> set[str]:
    """The statements that stand only in the solutions' marked regions."""
    all_, given = set[str](), set[str]()
    for module in course.modules:
        all_ |= set(statements((course.solutions / f"{module}.py").read_text(encoding="utf-8")))
        given |= set(statements((course.stubs / f"{module}.py").read_text(encoding="utf-8")))
    return all_ - given


def test_no_statement_of_a_solution_is_in_it(course: Course, students_files: Mapping[str, bytes]) -> None:
    secret = answers(course)
    assert len(secret) > 60
    assert not {name: found for name, text in code(students_files).items() if (found := secret & set(statements(text)))}
    for name, data in students_files.items():  # prose, comments and data too
        text = re.sub(r"\s", "", data.decode())
        assert not [statement for statement in secret if statement in text], name
        assert BEGIN not in data.decode() or name == "grader/notebook.py", name
        assert END not in data.decode(), name


def test_no_statement_of_a_mistake_is_in_it(course: Course, students_files: Mapping[str, bytes]) -> None:
    secret = set[str]()
    for path in (course.solutions / "mistakes").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                secret |= set(statements("\n".join(map(ast.unparse, node.body))))
    assert len(secret) > 300
    known = {text for path in (ROOT / "grader").rglob("*.py") for text in statements(path.read_text(encoding="utf-8"))}
    for name, text in code(students_files).items():
        assert not secret & set(statements(text)) - known, name


def test_no_hidden_check_is_in_it(course: Course, students_files: Mapping[str, bytes]) -> None:
    def described(folder: Path) -> set[str]:
        nodes = (node for path in folder.glob("*.py") for node in ast.parse(path.read_text(encoding="utf-8")).body)
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        return {part for node in functions for part in (node.name, (ast.get_docstring(node) or "").split("\n")[0])}

    secret = described(course.hidden) - described(course.visible)
    assert len(secret) > 100
    for name, data in students_files.items():
        text = data.decode()
        near = [part for part in secret if part in text]
        assert not [part for part in near if re.search(rf"\b{re.escape(part)}\b", text)], name


def questions() -> list[tuple[str, list[Any], Any]]:
    """For what students write: fresh arguments, and the first array that is due."""
    rng = np.random.default_rng(99)
    x, (q, k, v) = rng.normal(size=(2, 3, 20)), (rng.normal(size=(2, 4, n, 5)) for n in (3, 6, 6))
    mask, W = rng.random((2, 4, 3, 6)) < 0.3, [rng.normal(size=(20, 20)) / 4 for _ in range(4)]
    rows = rng.random((3, 5, 5))
    rows /= rows.sum(-1, keepdims=True)
    matrices = dict(zip(("W_Q", "W_K", "W_V", "W_O"), W, strict=True))
    return [
        ("softmax", [x], oracle.softmax(x)),
        ("split_heads", [x, 4], oracle.split_heads(x, 4)),
        ("merge_heads", [q], oracle.merge_heads(q)),
        ("attention", [q, k, v], oracle.attention(q, k, v)[0]),
        ("attention", [q, k, v, mask], oracle.attention(q, k, v, mask)[0]),
        ("causal_mask", [4, 7], oracle.causal(4, 7)),
        ("multi_head", [x, matrices, 4], oracle.multi_head(x, matrices, 4)[0]),
        ("repeat_kv", [k[:, :2], 6], oracle.repeat_kv(k[:, :2], 6)),
        ("grouped", [q, k[:, :2], v[:, :2]], oracle.grouped(q, k[:, :2], v[:, :2])[0]),
        ("attention_entropy", [rows], oracle.entropy(rows)),
        ("prune_heads", [*W, 4, [1]], np.delete(W[0], np.s_[5:10], axis=1)),
    ]


TRY = """
import importlib, inspect, itertools, pickle, pkgutil, sys, warnings
import numpy as np, torch
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import checks
names = [info.name for info in pkgutil.walk_packages(checks.__path__, "checks.")]
modules = [importlib.import_module(name) for name in ["checks", *names]]
asked, given = set(), []

def look(value):
    if isinstance(value, torch.Tensor): return value.detach().double().numpy()
    if isinstance(value, np.ndarray): return value.astype(float)
    if isinstance(value, (tuple, list)) and value: return look(value[0])
    if isinstance(value, dict) and value: return look(next(iter(value.values())))
    return None

def functions(module):
    for name, thing in list(vars(module).items()):
        if inspect.isfunction(thing) and thing.__module__.startswith("checks"):
            yield f"{module.__name__}.{name}", thing
    for name in ORACLE if module.__name__ == "checks.oracle" else ():
        yield f"oracle.{name}", getattr(module, name)

QUESTIONS, ORACLE = pickle.load(open(sys.argv[2], "rb"))
for module in modules:
    for name, function in functions(module):
        asked.add(name)
        for what, args, due in QUESTIONS:
            tensors = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
            for arguments in (args, tensors, [*args, None], [*args[1:], args[0]]):
                try:
                    got = look(function(*arguments))
                    if got is not None and got.shape == due.shape and np.allclose(got, due):
                        given.append((name, what))
                except BaseException:
                    pass
print(len(asked), sorted(set(given)))
"""


def test_nothing_in_the_checks_gives_an_answer(workspace: Path, tmp_path: Path) -> None:
    names = [name for name, thing in vars(oracle).items() if callable(thing) and not name.startswith("_")]

    def tried(tests: Path) -> str:
        asked = tmp_path / "questions.pickle"
        asked.write_bytes(pickle.dumps((questions(), [name for name in names if name[0].islower()])))
        command = [sys.executable, "-c", TRY, str(tests), str(asked)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().split("\n")[-1]

    count, _, given = tried(workspace / "tests").partition(" ")
    assert int(count) > 60
    assert given == "[]"
    assert "'softmax'" in tried(ROOT / "tests")  # the same search finds the real oracle's answers


def test_the_engine_has_no_instructors_parts(students_files: Mapping[str, bytes], python: str, workspace: Path) -> None:
    engine = {name.removeprefix("grader/") for name in students_files if name.startswith("grader/")}
    assert not engine & {"build.py", "verbs/build.py", "verbs/class_.py"}
    assert not [name for name in engine if name.startswith(("classes/", "release/", "nbgrader/"))]
    shown = run(python, workspace, "grader", "--help").stdout
    assert re.findall(r"^  (\w+)  ", shown[shown.index("Commands:") :], flags=re.M) == ["grade", "hint", "show", "watch"]


# What a student does with it


def test_the_stubs_are_all_todo_in_the_lessons_order(python: str, workspace: Path, course: Course) -> None:
    done = run(python, workspace, "pytest", "-p", "no:cacheprovider")
    assert done.returncode == 1, done.stdout + done.stderr
    table = re.findall(r"^(\w+\.\w+) +0 of .* todo$", done.stdout, flags=re.M)
    assert table == [exercise.name for exercise in course.exercises]
    assert "FAILURES" not in done.stdout
    assert re.search(r"^=+ \d+ todo in", done.stdout, flags=re.M)
    assert f"Next: {course.exercises[0].name}\n" in done.stdout


def test_all_solutions_are_celebrated(python: str, evening: Path, course: Course) -> None:
    for module in course.modules:
        (evening / f"{module}.py").write_bytes((course.solutions / f"{module}.py").read_bytes())
    done = run(python, evening, "pytest", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every check passes.\n\nYou have written multi-head attention" in done.stdout
    graded = run(python, evening, "grader", "grade", ".", "-k", "numpy_attention or prune_heads", "--fail-under", "100")
    assert graded.returncode == 0, graded.stdout


def test_a_known_mistake_is_named_from_numbers_alone(python: str, evening: Path) -> None:
    solved(evening, SPLIT)
    done = run(python, evening, "pytest", "-q", "-k", "numpy_attention")
    assert done.returncode == 1
    words = " ".join(done.stdout.split())
    assert "Next: numpy_attention.split_heads failed: head i holds features" in words
    assert "What happens: The features are read straight into the shape (B, h, n, d_k)" in words
    assert "This follows from numpy_attention.split_heads: mend that first." in words
    assert "You have written" not in words
    assert named(python, evening, "numpy_attention") == {"split_without_transpose"}


def named(python: str, folder: Path, exercise: str) -> set[str]:
    """The mistakes that grading one exercise of a workspace names."""
    graded = run(python, folder, "grader", "grade", ".", "-k", exercise, "--format", "json")
    checks = [check for item in json.loads(graded.stdout)["exercises"] for check in item["checks"]]
    return {check["mistake"]["name"] for check in checks if check["mistake"]}


def test_two_mistakes_are_named_together_or_apart(python: str, evening: Path) -> None:
    source = (ROOT / "solutions/numpy_attention.py").read_text(encoding="utf-8")
    right = source[source.index("    x = as_float(x)\n    largest") : source.index("    ### END SOLUTION")]
    solved(evening, (right, "    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)\n"))
    assert named(python, evening, "numpy_attention.softmax") == {"softmax_without_maximum+hidden_rows_nan"}
    check = """        if d_model % num_heads != 0:
            raise ValueError(f"d_model = {d_model} can't be split into {num_heads} equal heads")
        self.num_heads"""
    solved(evening, (check, "        self.num_heads"), ("merge_heads(heads) @ self.W_O", "merge_heads(heads)"))
    (both,) = named(python, evening, "numpy_attention.MultiHeadAttention")  # of a layer no pair is stored
    assert sorted(both.split("+")) == ["layer_accepts_uneven_heads", "output_projection_missing"]


def test_a_file_named_like_a_module_of_python_does_no_harm(python: str, workspace: Path) -> None:
    command = [str(Path(python).with_name("grader")), "grade", ".", "-k", "softmax"]
    for name in ("random.py", "copy.py"):
        (workspace / name).write_text("raise SystemExit('the wrong one')\n")
    try:
        done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, timeout=300, check=False)
    finally:
        for name in ("random.py", "copy.py"):
            (workspace / name).unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "softmax is still to do" in done.stdout


def test_an_unknown_one_is_described(python: str, evening: Path) -> None:
    solved(evening, ("/ q.shape[-1] ** 0.5", "/ q.shape[-1] ** 0.5 * 1.7"))
    done = run(python, evening, "pytest", "-q", "-k", "numpy_attention.attention")
    assert "The scores are 1.7 times those that are due" in " ".join(done.stdout.split())


def test_one_check_or_one_exercise_or_the_first_failure(python: str, evening: Path) -> None:
    solved(evening, SPLIT)
    node = "tests/checks/visible/test_numpy_attention.py::test_attention_mask_shape[padding]"
    assert "1 passed" in run(python, evening, "pytest", node).stdout
    assert "3 of 87 checks ran" in run(python, evening, "pytest", "-k", "softmax").stdout
    first = run(python, evening, "pytest", "-x").stdout
    assert re.search(r"Next: numpy_attention\.split_heads", first)
    assert "1 failed, 4 passed" in first


def test_prints_and_breakpoints_are_the_students_own(python: str, evening: Path) -> None:
    solved(evening, ("return x.transpose(0, 2, 1, 3)  # (B, h, n, d_k)", "print('seen', x.shape); breakpoint(); return x"))
    done = run(python, evening, "pytest", "-k", "split_slices", stdin="p num_heads * 1000\nc\n")
    assert "4000" in done.stdout
    assert "seen (2, 3, 4, 5)" in done.stdout
    assert done.stdout.count("(Pdb)") == 2  # the diagnosis calls the function again, and does not stop in it


def test_pdb_stops_in_the_students_line(python: str, evening: Path) -> None:
    solved(evening, ("    weights = softmax(scores)\n", "    weights = softmax(scores) @ np.eye(99)\n"))
    done = run(
        python,
        evening,
        "pytest",
        "--pdb",
        "-k",
        "test_attention_values and numpy",
        stdin="p scores.shape\nu\np due_output.shape\nq\n",
    )
    assert "(2, 3, 4, 6)\n" in done.stdout  # of scores
    assert "(2, 3, 4, 7)\n" in done.stdout  # of the check's due_output, one up


def test_hints_climb(python: str, workspace: Path, course: Course) -> None:
    for step, option in enumerate(("--hint", "--hint=2", "--hint=3", "--hint=9"), 1):
        words = " ".join(run(python, workspace, "pytest", "-p", "no:cacheprovider", "-k", "softmax", option).stdout.split())
        shown = min(step, 3)
        assert f"Hint {shown} of 3: {course.exercises[0].hints[shown - 1]}" in words
        assert (f"pytest --hint={shown + 1}" in words) is (shown < 3)
    assert course.exercises[1].hints[0] not in words


def test_the_numpy_lesson_needs_no_torch(python: str, workspace: Path) -> None:
    code = "import sys, pytest; pytest.main(['-q', '-pno:cacheprovider', '-knumpy_attention']); print('torch' in sys.modules)"
    done = subprocess.run([python, "-c", code], cwd=workspace, capture_output=True, text=True, timeout=300, check=False)
    assert "20 todo" in done.stdout
    assert done.stdout.strip().endswith("False")


def test_the_engine_imports_without_what_only_posix_has(python: str, workspace: Path) -> None:
    hidden = ["fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "landlockpy", "seccompy", "_posixsubprocess"][:-1]
    script = f"""
import importlib, pkgutil, sys
import os, signal, socket, subprocess
sys.modules.update(dict.fromkeys({hidden}))
for name in ("fork", "setsid", "killpg", "waitid", "getuid", "geteuid", "sched_setaffinity", "memfd_create", "register_at_fork"):
    vars(os).pop(name, None)
for name in ("SIGKILL", "SIGALRM", "SIGUSR1", "SIGCHLD", "setitimer", "alarm", "pthread_sigmask", "SIGXCPU", "SIGHUP"):
    vars(signal).pop(name, None)
import grader
names = [info.name for info in pkgutil.walk_packages(grader.__path__, "grader.") if not info.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    done = subprocess.run([python, "-c", script], cwd=workspace, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40


def test_what_was_not_installed_says_so(workspace: Path) -> None:
    done = run(sys.executable, workspace, "pytest", "-p", "no:grader", "-p", "no:cacheprovider")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "this folder is not installed yet. In it, run: pip install -e ." in done.stderr


def test_pytest_above_the_folder_says_where_to_start(python: str, workspace: Path) -> None:
    done = run(python, workspace.parent, "pytest", "-p", "no:cacheprovider")
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert f"Start pytest in the folder of the exercises: {workspace}" in done.stdout


def test_notebooks_are_checked_too(python: str, evening: Path) -> None:
    if not (evening / "notebooks").is_dir():
        pytest.skip("the course has no notebooks")
    done = run(python, evening, "pytest", "--submission=notebooks", "-q")
    assert re.search(r"^\d+ todo in", done.stdout, flags=re.M), done.stdout
