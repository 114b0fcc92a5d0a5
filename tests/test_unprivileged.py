"""When this is root's test run, a part of it again as a user who owns nothing: most students' machines have no root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacks.harness import ATTACKS, ROOT, two_at_once

from grader.confined import lockdown

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="an ordinary user runs these tests already"),
    pytest.mark.skipif(bool(lockdown.missing()), reason=lockdown.missing() or "-"),
]
USER = 59_999


def linked(source: Path, target: Path) -> Path:
    """The same folder under a path that everybody may enter: hard links, so that it costs a second and no space."""
    copy = os.link if source.stat().st_dev == target.parent.stat().st_dev else shutil.copy2
    shutil.copytree(source, target, copy_function=copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".git"))
    return target


@pytest.fixture(scope="module")
def python() -> Iterator[list[str]]:
    """A command that runs this interpreter, with its packages and this project, as that user."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "project").mkdir()
        base, packages = Path(sys.base_prefix), Path(sysconfig.get_path("purelib"))
        if not lockdown._open_to_all(os.path.realpath(sys.executable)):
            base = linked(base, home / "python")
        if not lockdown._open_to_all(str(packages)):
            packages = linked(packages, home / "site-packages")
        for name in ("grader", "solutions", "tests"):
            linked(ROOT / name, home / "project" / name)
        shutil.copy(ROOT / "pyproject.toml", home / "project")
        program = base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        if not lockdown._open_to_all(str(program)):
            pytest.skip(f"an ordinary user can't run {program}")
        drop = (
            f"import os; os.setgroups([]); os.setgid({USER}); os.setuid({USER}); os.execv({str(program)!r}, [{str(program)!r}, "
        )
        environment = {"PYTHONPATH": f"{home / 'project'}:{packages}", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        yield [sys.executable, "-c", f"import os; os.environ.update({environment!r}); {drop}*__import__('sys').argv[1:]])"]


def project(python: list[str]) -> Path:
    return Path(python[2].partition("'PYTHONPATH': '")[2].partition(":")[0])


def test_the_runner_works_for_an_ordinary_user(python: list[str]) -> None:
    chosen = "tests/test_runner.py", "-k", "strong and (ordinary or told or wall or refused or bounded) or landlocks"
    command = [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    run = subprocess.run(command, cwd=project(python), capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert " passed" in run.stdout


def test_attacks_win_nothing_from_an_ordinary_user(python: list[str]) -> None:
    names = [name for name in ATTACKS if not name.startswith("hangs")][::3]
    assert not {name: what for name, what in two_at_once(names, python=python, cwd=project(python)).items() if what}
