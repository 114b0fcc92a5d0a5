"""Says what to do where this folder is not installed, or not where pytest began. The checks are in tests/."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("grader"):
        raise pytest.UsageError("this folder is not installed yet. In it, run: pip install -e .")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if HERE.samefile(config.rootpath) else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not HERE.samefile(config.rootpath):
        terminalreporter.write_line(f"Start pytest in the folder of the exercises: {HERE}")
