"""The template repository for GitHub: its workflow is linted, and its shell steps are run as GitHub runs them."""

from __future__ import annotations

import base64
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from conftest import TINY
from grading import replaced

from grader.course import Course, find_course
from grader.release import Files, release, write, zipped
from grader.release.github import TEMPLATES

WORKFLOW = yaml.safe_load((TEMPLATES / "grade.yml").read_text())
STEPS = WORKFLOW["jobs"]["grade"]["steps"]
TOKEN = "a token"
HIDDEN = '''
import pytest
from grader import expect

@pytest.mark.check("tiny.double", points=4)
def test_double_of_a_large_number(student):
    """twice a large number"""
    expect.integer(student.double(31337), 62674, "double(31337)")
'''
RIGHT = "def double(x):\n    return x + x\n\n\ndef negate(x):\n    return -x\n"
WRONG = """def double(x):
    print("::error::owned")
    raise ValueError("::warning::owned\\n::error file=x::owned")



def negate(x):
    return x
"""
PASSES_VISIBLE = RIGHT.replace("x + x", "6 if x == 3 else 0")


def test_the_workflow_is_sound() -> None:
    actionlint = shutil.which("actionlint", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    assert actionlint, "actionlint comes with the extra test"
    run = subprocess.run([actionlint, "-no-color", str(TEMPLATES / "grade.yml")], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    bad = replaced((TEMPLATES / "grade.yml").read_text(), ("steps.grade.outputs", "steps.nothing.outputs"))
    run = subprocess.run([actionlint, "-"], input=bad, capture_output=True, text=True, check=False)
    assert run.returncode == 1  # it does look


def test_no_student_s_text_enters_a_shell() -> None:
    assert not [step for step in STEPS if "${{" in step.get("run", "")]
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert STEPS[0]["with"]["persist-credentials"] is False
    assert [step["name"] for step in STEPS if "secrets." in json.dumps(step)] == [
        "Find the course"
    ]  # and no later step sees them


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A tiny course with a hidden check."""
    root = tmp_path_factory.mktemp("course")
    more = {"tests/checks/hidden/test_tiny_hidden.py": HIDDEN, "pip.txt": "numpy\n"}
    for name, text in (TINY | more).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip())
    settings = root / "pyproject.toml"
    settings.write_text(replaced(settings.read_text(), ('submission = "."', 'submission = "."\nrequirements = "pip.txt"')))
    return find_course(root)


@pytest.fixture(scope="module")
def repository(small: Course) -> Files:
    return release(small, "github")


@pytest.fixture(scope="module")
def private(small: Course) -> Iterator[str]:
    """Where the course's autograder can be had by those who know the token."""
    archive = zipped(release(small, "gradescope"))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers["Authorization"] == f"Bearer {TOKEN}"
            self.send_response(200 if known else 404)
            self.end_headers()
            if known:
                self.wfile.write(archive)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/course.zip"
        server.shutdown()


class Job:
    """What GitHub's runner does with the shell steps of a job, and what they leave for it."""

    def __init__(self, folder: Path, repository: Files, answer: str, secrets: Mapping[str, str]) -> None:
        self.workspace, self.temporary, self.secrets = folder / "workspace", folder / "temp", secrets
        write({**repository, "tiny.py": answer.encode()}, self.workspace)
        self.temporary.mkdir()
        self.files = {name: folder / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in self.files.values():
            path.touch()
        self.environment = {
            **{"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": sysconfig.get_path("purelib")},
            **{"GITHUB_WORKSPACE": str(self.workspace), "RUNNER_TEMP": str(self.temporary), "HOME": str(folder)},
            **{"PIP_NO_INDEX": "1", **{name: str(path) for name, path in self.files.items()}},
        }
        self.said: dict[str, str] = {}
        self.failed = ""
        for step in STEPS:
            if "run" in step and not self.failed:
                self._run(step)

    def _run(self, step: Mapping[str, Any]) -> None:
        own = {name: self._filled(value) for name, value in step.get("env", {}).items()}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        run = subprocess.run(
            shell, cwd=self.workspace, env={**self.environment, **own}, capture_output=True, text=True, timeout=300, check=False
        )
        self.said[step["name"]] = run.stdout + run.stderr
        self.failed = step["name"] if run.returncode else ""
        self.environment |= self.left("GITHUB_ENV")

    def _filled(self, value: str) -> str:
        return re.sub(r"\$\{\{ secrets\.(\w+) \}\}", lambda match: self.secrets.get(match[1], ""), value)

    def left(self, name: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.files[name].read_text().splitlines())

    @property
    def points(self) -> tuple[float, float]:
        """What GitHub Classroom's reporter makes of it, in each of its two ways: see test_formats."""
        names = self.left("GITHUB_OUTPUT")["runners"].split(",")
        results = [json.loads(base64.b64decode(self.environment[f"{name.upper()}_RESULTS"])) for name in names]
        summed = sum(test["score"] for data in results for test in data["tests"])
        shared = sum(
            sum(test["status"] == "pass" for test in data["tests"]) / len(data["tests"]) * data["max_score"] for data in results
        )
        assert shared == pytest.approx(summed)
        return summed, sum(data["max_score"] for data in results)


def test_nothing_hidden_is_in_the_repository(repository: Files) -> None:
    assert not [name for name in repository if "hidden" in name or "mistakes/" in name]
    assert not [name for name, data in repository.items() if b"62674" in data or b"test_double_of" in data]
    assert {".github/workflows/grade.yml", ".github/requirements.txt", ".gitignore", "tiny.py", "README.md"} <= repository.keys()


def test_without_the_secret_the_visible_checks_grade(tmp_path: Path, repository: Files) -> None:
    job = Job(tmp_path, repository, RIGHT, {})
    assert not job.failed, job.said
    assert job.points == (5, 5)
    assert "5 of 5 points" in job.files["GITHUB_STEP_SUMMARY"].read_text().replace("\\", "")
    assert "tiny.double" in (job.temporary / "junit.xml").read_text()
    assert "::error" not in job.said["Grade"]


def test_with_the_secret_the_hidden_checks_grade_too(tmp_path: Path, repository: Files, private: str) -> None:
    tampered = {**repository, "grader/__main__.py": b"print('owned')", "pytest.py": b"raise SystemExit('owned')"}
    job = Job(tmp_path, tampered, PASSES_VISIBLE, {"COURSE_URL": private, "COURSE_TOKEN": TOKEN})
    assert not job.failed, job.said
    assert job.points == (5, 9)
    said = job.said["Grade"] + job.files["GITHUB_STEP_SUMMARY"].read_text()
    assert "owned" not in said
    assert "twice a large number" in said  # the course shows titles
    assert "62674" not in said
    assert TOKEN not in "".join(job.said.values()) + job.files["GITHUB_ENV"].read_text()
    assert not list(job.workspace.rglob("*hidden*"))


def test_a_wrong_token_fails_the_run_and_says_why(tmp_path: Path, repository: Files, private: str) -> None:
    job = Job(tmp_path, repository, RIGHT, {"COURSE_URL": private, "COURSE_TOKEN": "another"})
    assert job.failed == "Find the course"
    assert "404" in job.said[job.failed]


def test_errors_stand_beside_the_student_s_lines_and_command_nothing(tmp_path: Path, repository: Files) -> None:
    job = Job(tmp_path, repository, WRONG, {})
    assert not job.failed, job.said
    obeyed, stopped = [], ""
    for line in job.said["Grade"].split("\n"):  # as the runner reads it
        if stopped:
            stopped = "" if line.strip() == f"::{stopped}::" else stopped
        elif line.strip().startswith("::stop-commands::"):
            stopped = line.strip().removeprefix("::stop-commands::")
        elif line.strip().startswith("::"):
            obeyed.append(line)
    assert not stopped
    assert [re.match(r"::error file=tiny\.py,line=(\d+),title=tiny\.(double|negate)%3A ", line)[1] for line in obeyed] == [
        "3",
        "7",
    ]  # type: ignore[index]
    assert job.points == (0, 5)
    assert all(len(line.split("=", 1)) == 2 for line in job.files["GITHUB_OUTPUT"].read_text().splitlines())
