"""The main job on real submissions: right ones, stubs, known wrong ones, unusual ones and odd files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from grading import ROOT, grade_each, replaced, scores

SOLUTIONS = {path.name: path.read_text() for path in sorted((ROOT / "solutions").glob("*.py"))}
STUBS = {path.name: path.read_text() for path in sorted((ROOT / "exercises").glob("*.py"))}
N, T, G = "numpy_attention.py", "torch_attention.py", "grouped_query.py"


def solution(file: str, *changes: tuple[str, str]) -> dict[str, str]:
    return {file: replaced(SOLUTIONS[file], *changes)}


def answer(file: str, name: str) -> tuple[str, str]:
    """The stub's line of an exercise, and the solution's region for it (a class has several: the first)."""
    region = SOLUTIONS[file].split(f"def {name}(")[1].split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
    return f'raise NotImplementedError("{name} is still to do")', region.strip()


# Each loses points in this exercise and nowhere else, but where another calls it.
WRONG: dict[str, tuple[dict[str, str], str, set[str]]] = {
    "split without transpose": (
        solution(N, ("return x.transpose(0, 2, 1, 3)  # (B, h", "return x.reshape(B, num_heads, n, -1)  # (B, h")),
        "numpy_attention.split_heads", {"numpy_attention.MultiHeadAttention"},
    ),
    "merge without transpose": (
        solution(T, ("return x.transpose(1, 2).reshape(B, n, h * d_v)", "return x.reshape(B, n, h * d_v)")),
        "torch_attention.merge_heads", {"torch_attention.MultiHeadAttention"},
    ),
    "no scale": (
        solution(N, (" / q.shape[-1] ** 0.5", "")), "numpy_attention.attention", {"numpy_attention.MultiHeadAttention"},
    ),
    "sqrt of d_model": (
        solution(T, ("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[-3])")),
        "torch_attention.attention", {"torch_attention.MultiHeadAttention"},
    ),
    "mask inverted": (
        solution(T, ("masked_fill(mask, -", "masked_fill(~mask, -"), ("masked_fill(mask, 0", "masked_fill(~mask, 0")),
        "torch_attention.attention", {"torch_attention.MultiHeadAttention"},
    ),
    "softmax over queries": (
        solution(T, ("softmax(scores, dim=-1)", "softmax(scores, dim=-2)"), ("inf), dim=-1)", "inf), dim=-2)")),
        "torch_attention.attention", {"torch_attention.MultiHeadAttention"},
    ),
    "tile for interleave": (
        solution(G, ("x.repeat_interleave(num_heads // num_kv_heads, dim=1)", "x.repeat(1, num_heads // num_kv_heads, 1, 1)")),
        "grouped_query.repeat_kv", {"grouped_query.grouped_query_attention", "grouped_query.GroupedQueryAttention"},
    ),
    "dropout in eval": (
        solution(T, ("if self.training:", "if True:"), ("self.dropout(weights) @ v", "F.dropout(weights, self.dropout.p) @ v")),
        "torch_attention.MultiHeadAttention", set(),
    ),
    "detached": (
        solution(T, ("scores = q @ k", "scores = q.detach() @ k")),
        "torch_attention.attention", {"torch_attention.MultiHeadAttention"},
    ),
    "changed in place": (
        solution(G, ("scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
                     "q.data /= math.sqrt(q.shape[-1])\n    scores = q @ k.transpose(-2, -1)")),
        "grouped_query.grouped_query_attention", {"grouped_query.GroupedQueryAttention"},
    ),
}  # fmt: skip

UNUSUAL: dict[str, dict[str, str]] = {
    "einsum and additive mask": solution(T, (answer(T, "attention")[1], """
    scores = torch.einsum("...id,...jd->...ij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(mask, -math.inf)
    weights = torch.nan_to_num(F.softmax(scores, dim=-1))
    return torch.einsum("...ij,...jd->...id", weights, v), weights
    """.strip())),
    "loops": solution(N, (answer(N, "attention")[1], """
    q, k, v = as_float(q), as_float(k), as_float(v)
    shape = q.shape[:-1] + (k.shape[-2],)
    hidden = np.broadcast_to(False if mask is None else mask, shape)
    output, weights = np.zeros(q.shape[:-1] + (v.shape[-1],), q.dtype), np.zeros(shape, q.dtype)
    for at in np.ndindex(*q.shape[:-2]):
        for i in range(q.shape[-2]):
            row = k[at] @ q[at][i] / q.shape[-1] ** 0.5
            row[hidden[at][i]] = -np.inf
            weights[at][i] = softmax(row)
            output[at][i] = weights[at][i] @ v[at]
    return output, weights
    """.strip())),
    "chunk and stack": solution(T, (answer(T, "split_heads")[1], """
    if x.shape[-1] % num_heads:
        raise ValueError(f"{x.shape[-1]} features, {num_heads} heads")
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)
    """.strip())),
    "online softmax": solution(N, (answer(N, "attention")[1], """
    q, k, v = as_float(q), as_float(k), as_float(v)
    scores = np.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    top = np.full(scores.shape[:-1] + (1,), -np.inf, scores.dtype)
    total, output = np.zeros_like(top), np.zeros(q.shape[:-1] + (v.shape[-1],), q.dtype)
    for start in range(0, scores.shape[-1], 2):
        tile = scores[..., start : start + 2]
        new = np.maximum(top, tile.max(-1, keepdims=True))
        safe = np.where(np.isfinite(new), new, 0)
        powers, shrink = np.exp(tile - safe), np.exp(top - safe)
        total = total * shrink + powers.sum(-1, keepdims=True)
        output = output * shrink + powers @ v[..., start : start + 2, :]
        top = new
    safe, sums = np.where(np.isfinite(top), top, 0), np.where(total == 0, 1, total)
    return output / sums, np.exp(scores - safe) / sums
    """.strip())),
    "grouped einsum without repeating": solution(G, (answer(G, "grouped_query_attention")[1], """
    B, h, n_q, d_k = q.shape
    h_kv, n_k = k.shape[1], k.shape[2]
    if h % h_kv:
        raise ValueError(f"{h} query heads, {h_kv} KV heads")
    scores = torch.einsum("bgrid,bgjd->bgrij", q.reshape(B, h_kv, h // h_kv, n_q, d_k), k) / d_k**0.5
    hidden = torch.zeros(B, h, n_q, n_k, dtype=torch.bool) if mask is None else mask.expand(B, h, n_q, n_k)
    hidden = hidden.reshape(scores.shape)
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)
    output = torch.einsum("bgrij,bgjd->bgrid", weights, v)
    return output.reshape(B, h, n_q, -1), weights.reshape(B, h, n_q, n_k)
    """.strip())),
}  # fmt: skip

SPLIT = answer(N, "split_heads")
ODD: dict[str, dict[str, str | bytes]] = {
    "empty": {N: b"", T: SOLUTIONS[T]},
    "not python": {N: b"\x89PNG\r\n\x1a\n\x00\x00", T: SOLUTIONS[T]},
    "syntax": {N: replaced(SOLUTIONS[N], ("def split_heads(", "def split_heads((")), T: SOLUTIONS[T]},
    "raises": {N: SOLUTIONS[N] + "\n1 / 0\n", T: SOLUTIONS[T]},
    "latin": {N: "x = 'é'\n".encode("latin-1"), T: SOLUTIONS[T]},
    "parameters": {
        N: replaced(SOLUTIONS[N], ("def split_heads(x: np.ndarray, num_heads: int)", "def split_heads(x: np.ndarray)"))
    },
}


@pytest.fixture(scope="module")
def graded() -> dict[str, dict[str, Any]]:
    submissions: dict[str, dict[str, str | bytes]] = {
        "solutions": dict(SOLUTIONS),
        "stubs": dict(STUBS),
        "one solved": {**STUBS, N: replaced(STUBS[N], SPLIT)},
        **{name: dict(files) for name, (files, _, _) in WRONG.items()},
        **{name: dict(files) for name, files in UNUSUAL.items()},
        **ODD,
    }
    return grade_each(submissions)


def checks_of(report: dict[str, Any], exercise: str) -> list[dict[str, Any]]:
    return next(item["checks"] for item in report["exercises"] if item["name"] == exercise)


def messages(report: dict[str, Any], module: str) -> set[tuple[str, str]]:
    """The status and message of every check of a module."""
    return {
        (check["status"], check["message"])
        for item in report["exercises"]
        if item["name"].startswith(module)
        for check in item["checks"]
    }


def test_the_solutions_score_everything(graded: dict[str, Any]) -> None:
    report = graded["solutions"]
    assert (report["score"], report["status"]) == (report["max_score"], "graded")
    modules = ("numpy_attention", "torch_attention", "grouped_query", "head_analysis")
    points = [
        sum(check["points"] for item in report["exercises"] if item["name"].startswith(name) for check in item["checks"])
        for name in modules
    ]
    assert list(map(round, points)) == [30, 30, 25, 15]
    skipped = [check for item in report["exercises"] for check in item["checks"] if check["status"] == "skipped"]
    assert all("/hidden/gpu_" in check["id"] for check in skipped)
    assert report["max_score"] == 100 - round(sum(check["points"] for check in skipped))  # 4 points need a GPU


def test_the_stubs_score_nothing_and_every_check_is_todo(graded: dict[str, Any]) -> None:
    assert graded["stubs"]["score"] == 0
    checks = [check for item in graded["stubs"]["exercises"] for check in item["checks"]]
    assert {check["status"] for check in checks if "/hidden/gpu_" not in check["id"]} == {"todo"}


def test_one_exercise_solved_gives_exactly_its_points(graded: dict[str, Any]) -> None:
    report = graded["one solved"]
    assert report["score"] == 5
    statuses = {item["name"]: {check["status"] for check in item["checks"]} for item in report["exercises"]}
    assert statuses.pop("numpy_attention.split_heads") == {"passed"}
    assert set().union(*statuses.values()) <= {"todo", "blocked", "skipped"}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_solution_loses_points_where_it_is_wrong(graded: dict[str, Any], name: str) -> None:
    files, exercise, callers = WRONG[name]
    [file] = files
    lost = {other for other in scores(graded[name]) if other.startswith(file.removesuffix(".py"))}
    assert exercise in lost
    assert lost <= {exercise, *callers}


@pytest.mark.parametrize("name", UNUSUAL)
def test_right_but_unusual_scores_everything(graded: dict[str, Any], name: str) -> None:
    [file] = UNUSUAL[name]
    assert not [other for other in scores(graded[name]) if other.startswith(file.removesuffix(".py"))]


@pytest.mark.parametrize(
    ("name", "status", "sentence"),
    [
        ("empty", "todo", "numpy_attention has no "),
        ("not python", "crashed", "numpy_attention.py holds null bytes: it is no Python source"),
        ("syntax", "crashed", "line"),
        ("raises", "crashed", "ZeroDivisionError"),
        ("latin", "crashed", "numpy_attention.py is not UTF-8 text (line 1, byte 0xe9): save it as UTF-8"),
    ],
)
def test_an_odd_file_gets_one_sentence_and_the_others_count(
    graded: dict[str, Any], name: str, status: str, sentence: str
) -> None:
    report = graded[name]
    torch = [item for item in report["exercises"] if item["name"].startswith("torch_attention")]
    assert report["score"] == sum(item["max_score"] for item in torch)
    found = messages(report, "numpy_attention")
    assert all(was == status and sentence in text for was, text in found), found


def test_other_parameters_are_told(graded: dict[str, Any]) -> None:
    first = checks_of(graded["parameters"], "numpy_attention.split_heads")[0]
    assert first["status"] == "crashed"
    assert "split_heads() takes 1 positional argument but 2 were given" in first["message"]
    assert not any(check["points"] == check["earned"] for check in checks_of(graded["parameters"], "numpy_attention.split_heads"))


def test_no_check_is_broken(graded: dict[str, Any]) -> None:
    assert {report["status"] for report in graded.values()} == {"graded"}


# The command itself.


def grader(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_the_same_submission_gives_the_same_bytes_and_another_seed_other_inputs(tmp_path: Path) -> None:
    (tmp_path / N).write_text(replaced(SOLUTIONS[N], (" / q.shape[-1] ** 0.5", "")))
    one, two, other = (
        grader("grade", str(tmp_path), "--format", "json", "-k", "numpy_attention", *seed) for seed in ((), (), ("--seed", "5"))
    )
    assert one.returncode == two.returncode == other.returncode == 0
    assert one.stdout == two.stdout != other.stdout
    assert json.loads(one.stdout)["score"] == json.loads(other.stdout)["score"]


def test_exit_statuses(tmp_path: Path) -> None:
    assert grader("grade", "exercises", "-k", "softmax").returncode == 0
    assert grader("grade", "exercises", "-k", "softmax", "--fail-under", "50").returncode == 1
    assert grader("grade", "exercises", "--format", "nonsense").returncode == 2
    for expression in ("nothing_of_that_name", "softmax and"):
        wrong = grader("grade", "exercises", "-k", expression)
        assert wrong.returncode == 2
        assert repr(expression) in wrong.stderr
    absent = grader("grade", str(tmp_path / "absent"))
    assert absent.returncode == 2
    assert absent.stderr.startswith("grader: ")
    assert absent.stderr.count("\n") == 1
    assert "no such file" in absent.stderr
    for unset in (("grade", ""), ("class", "", "--out", str(tmp_path / "out"))):
        empty = grader(*unset)
        assert (empty.returncode, "it is empty" in empty.stderr) == (2, True)


def test_a_report_goes_to_a_file_or_is_plain_in_a_pipe(tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    run = grader("grade", "solutions", "-k", "kv_cache_bytes", "--format", "json", "--output", str(output))
    assert run.stdout == ""
    assert json.loads(output.read_text())["score"] == 3
    plain = grader("grade", "exercises", "-k", "kv_cache_bytes").stdout
    assert "0 of 3 points" in plain
    assert "\x1b" not in plain


def test_a_course_that_cannot_be_collected_is_the_graders_fault(tiny: pytest.Pytester) -> None:
    (tiny.path / "tests/checks/visible/test_tiny.py").write_text("import nothing_of_that_name\n")
    (tiny.path / "tiny.py").write_text("def double(x): return x + x\n")
    run = grader("grade", ".", cwd=tiny.path)
    assert run.returncode == 3
    assert "the grader broke, not the submission" in run.stderr


def test_a_broken_check_is_left_out_and_exits_with_3(tiny: pytest.Pytester) -> None:
    path = tiny.path / "tests/checks/visible/test_tiny.py"
    path.write_text(path.read_text().replace('expect.integer(student.double(3), 6, "double(3)")', "student.double(3).shape"))
    (tiny.path / "tiny.py").write_text("def double(x):\n    return x + x\n\ndef negate(x):\n    return -x\n")
    run = grader("grade", ".", "--format", "json", cwd=tiny.path)
    report = json.loads(run.stdout)
    assert run.returncode == 3
    assert (report["score"], report["max_score"], report["status"]) == (3, 3, "broken")


def test_a_runner_that_fails_is_no_fault_of_a_student() -> None:
    gone = "from grader.confined import sources\ndef fork(*_, **__): raise sources.RunnerFailed('gone')\nsources.Warm.fork = fork"
    report = grade_each({"ada": {N: SOLUTIONS[N]}}, before=gone, select="numpy_attention.softmax")["ada"]
    assert report["status"] == "broken"
    assert {check["status"] for exercise in report["exercises"] for check in exercise["checks"]} == {"broken"}


def test_numpy_checks_alone_import_no_torch() -> None:
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/checks/visible",
        "-k",
        "numpy",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout
    assert "passed" in run.stdout
    assert not [line for line in run.stderr.splitlines() if line.endswith(" torch")]


def test_stubs_in_pytest_are_todo_and_exit_with_1() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/checks",
        "--submission",
        "exercises",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1
    assert " failed" not in run.stdout.splitlines()[-1]
    assert "todo" in run.stdout.splitlines()[-1]


def test_the_readme_shows_what_is_really_shown(tmp_path: Path) -> None:
    stub = STUBS[N]
    for name in ("softmax", "attention"):
        stub = replaced(stub, answer(N, name))
    wrong = replaced(answer(N, "split_heads")[1], ("x.transpose(0, 2, 1, 3)", "x.reshape(x.shape[0], num_heads, x.shape[1], -1)"))
    wrong = replaced(wrong, ("x = x.reshape(B, n, num_heads, d_model // num_heads)", "x = x + 0"))
    (tmp_path / N).write_text(replaced(stub, (answer(N, "split_heads")[0], wrong)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/checks/visible",
        f"--submission={tmp_path}",
        "-k",
        N[:-3],
    ]
    environment = {**os.environ, "COLUMNS": "84"}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=environment)
    example = (ROOT / "README.md").read_text().split("```")[1].strip()
    assert example in run.stdout
