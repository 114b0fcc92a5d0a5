"""Which submissions of a class are nearly the same: a list to look at, not a verdict."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

WINDOW = 8  # tokens in a piece
FEWEST = 30  # pieces of one's own, below which nothing can be said
ALIKE = 0.8
WHOLE = 300  # pieces: who has so many, and each as somebody else has it, did not write them alone, however many have them
COMMON = (4, 0.2)  # a piece that more students have, as a number and as a share of the class, is the lesson's and nobody's own

_WEIGHTS = np.uint64(0x9E3779B97F4A7C15) ** np.arange(WINDOW, dtype=np.uint64)  # wraps around
Pieces = npt.NDArray[np.uint64]


class Similar:
    """Compares what students share and few others have. A copy whose comments and names were changed here and there still shows.

    The result depends on nothing but the texts. (copydetect compares pairs one by one, and by Python's randomised hash.)
    """

    def __init__(self, stubs: Iterable[str]) -> None:
        self.stubs = _pieces([stub.encode() for stub in stubs])
        self.students: list[str] = []
        self.pieces: list[Pieces] = []

    def add(self, student: str, sources: Iterable[bytes]) -> None:
        """Add a student's files."""
        self.students.append(student)
        self.pieces.append(np.setdiff1d(_pieces(sources), self.stubs, assume_unique=True))

    def pairs(self) -> list[tuple[int, str, str]]:
        """The pairs that are most alike, with the percentage of one's own rare pieces that the other has too.

        What the whole class may have copied from one place is rare no more: each of them pairs with the first who has it.
        """
        count = len(self.students)
        if count < 2:
            return []
        pieces, holders = np.unique(np.concatenate(self.pieces), return_counts=True)
        common = holders > max(COMMON[0], COMMON[1] * count)
        rare = pieces[(holders > 1) & ~common]
        own = np.array([len(np.setdiff1d(mine, pieces[common], assume_unique=True)) for mine in self.pieces])
        shared = np.zeros((count, count), np.float32)
        for block in (rare[start : start + 4096] for start in range(0, len(rare), 4096)):
            has = np.stack([np.isin(block, mine, assume_unique=True) for mine in self.pieces]).astype(np.float32)
            shared += has @ has.T  # students x students
        least = np.minimum(own[:, None], own[None, :])
        alike = np.where(least >= FEWEST, shared / np.maximum(least, 1), 0)
        found = {(alike[a, b], self.students[a], self.students[b]) for a, b in np.argwhere(np.triu(alike >= ALIKE, 1))}
        first: dict[bytes, str] = {}
        for student, mine in zip(self.students, self.pieces, strict=True):
            other = first.setdefault(mine.tobytes(), student)
            if other != student and len(mine) >= WHOLE:
                found.add((1.0, other, student))
        return [(round(100 * float(share)), a, b) for share, a, b in sorted(found, key=lambda pair: (-pair[0], *pair[1:]))]


def _pieces(sources: Iterable[bytes]) -> Pieces:
    """The distinct runs of WINDOW tokens, each as one number."""
    runs = [np.zeros(0, np.uint64)]
    for source in sources:
        tokens = np.array([zlib.crc32(token) for token in re.findall(rb"\w+|[^\w\s]", source)], np.uint64)
        if len(tokens) >= WINDOW:
            runs.append((np.lib.stride_tricks.sliding_window_view(tokens, WINDOW) * _WEIGHTS).sum(-1, dtype=np.uint64))
    return np.unique(np.concatenate(runs))
