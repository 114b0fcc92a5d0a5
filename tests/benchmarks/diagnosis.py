"""How well mistakes are caught and named, and what it costs: `python tests/benchmarks/diagnosis.py [--pairs N]`.

Singles are the mistakes of an exercise itself. A pair counts as named when the name has a part in common with it. A mistake that
only makes the code crash may stay unnamed: then the student's own line is shown.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import zlib
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from proof import MISTAKES_BEYOND_REPLAY, Proven, prove
from test_proof import CATALOGUE, EXERCISES, FUNCTIONS, at_home
from variants import VARIANTS

from grader.course import find_course


def counted(found: list[Proven]) -> Counter[str]:
    """What became of mistakes that were handed in."""
    counts: Counter[str] = Counter()
    for one in found:
        crashed = all(check.status == "crashed" for check in one.lost)
        parts, names = set(one.name.split("+")), set((one.named or "").split("+"))
        beyond = one.name in MISTAKES_BEYOND_REPLAY
        word = (
            "named"
            if parts & names
            else "beyond replay"
            if beyond
            else "crash"
            if crashed
            else "unnamed"
            if not one.named
            else "misnamed"
        )
        counts.update(["handed in", "caught" if one.caught else "survived", word])
    return counts


def main() -> None:
    """Print a Markdown table, a row an exercise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="pairs an exercise")
    wanted = parser.parse_args()
    assert CATALOGUE is not None
    course = find_course(Path.cwd())
    words = ["handed in", "caught", "survived", "named", "crash", "beyond replay", "unnamed", "misnamed"]
    print("| exercise | kind | " + " | ".join(words) + " | median ms | worst ms |\n|---" * 1 + "|---" * (len(words) + 3) + "|")
    totals: dict[str, Counter[str]] = {"single": Counter(), "pair": Counter()}
    for exercise in EXERCISES:
        rng = random.Random(zlib.crc32(exercise.encode()))
        pairs = CATALOGUE.pairs(exercise) if exercise in FUNCTIONS else []
        kinds = {"single": at_home(CATALOGUE, exercise), "pair": rng.sample(pairs, min(wanted.pairs, len(pairs)))}
        for kind, variants in kinds.items():
            found = prove(course, CATALOGUE.recipes, exercise, [(variant.name, variant.call) for variant in variants])
            counts, times = counted(found), [1000 * one.seconds for one in found] or [0.0]
            totals[kind] += counts
            cells = [str(counts[word]) for word in words] + [f"{statistics.median(times):.0f}", f"{max(times):.0f}"]
            print(f"| {exercise} | {kind} | " + " | ".join(cells) + " |", flush=True)
    for kind, counts in totals.items():
        print(f"| all | {kind} | " + " | ".join(str(counts[word]) for word in words) + " | | |")
    right = {name: prove(course, CATALOGUE.recipes, name, [(f.__name__, f) for f in VARIANTS[name]]) for name in VARIANTS}
    accepted = [one for found in right.values() for one in found if not one.lost]
    print(f"\nRight but unusual answers accepted: {len(accepted)} of {sum(map(len, right.values()))}.")


if __name__ == "__main__":
    main()
