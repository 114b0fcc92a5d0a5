"""How the command ends: its exit statuses, and one sentence for people."""

from __future__ import annotations

import sys
from typing import NoReturn

GRADED, BELOW, UNREADABLE, BROKEN, INTERRUPTED = 0, 1, 2, 3, 130


def stop(status: int, sentence: str) -> NoReturn:
    """Say why on stderr, and exit."""
    print(f"grader: {sentence}", file=sys.stderr)
    sys.exit(status)
