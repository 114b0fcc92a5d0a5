"""What torch's own kernels give on a device, each of them forced, and how near to it right code comes.

It needs nothing but torch and NumPy, and serves the checks for a GPU as well as `tests/gpu/run`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from checks import F, inputs, kernels, torch

KERNELS = ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
DTYPES = ("float32", "float16", "bfloat16")
FUDGE = {"output": 5.0}  # PyTorch's own rule for outputs; gradients pass through more roundings
FUDGE_OF_GRADIENTS = 10.0

Attend = Callable[[Any, Any, Any], Any]  # q, k, v -> output
Formula = Callable[..., Any]  # (attend, *leaves) -> output


class Refused(Exception):
    """A kernel does not take the case; the message is its reason."""


@dataclass(frozen=True)
class Case:
    """Sizes of one call. `kv_heads` is that of k and v; the rest as in the lesson."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    n_q: int
    n_k: int
    d_k: int
    d_v: int
    causal: bool = False
    masked: bool = False
    gradients: bool = True

    def qkv(self, rng: Generator, dtype: str, device: str) -> list[Any]:
        """q, k and v, drawn on the CPU, so that they are the same on every device."""
        shapes = (self.heads, self.n_q, self.d_k), (self.kv_heads, self.n_k, self.d_k), (self.kv_heads, self.n_k, self.d_v)
        return [leaf(inputs.values(rng, self.batch, *shape), dtype, device, self.gradients) for shape in shapes]

    @property
    def triangle_alone(self) -> bool:
        """Whether the kernels' own `is_causal` says all that is hidden."""
        return self.causal and not self.masked and self.n_q == self.n_k

    def hidden(self, rng: Generator, device: str) -> Any:
        """The mask of this course's kind, or None. Every query sees a key, for not all kernels say what to do without."""
        mask = None
        if self.causal:
            mask = torch.ones(self.n_q, self.n_k, dtype=torch.bool).triu(self.n_k - self.n_q + 1)
        if self.masked:
            drawn = inputs.tensor(inputs.mask_of(rng, self.batch, 1, self.n_q, self.n_k))
            drawn[..., 0] = False
            mask = drawn if mask is None else mask | drawn
        return None if mask is None else mask.to(device)


CASES: dict[str, tuple[Case, ...]] = {
    "attention": (
        Case("masked, odd sizes", 2, 3, 3, 33, 65, 40, 24, masked=True),
        Case("causal", 1, 4, 4, 128, 128, 32, 32, causal=True),
        Case("4,096 keys", 1, 1, 1, 16, 4096, 32, 32, gradients=False),
    ),
    "MultiHeadAttention": (
        Case("masked, odd length", 2, 6, 6, 37, 37, 16, 16, masked=True),
        Case("causal", 1, 2, 2, 256, 256, 32, 32, causal=True),
    ),
    "efficient_mha": (
        Case("masked, odd sizes", 2, 3, 3, 33, 65, 40, 40, masked=True),
        Case("causal, after a cache", 1, 2, 2, 3, 130, 64, 64, causal=True),
        Case("causal, 4,096 tokens", 1, 1, 1, 4096, 4096, 16, 16, causal=True),
    ),
    "grouped_query_attention": (
        Case("8 heads on 2, masked", 2, 8, 2, 31, 50, 32, 32, masked=True),
        Case("6 heads on 1, causal", 1, 6, 1, 64, 64, 64, 64, causal=True),
        Case("4 heads on 2, 4,096 keys", 1, 4, 2, 4, 4096, 32, 32, gradients=False),
    ),
}


@dataclass(frozen=True)
class Dues:
    """What is due of one call: its output first, then the gradients of `names`. `slack` is how far right code may be off."""

    names: tuple[str, ...]
    reference: list[Any]
    slack: list[float]
    kernels: dict[str, list[Any]]
    refused: dict[str, str]
    far: dict[str, float]  # kernels that are themselves further off: nobody is compared with them

    def labels(self) -> list[str]:
        return ["output", *(f"the gradient of {name}" for name in self.names)]


def leaf(array: Any, dtype: str, device: str, gradients: bool = True) -> Any:
    """A tensor of its own on the device."""
    return inputs.tensor(array, dtype).to(device).requires_grad_(gradients)


