"""Making a student's text harmless where it is shown."""

from __future__ import annotations

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
MAX_SHOWN = 4_000


def printable(text: str, limit: int = MAX_SHOWN) -> str:
    """`text` with control, direction, lone surrogate and non-characters written out (`\\x1b`), cut to `limit` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit:,} more characters)"
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
