"""Which of our mistakes the tests of public courses let through: `python -m tests.benchmarks.peers --help`.

Their code stays where it is: a checkout, or a bare clone, in the folder that `--peers` or PEERS names. A mistake of
`solutions/mistakes/` is given their interface and handed to their own tests, unchanged. A right answer goes the same way
first: where it does not pass, nothing can be said, and the row says why.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "benchmarks")]

import numpy as np  # noqa: E402
import probes  # noqa: E402
import torch  # noqa: E402

Call = Callable[..., Any]
SOFTMAX, ATTENTION, LAYER = "numpy_attention.softmax", "torch_attention.attention", "torch_attention.MultiHeadAttention"
NUMPY, NUMPY_LAYER, CACHED = (
    "numpy_attention.attention",
    "numpy_attention.MultiHeadAttention",
    "grouped_query.GroupedQueryAttention",
)
CAUSAL = "torch_attention.causal_mask"


@dataclass(frozen=True)
class Suite:
    """A public course's tests: where they are, what they see of our exercises, and how answers (by exercise) are put to them."""

    name: str
    repository: str
    paths: tuple[str, ...]  # what is needed of it
    exercises: dict[str, Callable[[Call], Iterator[probes.Probe]]]
    judge: Callable[[Path], Callable[[dict[str, Call]], bool]]  # of a checkout: whether answers pass


def axis(softmax: Call) -> Call:
    """A softmax of the last axis as one of any axis of a tensor."""
    return lambda x, dim=-1: torch.as_tensor(np.moveaxis(softmax(np.moveaxis(x.numpy(), dim, -1)), -1, dim))


def hidden(n: int, answers: dict[str, Call]) -> Any:
    return answers[CAUSAL](n)


def layer_of(answers: dict[str, Call], d_model: int, heads: int, weights: dict[str, Any]) -> Call:
    """The causal layer with these weights (out, in), through which gradients flow to them."""
    layer = answers[LAYER](d_model, heads).eval()
    named = {f"{name}.weight": value for name, value in weights.items()}
    return lambda x: torch.func.functional_call(layer, named, (x, hidden(x.shape[-2], answers)))[0]


def collected(folder: Path, *arguments: str) -> Callable[[Callable[[ModuleType], None]], bool]:
    """pytest's items of a folder; gives a function that runs them on a patched module until the first one fails."""
    import pytest
    from _pytest.runner import runtestprotocol

    def passes(patch: Callable[[ModuleType], None]) -> bool:
        class Loop:
            ok, ran = True, 0

            def pytest_runtestloop(self, session: pytest.Session) -> bool:
                for item in session.items:
                    patch(item.module)  # type: ignore[attr-defined]
                    reports = runtestprotocol(item, log=False, nextitem=None)
                    self.ran += any(report.when == "call" for report in reports)
                    self.ok = self.ok and not any(report.failed for report in reports)
                    if not self.ok:
                        break
                return True

        loop = Loop()
        before = Path.cwd()
        os.chdir(folder)
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:grader", "-c", os.devnull, "--rootdir", ".", *arguments],
                            plugins=[loop])  # fmt: skip
        finally:
            os.chdir(before)
        assert loop.ran, f"none of {arguments} ran"
        return loop.ok

    return passes