def plain(hidden: Any) -> Attend:
    """The formula as it stands, with shared heads repeated."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
        mask = torch.zeros((), dtype=torch.bool, device=q.device) if hidden is None else hidden
        return kernels.plain_attention(q, k, v, mask)[0]

    return attend


def forced(kernel: str, hidden: Any, causal: bool) -> Attend:
    """One of torch's kernels and no other. It raises Refused where that kernel does not take what it is given."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        options: dict[str, Any] = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
        options |= {"is_causal": True} if causal else {} if hidden is None else {"attn_mask": ~hidden}
        with warnings.catch_warnings(record=True) as said, sdpa_kernel(getattr(SDPBackend, kernel)):
            warnings.simplefilter("always")
            try:
                return F.scaled_dot_product_attention(q, k, v, **options)
            except RuntimeError as error:
                raise Refused(_reason([str(warning.message) for warning in said], str(error))) from None

    return attend


def dues(formula: Formula, case: Case, hidden: Any, leaves: dict[str, Any], upstream: Any) -> Dues:
    """What each kernel gives, and the formula in float64 and in the leaves' own type."""

    def results(attend: Attend, double: bool = False) -> list[Any]:
        own = [x.detach().double() if double else x.detach().clone() for x in leaves.values()]
        own = [x.requires_grad_(case.gradients) for x in own]
        output = formula(attend, *own)
        back = torch.autograd.grad(output, own, upstream.to(output)) if case.gradients else ()
        return [output.detach(), *back]

    reference, low = results(plain(hidden), double=True), results(plain(hidden))
    fudges = [FUDGE["output"], *[FUDGE_OF_GRADIENTS] * len(leaves)]
    slack = [max(1e-5, fudge * apart(a, b)) for fudge, a, b in zip(fudges, low, reference, strict=False)]
    kernels: dict[str, list[Any]] = {}
    refused, far = {}, {}
    for kernel in KERNELS:
        try:
            found = results(forced(kernel, hidden, case.triangle_alone))
        except Refused as error:
            refused[kernel] = str(error)
            continue
        off = max(apart(a, b) / allowed for a, b, allowed in zip(found, reference, slack, strict=True))
        if off <= 1:
            kernels[kernel] = found
        else:  # NaN too
            far[kernel] = off
    return Dues(tuple(leaves) if case.gradients else (), reference, slack, kernels, refused, far)


def multi_head(heads: int) -> Formula:
    """The layer with four matrices as nn.Linear keeps them, around any attention."""

    def formula(attend: Attend, x: Any, *W: Any) -> Any:
        q, k, v = ((x @ w.T).unflatten(2, (heads, -1)).transpose(1, 2) for w in W[:3])
        return attend(q, k, v).transpose(1, 2).flatten(2) @ W[3].T

    return formula


def heads_alone(attend: Attend, q: Any, k: Any, v: Any) -> Any:
    return attend(q, k, v)


def told(found: Mapping[str, Dues]) -> list[str]:
    """A sentence for each kernel that nobody was compared with, with the cases' names and the reason."""
    cases: dict[tuple[str, str], list[str]] = {}
    for case, due in found.items():
        for kernel, reason in due.refused.items():
            cases.setdefault((f"{kernel} is not applicable", reason), []).append(case)
        for kernel, off in due.far.items():
            cases.setdefault((f"{kernel} is left aside", f"it is {off:.2g} times too far off itself"), []).append(case)
    return [f"{what} ({'; '.join(names)}): {reason}" for (what, reason), names in cases.items()]


def apart(a: Any, b: Any) -> float:
    """The largest difference."""
    return float((a.double() - b.double()).abs().max())


def _reason(said: Sequence[str], error: str) -> str:
    """The one warning of the kernel's own among those that only say that the other kernels are switched off."""
    idle = ("not used because", "runtime disabled", "disabled by the user")
    told = [text.partition(" (Triggered internally")[0].strip() for text in said]
    own = [text for text in told if text and not any(words in text for words in idle)]
    return " ".join((own or [error])[0].split()).partition(". ")[0][:200]
