"""How well mistakes are caught and named, and what it costs: `python tests/benchmarks/diagnosis.py [--pairs N]`.

Singles are the mistakes of an exercise itself. A pair counts as named when the name has a part in common with it, and as a
crash when it only makes the code crash: then the student's own line is shown. Times are those of the processor, for one
diagnosis in a catalogue that has seen the same exercise before, as in a class; the first of each exercise is among them.
"""

from __future__ import annotations

import argparse
import random
import sys
import zlib
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from proof import Proven, prove
from test_mutants import EQUIVALENT, exercises, tried
from test_proof import CATALOGUE, EXERCISES, FUNCTIONS, at_home
from variants import VARIANTS

from grader.course import Course, find_course

WORDS = ("handed in", "caught", "named", "crash", "unnamed", "misnamed")


def counted(found: list[Proven]) -> Counter[str]:
    """What became of mistakes that were handed in."""
    counts: Counter[str] = Counter()
    for one in found:
        if one.named:
            word = "named" if set(one.name.split("+")) & set(one.named.split("+")) else "misnamed"
        else:
            word = "unnamed" if any(check.status == "failed" for check in one.lost) else "crash"
        counts.update(["handed in", "caught" if one.caught else "survived", word])
    return counts


def times(found: list[Proven]) -> str:
    """The median, the 95th percentile and the longest time of a diagnosis, in ms, as cells of a table."""
    ms = [1000 * one.seconds for one in found] or [0.0]
    return " | ".join(f"{value:.0f}" for value in (np.median(ms), np.percentile(ms, 95), max(ms)))


def row(exercise: str, kind: str, found: list[Proven]) -> str:
    """A row of the table of mistakes."""
    counts = counted(found)
    return f"| {exercise} | {kind} | {' | '.join(str(counts[word]) for word in WORDS)} | {times(found)} |"


def mistakes(course: Course, wanted: int) -> None:
    """Print what became of every mistake, and of a sample of pairs."""
    assert CATALOGUE is not None
    cells = ("exercise", "kind", *WORDS, "median ms", "95 % ms", "longest ms")
    print(f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}")
    all_found: dict[str, list[Proven]] = {"singles": [], "pairs": []}
    for exercise in EXERCISES:
        rng = random.Random(zlib.crc32(exercise.encode()))
        pairs = CATALOGUE.pairs(exercise) if exercise in FUNCTIONS else []
        kinds = {"singles": at_home(CATALOGUE, exercise), "pairs": rng.sample(pairs, min(wanted, len(pairs)))}
        for kind, variants in kinds.items():
            if variants:
                found = prove(course, CATALOGUE.recipes, exercise, [(variant.name, variant.call) for variant in variants])
                all_found[kind] += found
                print(row(exercise, kind, found), flush=True)
    for kind, found in all_found.items():
        print(row("all", kind, found))


def main() -> None:
    """Print a Markdown table, a row an exercise, and what became of right answers and of mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="pairs an exercise")
    wanted, course = parser.parse_args(), find_course(Path.cwd())
    assert CATALOGUE is not None
    mistakes(course, wanted.pairs)
    right = [prove(course, CATALOGUE.recipes, name, [(f.__name__, f) for f in answers]) for name, answers in VARIANTS.items()]
    accepted = [not one.lost for found in right for one in found]
    print(f"\nRight but unusual answers accepted: {sum(accepted)} of {len(accepted)}.")
    mutants = [one for exercise in exercises() for one in tried(course, exercise)[1:]]
    explained = sum(map(len, EQUIVALENT.values()))
    print(f"Mutants killed: {sum(one.caught for one in mutants)} of {len(mutants)}; {explained} changed lines change no promise.")


if __name__ == "__main__":
    main()
