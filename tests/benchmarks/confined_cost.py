"""What a correct submission costs behind the wall: `python tests/benchmarks/confined_cost.py` prints medians.

Counted is the processor time of the zygote and of the child (fork, lockdown, import, 100 calls, end), the wall time of
the whole, and the memory that only the child holds.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grader.confined.runner import Runner  # noqa: E402
from grader.confined.sources import Warm  # noqa: E402
from grader.course import Limits  # noqa: E402

ROUNDS, CALLS = 30, 100


def spent(pid: int) -> float:
    """Milliseconds of processor time of a process and its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * 1000 / os.sysconf("SC_CLK_TCK")


def private(pid: int) -> float:
    """MiB that no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def main() -> None:
    """Grade nothing, only call: the checks' own cost is not the wall's."""
    names = ("numpy_attention", "torch_attention", "grouped_query")
    modules = {name: (ROOT / "solutions" / f"{name}.py").read_bytes() for name in names}
    x, q = np.ones((2, 3, 4)), torch.ones(2, 3, 4, 5)
    walls, memories = [], []
    if hasattr(os, "sched_setaffinity"):  # as a class's worker does, see grader/classes/workers.py
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with Runner(Limits()) as runner:
        assert isinstance(runner.source, Warm)
        before = 0.0
        for round in range(ROUNDS + 1):
            start = time.perf_counter()
            with runner.open(modules) as confined:
                for call in range(CALLS):
                    if call % 2:
                        confined.module("numpy_attention").softmax(x)
                    else:
                        confined.module("torch_attention").attention(q, q, q)
                paused = time.perf_counter()
                if confined.link is not None:
                    memories.append(private(confined.link.pid))
                start += time.perf_counter() - paused
            walls.append((time.perf_counter() - start) * 1000)
            if round == 0:  # the zygote has warmed up
                before = spent(runner.source.process.pid)
        used = (spent(runner.source.process.pid) - before) / ROUNDS
    print(f"isolation {runner.isolation}; {ROUNDS} submissions of {CALLS} calls each")
    print(f"processor time in zygote and child: {used:.1f} ms a submission")
    print(f"wall time: {statistics.median(walls[1:]):.1f} ms (median)")
    print(f"memory of the child alone: {statistics.median(memories[1:]):.1f} MiB (median)")


if __name__ == "__main__":
    main()
