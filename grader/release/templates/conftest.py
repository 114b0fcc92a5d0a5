"""Says what to do where this folder was not installed. The checks are in tests/, and what runs them in grader/."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("grader"):
        raise pytest.UsageError("this folder is not installed yet. In it, run: pip install -e .")
