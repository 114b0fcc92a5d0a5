"""An nbgrader course in a folder of its own, and students who hand in notebooks: for the tests and the benchmark."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grading import replaced

ROOT = Path(__file__).resolve().parent.parent
ASSIGNMENT = "multi-head-attention"
Notebook = dict[str, Any]


def make_course(folder: Path) -> Path:
    """A copy of this course with short limits in `folder`, so that endless loops end soon, and its nbgrader course inside."""
    for name in ("solutions", "exercises", "tests/checks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    limits = ("call_seconds = 10", "call_seconds = 2"), ("exercise_seconds = 20", "exercise_seconds = 4")
    settings = replaced(text, *limits, ("import_seconds = 10", "import_seconds = 4"))
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    run(folder, sys.executable, "-m", "grader", "release", "nb", "--for", "nbgrader")
    run(folder / "nb", *NBGRADER, "generate_assignment", ASSIGNMENT)
    return folder / "nb"


NBGRADER = (sys.executable, "-W", "ignore", "-m", "nbgrader")


def run(cwd: Path, *command: str, status: int = 0) -> str:
    """What a command wrote, both streams together."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "JUPYTER_ALLOW_INSECURE_WRITES": "1"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=580, check=False
    )
    assert done.returncode == status, done.stdout[-6000:]
    return done.stdout


def released(course: Path) -> dict[str, Notebook]:
    """The notebooks as students get them, by module."""
    paths = sorted((course / "release" / ASSIGNMENT).glob("*.ipynb"))
    notebooks = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    for notebook in notebooks.values():
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
    return notebooks


def hand_in(course: Path, student: str, notebooks: Mapping[str, Notebook]) -> None:
    folder = course / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True)
    for module, notebook in notebooks.items():
        (folder / f"{module}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def answers(module: str) -> dict[str, str]:
    """The code of each right answer of a module, by the function's name."""
    source = (ROOT / "solutions" / f"{module}.py").read_text(encoding="utf-8")
    lines = source.split("\n")
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {n.name: "\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in ast.parse(source).body if isinstance(n, definitions)}


def filled(notebooks: Mapping[str, Notebook], *changes: tuple[str, str, str]) -> dict[str, Notebook]:
    """The notebooks with every right answer; each change replaces a text in the answer of `module.function`."""
    made = json.loads(json.dumps(notebooks))
    for module, notebook in made.items():
        right = answers(module)
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
            if cell["id"].startswith("answer-"):
                cell["source"] = right[cell["id"].removeprefix("answer-")]
    for name, old, new in changes:
        cell = cell_of(made, name)
        cell["source"] = replaced(cell["source"], (old, new))
    return made


def cell_of(notebooks: Mapping[str, Notebook], name: str, kind: str = "answer") -> dict[str, Any]:
    """The answer (or try, or grade) cell of `module.function`."""
    module, _, function = name.partition(".")
    return next(cell for cell in notebooks[module]["cells"] if cell["id"] == f"{kind}-{function}")


def code(source: str, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
        "id": "x" + os.urandom(4).hex(),
    }


def markdown(source: str, **metadata: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": metadata, "source": source, "id": "x" + os.urandom(4).hex()}