def cs336(folder: Path) -> Callable[[dict[str, Call]], bool]:
    """Stanford CS336, assignment 1: attention against snapshots, and softmax. Their masks say what is seen.

    The test of the layer is left out: its weights (tests/fixtures/ts_tests/model.pt) are not in every copy.
    """
    wanted = "scaled_dot_product_attention or softmax_matches"
    run = collected(folder, "-k", wanted, "--import-mode", "prepend", "tests/test_model.py", "tests/test_nn_utils.py")

    def judge(answers: dict[str, Call]) -> bool:
        def attention(Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
            return answers[ATTENTION](Q, K, V, None if mask is None else ~mask)[0]

        theirs = {"run_scaled_dot_product_attention": attention, "run_softmax": axis(answers[SOFTMAX])}
        return run(lambda module: module.__dict__.update(theirs))

    return judge


def cells(path: Path, until: str = "") -> Iterator[str]:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and not (until and until in source):
            yield source


def executed(path: Path, answers: dict[str, Any], until: str = "") -> bool:
    """Run a notebook's cells, with our functions in place of those that are to be written."""
    namespace: dict[str, Any] = {}
    try:
        with redirect_stdout(io.StringIO()):
            for source in cells(path, until):
                exec(compile(source, path.name, "exec"), namespace)
                namespace.update({name: answer for name, answer in answers.items() if name in namespace})
    except Exception:
        return False
    return True


class Cached(torch.nn.Module):
    """Our layer with a cache that is an object."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, kv_cache: Any = None) -> Any:
        output, cache = self.layer(x, None if kv_cache is None else kv_cache.pair)
        if kv_cache is not None:
            kv_cache.pair = cache
        return output


def torchleet(folder: Path) -> Callable[[dict[str, Call]], bool]:
    """TorchLeet: the notebooks whose own comparison a right answer can pass (attention, softmax, the KV cache)."""

    def judge(answers: dict[str, Call]) -> bool:
        cached = {
            "KVCache": lambda: SimpleNamespace(pair=None),
            "CachedAttention": lambda d_model, num_heads: Cached(answers[CACHED](d_model, num_heads, num_heads)),
        }
        return (
            executed(
                folder / "llm/Implement-Attention-from-Scratch/attention-q4-Question.ipynb",
                {"scaled_dot_product_attention": answers[ATTENTION]},
            )
            and executed(folder / "v3/classical-ml/softmax/softmax.ipynb", {"softmax": axis(answers[SOFTMAX])})
            and executed(folder / "v3/llm-inference/kv-cache/kv-cache.ipynb", cached, until="time.time()")
        )

    return judge


def tinytorch(folder: Path) -> Callable[[dict[str, Call]], bool]:
    """TinyTorch: module 12's tests, and the unit tests in its source. Gradients of its own tensors are left out."""
    sys.path.insert(0, str(folder))
    for name in ("activations", "transformer"):  # generated, and not committed; attention's tests need none of it
        absent = ModuleType(f"tinytorch.core.{name}")
        absent.__dict__["__getattr__"] = lambda name: type(name, (), {"forward": None, "__call__": None})
        sys.modules[absent.__name__] = absent
    from tinytorch.core.tensor import Tensor  # type: ignore[import-not-found]

    run = collected(folder, "-k", "not Gradient", "--import-mode", "importlib", "tests/12_attention/test_attention_core.py")
    source = (folder / "src/12_attention/12_attention.py").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "unit_tests"}
    with redirect_stdout(io.StringIO()):
        exec(compile(source, "12_attention.py", "exec"), namespace)

    def judge(answers: dict[str, Call]) -> bool:
        def attention(Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
            seen = None if mask is None else np.asarray(mask.data) == 0
            return tuple(Tensor(part) for part in answers[NUMPY](Q.data, K.data, V.data, seen))

        class Layer:
            def __init__(self, embed_dim: int, num_heads: int) -> None:
                self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
                self.layer = answers[NUMPY_LAYER](embed_dim, num_heads, np.random.default_rng(0))

            def forward(self, x: Any, mask: Any = None) -> Any:
                seen = None if mask is None else np.asarray(mask.data)[..., None, :, :] == 0  # theirs knows no axis of heads
                return Tensor(self.layer.forward(x.data, seen)[0])

            __call__ = forward

            def parameters(self) -> list[Any]:
                return [
                    Tensor(getattr(self.layer, f"W_{name}")) for name in "QKVO"
                ] * 2  # theirs have biases, which count as four

        ours = {"scaled_dot_product_attention": attention, "MultiHeadAttention": Layer}
        namespace.update(ours)
        try:
            with redirect_stdout(io.StringIO()):
                namespace["test_unit_scaled_dot_product_attention"]()
                namespace["test_unit_multihead_attention"]()
        except Exception:
            return False
        return run(lambda module: module.__dict__.update(ours))

    return judge


def cmu(folder: Path) -> Callable[[dict[str, Call]], bool]:
    """CMU 11-868, homework 4: the test of multi-head attention, with PyTorch's tensors where minitorch's need a GPU."""
    small = "test_multihead_attention and (64-2-1 or 64-256-1)"  # the other sizes claim the same
    run = collected(folder, "-k", small, "--import-mode", "importlib", "tests/test_modules_transformer.py")

    def tensor(data: Any, backend: Any = None, requires_grad: bool = False) -> Any:
        made = torch.tensor(np.asarray(data), dtype=torch.float32)
        return made.requires_grad_(requires_grad)

    class Projection:
        def __init__(self) -> None:
            self.weights = SimpleNamespace(value=None)

    def judge(answers: dict[str, Call]) -> bool:
        class Layer:
            def __init__(self, n_embd: int, n_head: int, causal: bool, p: float, bias: bool, backend: Any) -> None:
                self.sizes = n_embd, n_head
                for name in ("q", "k", "v", "out"):
                    setattr(self, f"{name}_projection", Projection())

            def __call__(self, x: Any) -> Any:
                names = {"Q": "q", "K": "k", "V": "v", "O": "out"}
                weights = {f"W_{ours}": getattr(self, f"{theirs}_projection").weights.value.T for ours, theirs in names.items()}
                return layer_of(answers, *self.sizes, weights)(x)

        torch.Tensor.to_numpy = lambda self: self.detach().numpy()  # type: ignore[attr-defined]
        stand_in = {"tensor_from_numpy": tensor, "MultiHeadAttention": Layer, "TensorBackend": lambda *_: None}
        return run(lambda module: vars(module)["minitorch"].__dict__.update(stand_in))

    stand_ins = {
        "minitorch": SimpleNamespace(TensorBackend=lambda *_: None),
        "minitorch.cuda_kernel_ops": SimpleNamespace(CudaKernelOps=None),
        "numba": SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True)),
    }
    for name, members in stand_ins.items():
        module = ModuleType(name)
        module.__dict__.update(vars(members))
        sys.modules[name] = module
    return judge


