"""What a submission costs in `nbgrader autograde`: in the confined runner, and beside it a plain notebook in nbgrader's own way.

    python tests/benchmarks/nbgrader_time.py [FEW MANY]

Both notebooks hold the text and the right answers of one lesson. In the plain one the grade cells hold two asserts each, and run
in a kernel. The two take turns; a marginal cost is what the larger class took more than the smaller, for each submission more.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from nbgrading import ASSIGNMENT, NBGRADER, ROOT, filled, hand_in, released, run

LESSON = "torch_attention"


def plain(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook as most instructors write it: asserts in its grade cells, run in the student's kernel."""
    made = json.loads(json.dumps(notebook))
    for cell in made["cells"]:
        if cell["id"].startswith("grade-"):
            function = cell["id"].removeprefix("grade-")
            cell["source"] = f"assert callable({function})\nassert torch.isfinite(torch.softmax(torch.randn(3, 4), -1)).all()"
        elif cell["id"].startswith(("try-", "setup", "code-if")):
            cell["source"] = "pass"
    return made


def course(folder: Path, ours: bool) -> Path:
    """An nbgrader course with this lesson alone."""
    run(ROOT, sys.executable, "-m", "grader", "release", str(folder), "--for", "nbgrader")
    for path in (folder / "source" / ASSIGNMENT).glob("*.ipynb"):
        if path.stem != LESSON:
            path.unlink()
    if not ours:
        (folder / "nbgrader_config.py").write_text("c = get_config()\n", encoding="utf-8")
        path = folder / "source" / ASSIGNMENT / f"{LESSON}.ipynb"
        path = path.rename(path.with_name("plain.ipynb"))
        path.write_text(json.dumps(plain(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    run(folder, *NBGRADER, "generate_assignment", ASSIGNMENT)
    return folder


def seconds(folder: Path, count: int, ours: bool) -> float:
    """How long autograde takes for a class of this size."""
    for name in ("submitted", "autograded"):
        shutil.rmtree(folder / name, ignore_errors=True)
    notebooks = released(folder)
    if ours:
        notebooks = filled(notebooks)
    else:
        notebooks["plain"] = plain(filled({LESSON: notebooks["plain"]})[LESSON])
    for student in range(count):
        hand_in(folder, f"s{student:02}", notebooks)
    start = time.perf_counter()
    run(folder, *NBGRADER, "autograde", ASSIGNMENT)
    return time.perf_counter() - start


def main(sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folders = {ours: course(Path(temporary) / name, ours) for name, ours in (("confined", True), ("stock", False))}
        took = {(ours, count): seconds(folders[ours], count, ours) for count in sizes for ours in folders}
    marginal = {ours: (took[ours, sizes[1]] - took[ours, sizes[0]]) / (sizes[1] - sizes[0]) for ours in folders}
    print(f"{'':10}{''.join(f'{count:>4} submissions' for count in sizes)}   each one more")
    for ours, name in ((True, "confined"), (False, "stock")):
        print(f"{name:10}{''.join(f'{took[ours, count]:14.1f} s' for count in sizes)}{marginal[ours]:12.3f} s")
    print(f"confined / stock: {marginal[True] / marginal[False]:.3f}")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10, 50])
