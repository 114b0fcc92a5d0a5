"""GPU checks and the confined runner's GPU mode, on devices that every machine has: what is not tested is the GPU itself.

`lazy:0` is a device of torch's own whose tensors are not the CPU's; `cpu` runs the checks themselves on the kernels of the CPU.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lazy_device
import pytest
import torch
from grading import ROOT, grade_each, replaced

from grader.checks import Checks
from grader.confined import gpu, lockdown
from grader.confined.runner import Confined, Runner
from grader.course import Course, Limits
from grader.formats.json import as_data
from grader.formats.text import text
from grader.grade import grade, run_checks
from grader.report import Report
from grader.submission import Submission, read_submission

SOURCES = {name: (ROOT / "solutions" / f"{name}.py").read_text() for name in ("torch_attention", "grouped_query")}
WARM = ("numpy", "torch", "tests.lazy_device")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="students' processes open GPUs on Linux only")
walled = pytest.mark.skipif(bool(lockdown.missing()), reason=f"no wall here: {lockdown.missing()}")
pytestmark = linux

WRONG = {  # a submission has a mistake an exercise
    "first": {
        "attention": ("torch_attention", " / math.sqrt(q.shape[-1])", ""),
        "efficient_mha": ("torch_attention", "attn_mask=allowed)", "attn_mask=None)"),
        "MultiHeadAttention": ("torch_attention", "split_heads(self.W_V(x)", "split_heads(self.W_K(x)"),
        "grouped_query_attention": (
            *("grouped_query", "x.repeat_interleave(num_heads // num_kv_heads, dim=1)"),
            "x.repeat(1, num_heads // num_kv_heads, 1, 1)",
        ),
    },
    "second": {
        "attention": ("torch_attention", "return weights @ v, weights", "return weights.detach() @ v, weights"),
        "efficient_mha": ("torch_attention", "+ (n_k - n_q)", "+ 0"),
    },
}


def checks_of(report: dict[str, Any], exercise: str) -> list[dict[str, Any]]:
    return next(item["checks"] for item in report["exercises"] if item["name"].endswith(f".{exercise}"))


@pytest.fixture(scope="module")
def on_the_cpu() -> dict[str, dict[str, Any]]:
    """The bfloat16 cases of the GPU checks on the CPU's kernels: of the solutions, and of wrong versions of them."""
    submissions = {"right": {f"{name}.py": source for name, source in SOURCES.items()}}
    for student, mistakes in WRONG.items():
        sources = dict(SOURCES)
        for module, *change in mistakes.values():
            sources[module] = replaced(sources[module], (change[0], change[1]))
        submissions[student] = {f"{name}.py": source for name, source in sources.items()}
    return grade_each(submissions, gpu="cpu", select="gpu and float32 and not bfloat16")


def test_right_code_passes_and_says_which_kernels_it_was_not_compared_with(on_the_cpu: dict[str, Any]) -> None:
    checks = [check for exercise in on_the_cpu["right"]["exercises"] for check in exercise["checks"]]
    assert [check["status"] for check in checks] == ["passed"] * 4
    for check in checks:
        assert "CUDNN_ATTENTION is not applicable" in check["message"]
        assert "No viable backend" in check["message"]
        assert "MATH" not in check["message"]


@pytest.mark.parametrize(("student", "exercise"), [(student, exercise) for student, them in WRONG.items() for exercise in them])
def test_wrong_code_fails(on_the_cpu: dict[str, Any], student: str, exercise: str) -> None:
    (check,) = checks_of(on_the_cpu[student], exercise)
    assert check["status"] == "failed", check


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_four_points_are_left_out(course: Course) -> None:
    submission = read_submission(course.submission, course.modules)
    report = grade(submission, course, select="gpu")
    assert (report.score, report.max_score, sum(report.left_out.values())) == (0, 0, 4)
    assert "left out: 4 points, needs a GPU: this machine has none that CUDA knows" in text(report)
    assert {check.status for check in report.checks} == {"skipped"}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "grader", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_a_gpu_that_is_required_and_not_there() -> None:
    done = command("grade", "solutions", "--gpu", "require", "-k", "softmax")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "grader: there is no GPU to grade with: this machine has none that CUDA knows\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_the_script_says_that_there_is_no_gpu() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tests/gpu/run")], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("there is no GPU that torch can use here; ")


