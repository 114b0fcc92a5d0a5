"""Whole classes for tests and benchmarks: right, wrong, mixed, unfinished and hostile submissions, no two alike."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
N, T, G, H = "numpy_attention.py", "torch_attention.py", "grouped_query.py", "head_analysis.py"
SOLUTIONS = {name: (ROOT / "solutions" / name).read_text() for name in (N, T, G, H)}
STUBS = {name: (ROOT / "exercises" / name).read_text() for name in (N, T, G, H)}
SLIPS: dict[str, list[tuple[str, str]]] = {
    N: [
        ("return x.transpose(0, 2, 1, 3)  # (B, h", "return x.reshape(B, num_heads, n, -1)  # (B, h"),
        (" / q.shape[-1] ** 0.5", ""),
        ("np.where(mask, -np.inf, scores)", "np.where(mask, scores, -np.inf)"),
        ("powers.sum(axis=-1, keepdims=True)", "powers.sum(axis=-2, keepdims=True)"),
    ],
    T: [
        ("return x.transpose(1, 2).reshape(B, n, h * d_v)", "return x.reshape(B, n, h * d_v)"),
        ("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[-3])"),
        ("allowed = None if mask is None else torch.atleast_2d(~mask)", "allowed = mask"),
        ("positions = torch.arange(n_q, device=device) + (n_k - n_q)", "positions = torch.arange(n_q, device=device)"),
    ],
    G: [("x.repeat_interleave(num_heads // num_kv_heads, dim=1)", "x.repeat(1, num_heads // num_kv_heads, 1, 1)")],
    H: [],
}
HOSTILE = ["exits/system_exit", "exits/base_exception", "frames/truncated", "escapes/html", "liars/repr"]
HOSTILE += ["bombs/recursion", "survivors/spawn"]


def submissions(count: int, seed: int = 1) -> Iterator[tuple[str, dict[str, str]]]:
    """Students with their files: the same for the same count and seed."""
    draw = random.Random(seed)
    for number in range(count):
        kind = draw.choice(["right", "wrong", "wrong", "mixed", "mixed", "stub"]) if number % 12 else "hostile"
        yield f"student-{number:04}", {name: f"{text}\n# {number}\n" for name, text in _files(draw, kind, number)}


def _files(draw: random.Random, kind: str, number: int) -> Iterator[tuple[str, str]]:
    for name in (N, T, G, H):
        mixed = draw.choice(["right", "wrong", "stub"]) if kind == "mixed" else kind
        if mixed == "hostile":
            attack = (ROOT / "tests" / "attacks" / f"{HOSTILE[number // 12 % len(HOSTILE)]}.py").read_text()
            yield name, attack if name == N else SOLUTIONS[name]
        else:
            text = STUBS[name] if mixed == "stub" else SOLUTIONS[name]
            for old, new in draw.sample(SLIPS[name], min(len(SLIPS[name]), draw.choice([1, 1, 2]))) if mixed == "wrong" else ():
                assert old in text, (name, old)
                text = text.replace(old, new)
            yield name, text


def write(folder: Path, count: int, seed: int = 1) -> None:
    """A folder a student."""
    for student, files in submissions(count, seed):
        for name, text in files.items():
            (folder / student).mkdir(parents=True, exist_ok=True)
            (folder / student / name).write_text(text)