_FILES = ("__init__", "adapters", "common", "conftest", "test_model", "test_nn_utils")
FAIR = (
    "A mistake counts when a right answer and it differ in what their interface shows. That inputs are left as they were, or "
    "that a hidden row gives zeros, is promised by our exercises and not by all of theirs."
)
CS336 = ("tests/_snapshots", *(f"tests/{name}.py" for name in _FILES))
TINYTORCH = ("tinytorch", "tests/12_attention", "src/12_attention")
OUTPUT = partial(probes.attention, only_output=True)
SUITES = (
    Suite("Stanford CS336, assignment 1", "stanford-cs336/assignment1-basics", CS336,
          {SOFTMAX: probes.softmax, ATTENTION: OUTPUT}, cs336),
    Suite("CMU 11-868, homework 4", "llmsystem/llmsys_hw4", ("tests",), {CAUSAL: probes.causal, LAYER: probes.layer}, cmu),
    Suite("TinyTorch, module 12", "MLSysBook/TinyTorch", TINYTORCH,
          {NUMPY: probes.square_attention, NUMPY_LAYER: probes.numpy_layer}, tinytorch),
    Suite("TorchLeet", "Exorust/TorchLeet", ("llm", "v3"),
          {SOFTMAX: probes.softmax, ATTENTION: probes.attention, CACHED: probes.cached}, torchleet),
)  # fmt: skip


def checkout(repository: str, paths: tuple[str, ...], peers: Path, into: Path) -> Path | None:
    """Their files: a folder OWNER+NAME of `peers`, or these paths in a bare clone OWNER+NAME/repo; None if neither is there."""
    place = peers / repository.replace("/", "+")
    if not (place / "repo").is_dir():
        return place if place.is_dir() else None
    command = ["git", "--git-dir", str(place / "repo"), "archive", "HEAD", "--", *paths]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    folder = into / repository.replace("/", "+")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def variants(exercise: str) -> list[tuple[str, Call]]:
    """Each single mistake that shows in an exercise, and what it makes of it."""
    from test_proof import CATALOGUE

    assert CATALOGUE is not None
    return [(variant.name, variant.call) for variant in CATALOGUE.singles(exercise)]


def right() -> dict[str, Call]:
    from test_proof import CATALOGUE

    assert CATALOGUE is not None
    return dict(CATALOGUE.recipes)


def ours(exercise: str, found: list[tuple[str, Call]]) -> set[str]:
    """The mistakes that our own checks let through."""
    from proof import prove

    from grader.course import find_course

    return {one.name for one in prove(find_course(ROOT), right(), exercise, found) if not one.caught}


def row(suite: Suite, folder: Path, most: int) -> tuple[str, list[str]]:
    """A line of the table, and the survivors."""
    judge = suite.judge(folder)
    if not judge(right()):
        return f"| {suite.name} | a right answer does not pass | | |", []
    seen, through, missed = 0, [], 0
    for exercise, shown in suite.exercises.items():
        due = right()[exercise]
        found = [(name, call) for name, call in variants(exercise) if probes.shows(shown, due, call)][: most or None]
        seen += len(found)
        through += [f"{name} ({exercise})" for name, call in found if judge({**right(), exercise: call})]
        missed += len(ours(exercise, found))
    return f"| {suite.name} | {seen} | {len(through)} | {missed} |", through


def main(quick: bool = False, peers: str = "") -> str:
    """Markdown: a row a suite, and the survivors by name."""
    places = Path(peers or os.environ.get("PEERS", ROOT.parent / "peers"))
    lines = ["| tests of | mistakes they could see | let through by them | by ours |", "|---|---|---|---|"]
    names = []
    with tempfile.TemporaryDirectory() as into:
        for suite in SUITES:
            folder = checkout(suite.repository, suite.paths, places, Path(into))
            if folder is None:
                lines.append(f"| {suite.name} | not run: there is no copy of {suite.repository} | | |")
                continue
            line, through = alone(suite, folder, 10 if quick else 0)
            lines.append(line)
            names += ["", f"{suite.name} lets through: {', '.join(through)}."] if through else []
    return "\n".join([*lines, "", FAIR, *names])


def alone(suite: Suite, folder: Path, most: int) -> tuple[str, list[str]]:
    """`row` in a process of its own: suites put their own modules into the interpreter, some under the name `tests`."""
    command = [sys.executable, __file__, "--row", suite.name, str(folder), str(most)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = [line for line in run.stdout.splitlines() if line.startswith("ROW ")]
    if not told:
        why = (run.stderr.strip().splitlines() or ["no reason"])[-1]
        return f"| {suite.name} | could not be run: {why[:120]} | | |", []
    line, through = json.loads(told[-1].removeprefix("ROW "))
    return line, through


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="", help="folder of copies, each OWNER+NAME")
    parser.add_argument("--quick", action="store_true", help="ten mistakes an exercise")
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        chosen = next(suite for suite in SUITES if suite.name == given.row[0])
        print("ROW", json.dumps(row(chosen, Path(given.row[1]), int(given.row[2]))))
    else:
        print(main(given.quick, given.peers))
