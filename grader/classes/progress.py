"""How far a class is: a bar on a terminal, now and then a plain line in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

EVERY = 10.0  # seconds between plain lines


class Progress:
    """Counts what `tell` hears, and shows it. A context manager."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self.bar = Bar(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.bar.add_task("warming up")
        self.total = self.crashed = self.broken = self.kept = 0
        self.start = self.told = time.monotonic()

    def __enter__(self) -> Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, done: int, total: int, report: Mapping[str, Any] | None) -> None:
        """A report came, and `done` of `total` are ready. Without a report: these were graded before."""
        if report is None:
            self.kept = done
        else:
            self.broken += report["status"] == "broken"
            self.crashed += any(check["status"] == "crashed" for item in report["exercises"] for check in item["checks"])
        self.total, words = total, self._words(done, total)
        self.bar.update(self.task, completed=done, total=total, description=words)
        if self.bar.disable and (time.monotonic() - self.told > EVERY or done == total or report is None):
            self.told = time.monotonic()
            print(f"{done} of {total} graded, {words}", file=sys.stderr, flush=True)

    def _words(self, done: int, total: int) -> str:
        if done == self.kept:
            return f"{done} of them before" if done else "warming up"
        rate = (done - self.kept) / max(time.monotonic() - self.start, 1e-9)
        left = round((total - done) / rate)
        return f"{rate:.1f} a second, {left // 60}:{left % 60:02} left, {self.crashed} crashed, {self.broken} broken"
