"""Calls that an exercise must not make, refused while it runs: by name, however they were reached.

A speed bump, not a wall: code in the same process can always take it down.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

# other doors to the same kernels: private ones, and modules that call them inside
_SAME = {
    "scaled_dot_product_attention": ("scaled_dot_product", "flash_attention", "efficient_attention", "flex_attention"),
    "multi_head_attention_forward": ("multi_head_attention", "multi_head_self_attention"),
    "MultiheadAttention": ("multi_head_attention", "transformer_encoder_layer_fwd"),
}


class Forbidden(RuntimeError):
    """A student's code called what its exercise forbids."""


@contextlib.contextmanager
def forbid(names: Sequence[str], exercise: str) -> Iterator[None]:
    """Refuse every call of `names` in the block; swallowing the refusal does not help. Raises Forbidden.

    Only PyTorch's functions are watched, and only when something has imported it.
    """
    torch = sys.modules.get("torch")
    if not names or torch is None:
        yield
        return
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    broken: list[str] = []
    parts = {part: name for name in names for part in (name, *_SAME.get(name, ()))}

    def check(function: Any) -> None:
        called = str(getattr(function, "__name__", function)) + f" {function}"
        for part, name in parts.items():
            if part in called:
                broken.append(name)
                raise Forbidden(_sentence(exercise, name))

    class Named(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            check(func)
            return func(*args, **(kwargs or {}))

    class Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            check(func)
            return func(*args, **(kwargs or {}))

    def refuse(*_: Any, **__: Any) -> None:
        broken.append("MultiheadAttention")
        raise Forbidden(_sentence(exercise, "MultiheadAttention"))

    attention, forward = torch.nn.MultiheadAttention, torch.nn.MultiheadAttention.forward
    try:
        if "MultiheadAttention" in names:
            attention.forward = refuse
        with Named(), Dispatched():  # type: ignore[no-untyped-call]
            yield
    finally:
        attention.forward = forward
        if broken:  # also when the student's code caught the first refusal
            raise Forbidden(_sentence(exercise, broken[0])) from None


def _sentence(exercise: str, name: str) -> str:
    return f"{exercise} must not call {name}: write the formula out"