def test_the_script_sees_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("tests/gpu", "solutions"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    agreement = importlib.import_module("agreement")
    monkeypatch.setattr(agreement.parity, "DTYPES", ("float32",))
    cases = {name: (agreement.parity.CASES[name][0],) for name in ("attention", "MultiHeadAttention")}
    monkeypatch.setattr(agreement.parity, "CASES", cases)
    rows = list(agreement.rows("cpu"))
    assert all(row["off"] <= 1 for row in rows if "off" in row)
    assert "FLASH_ATTENTION, 1 cases: Flash attention requires q,k,v to have the same last dimension" in agreement.table(rows)
    lesson = importlib.import_module("torch_attention")
    monkeypatch.setattr(lesson, "attention", lambda q, k, v, mask=None: right(2 * q, k, v, mask))
    monkeypatch.setattr(agreement.parity, "CASES", {"attention": cases["attention"]})
    assert all(row["off"] > 100 for row in agreement.rows("cpu") if "off" in row)
    for module in ("agreement", "torch_attention", "grouped_query"):
        sys.modules.pop(module, None)


def right(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, None]:
    """Attention by torch's own call."""
    seen = None if mask is None else ~mask
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen), None


def test_wishes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert gpu.wanted("skip") == ("", "it was not to be used (--gpu skip)")
    monkeypatch.setattr(gpu, "found", lambda _: [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu.wanted("auto")[0] == ""
    monkeypatch.setattr(gpu, "found", lambda _: ["/dev/nvidia0"])
    assert gpu.wanted("auto") == gpu.wanted("require") == ("cuda:0", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu.wanted("auto") == ("", "CUDA_VISIBLE_DEVICES hides it")


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_a_gpu_that_can_not_be_opened_is_none() -> None:
    with Runner(Limits(), gpu="cuda:0") as runner:
        device, why = runner.gpu
        assert device == ""
        assert why.startswith("the one that is here can't be opened by code that is being graded (")
        with runner.open({"work": b"def f(): return 1"}) as confined:  # and grading goes on without
            assert confined.module("work").f() == 1


SOURCE = b"""
import torch
from torch import nn

def weights(q): return (q @ q.transpose(-2, -1)).softmax(-1), q.device.type
def home(x): return x.cpu() * 2
def elsewhere(x): return torch.ones(x.shape)
def device(): return torch.ones(2).device.type

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.W = nn.Linear(4, 3, bias=False)
    def forward(self, x): return self.W(x)
"""


@pytest.fixture(scope="module")
def lazy() -> Iterator[Runner]:
    with Runner(Limits(), gpu=lazy_device.DEVICE, preload=WARM) as runner:
        assert runner.gpu == (lazy_device.DEVICE, "")
        yield runner


@pytest.fixture
def work(lazy: Runner) -> Iterator[tuple[Confined, Any]]:
    with lazy.open({"work": SOURCE}) as confined:
        confined.begin("work.f", lazy_device.DEVICE)
        yield confined, confined.module("work", "work.f")


def test_tensors_and_gradients_cross_with_their_device(work: tuple[Confined, Any]) -> None:
    here = torch.randn(2, 3, 4, dtype=torch.double)
    q = here.to(lazy_device.DEVICE).requires_grad_()
    weights, there = work[1].weights(q)
    due = (leaf := here.clone().requires_grad_()) @ leaf.transpose(-2, -1)
    due = due.softmax(-1)
    assert (weights.device.type, there) == ("lazy", "lazy")
    torch.testing.assert_close(weights.detach().cpu(), due.detach())
    upstream = torch.randn(2, 3, 3, dtype=torch.double)
    (found,) = torch.autograd.grad(weights, [q], upstream.to(lazy_device.DEVICE))
    (wanted,) = torch.autograd.grad(due, [leaf], upstream)
    assert found.device.type == "lazy"
    torch.testing.assert_close(found.cpu(), wanted)


def test_a_module_moves_to_the_device(work: tuple[Confined, Any]) -> None:
    net = work[1].Net().to(lazy_device.DEVICE, torch.double)
    x = torch.randn(2, 4, dtype=torch.double)
    output = net(x.to(lazy_device.DEVICE))
    assert output.device.type == "lazy"
    torch.testing.assert_close(output.detach().cpu(), x @ net.W.weight.detach().cpu().T)
    (found,) = torch.autograd.grad(output.sum(), [net.get_parameter("W.weight")])
    torch.testing.assert_close(found.cpu(), x.sum(0).expand(3, 4))


def test_an_answer_on_another_device_says_so(work: tuple[Confined, Any]) -> None:
    x = torch.ones(2, device=lazy_device.DEVICE)
    assert work[1].home(x).device.type == work[1].elsewhere(x).device.type == "cpu"


def test_only_a_check_that_asks_opens_the_device(work: tuple[Confined, Any]) -> None:
    confined, _ = work
    assert confined.module("work").device() == "cpu"
    first = confined.generation
    confined.begin("work.g")
    assert confined.module("work").device() == "cpu"
    assert confined.generation == first + 1  # a process that has not opened it
    with confined.runner.open({"work": SOURCE}) as other, pytest.raises(Exception, match=r"gave back|ended|crashed"):
        other.module("work").weights(torch.ones(2, 2, device=lazy_device.DEVICE))[0].sum().item()


class Behind:
    """The modules of a submission in a process of this runner."""

    def __init__(self, confined: Confined) -> None:
        self.confined, self.files, self.gpu = confined, dict[str, str](), confined.runner.gpu

    def module(self, module: str, exercise: str, device: str = "") -> Any:
        self.confined.begin(exercise, device)
        return self.confined.module(module, exercise)


def graded_on(runner: Runner, course: Course, submission: Submission, select: str) -> Report:
    """The report of GPU checks on the device of this runner, without a diagnosis."""
    checks, reports = Checks(course, 1, None), []

    @contextmanager
    def behind(it: Submission) -> Iterator[Behind]:
        with runner.open(it.sources) as confined:
            yield Behind(confined)

    run_checks(checks, [submission], behind, lambda _: reports.append(checks.report("strong")), select)
    return reports[0]


def test_the_checks_work_on_another_device(lazy: Runner, course: Course, tmp_path: Path) -> None:
    select, lost = "gpu_grouped and bfloat16", "return weights @ v, weights"
    for folder, source in {
        "right": SOURCES["grouped_query"],
        "stray": replaced(SOURCES["grouped_query"], (lost, "return (weights @ v).cpu(), weights")),
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "grouped_query.py").write_text(source)
    submissions = (read_submission(tmp_path / name, course.modules) for name in ("right", "stray"))
    (right,), (stray,) = (
        checks_of(as_data(graded_on(lazy, course, submission, select)), "grouped_query_attention") for submission in submissions
    )
    assert right["status"] == "passed", right
    assert stray["message"] == "8 heads on 2, masked: output is on cpu, due was lazy:0, as the input"


HOSTILE = {
    "reads": ("open('/etc/passwd').read()", PermissionError),
    "writes": ("open('/tmp/gpu-mode', 'w')", PermissionError),
    "updates": ("os.open(sys.executable, os.O_RDWR)", PermissionError),
    "talks": ("socket.socket()", PermissionError),
    "starts": ("os.fork()", PermissionError),
    "signals": ("fcntl.ioctl(1, 0x5452, b'\\1\\0\\0\\0')", PermissionError),  # FIOASYNC
    "owns": ("fcntl.ioctl(3, 0x8901, b'\\1\\0\\0\\0')", PermissionError),  # FIOSETOWN
    "types": ("fcntl.ioctl(0, 0x5412, b'x')", PermissionError),  # TIOCSTI
}


@walled
@pytest.mark.parametrize("what", HOSTILE)
def test_the_wall_stands_in_gpu_mode(what: str, beside: Runner) -> None:
    line, kind = HOSTILE[what]
    source = f"import fcntl, os, socket, sys\ndef f():\n    {line}\n"
    with beside.open({"work": source.encode()}) as confined:
        confined.begin("work.f", "cpu")
        with pytest.raises(kind):
            confined.module("work", "work.f").f()


@pytest.fixture(scope="module")
def beside() -> Iterator[Runner]:
    with Runner(Limits(), gpu="cpu", preload=("numpy",)) as runner:
        yield runner


OPENED = """
import errno, fcntl, mmap, os, sys
from grader.confined import gpu, lockdown
from grader.course import Limits
device, other = sys.argv[1:]
gpu.DEVICES = (device,)
policies = [lockdown.Policy(Limits(), lockdown.ALL - {"uid"}, gpu=on) for on in (True, False)]
for policy in policies:
    policy.build()
    policy.measure()
def refused(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
for policy in policies:
    pid = os.fork()
    if pid == 0:
        policy.enter(os.getppid())
        def share():
            with open(device, "rb+") as file, mmap.mmap(file.fileno(), 4096) as shared:
                shared[0] = 7
        control = lambda: fcntl.ioctl(os.open(device, os.O_RDONLY), 0xC01046D6, b"x" * 16)
        os.write(1, repr([refused(share), refused(lambda: os.open(other, os.O_RDWR)), refused(control)]).encode() + b"\\n")
        os._exit(0)
    os.waitpid(pid, 0)
"""


@walled
def test_a_device_can_be_opened_shared_and_controlled_and_nothing_else(tmp_path: Path) -> None:
    for name in ("device", "other"):
        (tmp_path / name).write_bytes(bytes(4096))
    arguments = [sys.executable, "-c", OPENED, str(tmp_path / "device"), str(tmp_path / "other")]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    with_it, without = done.stdout.splitlines()
    assert with_it == "[None, 'EACCES', 'ENOTTY']"  # a plain file knows no request of a driver's, and says so
    assert without == "['EPERM', 'EPERM', 'EACCES']"
    assert (tmp_path / "device").read_bytes()[0] == 7
