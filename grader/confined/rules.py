"""Calls that an exercise must not make, refused while it runs: by name, however they were reached.

A speed bump, not a wall: code in the same process can always take it down.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
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
    """Refuse every call of `names` in the block, also by threads that start in it; swallowing the refusal does not help.

    Only PyTorch's functions are watched, and only when something has imported it. Raises Forbidden.
    """
    torch = sys.modules.get("torch")
    if not names or torch is None:
        yield
        return
    broken: list[str] = []
    watched_for = tuple(names)

    def refuse(name: str) -> None:
        broken.append(name)
        raise Forbidden(f"{exercise} must not call {name}: write the formula out")

    def look(function: Any) -> None:
        if (name := _forbidden(function, watched_for)) is not None:
            refuse(name)

    def modes() -> tuple[Any, Any]:
        named, dispatched = (mode() for mode in _modes())
        named.look = dispatched.look = look
        return named, dispatched

    def watch_thread(*_: Any) -> None:
        sys.setprofile(None)
        for mode in modes():
            mode.__enter__()

    attention, forward, profile = torch.nn.MultiheadAttention, torch.nn.MultiheadAttention.forward, threading.getprofile()
    try:
        if "MultiheadAttention" in names:
            attention.forward = lambda *_, **__: refuse("MultiheadAttention")
        threading.setprofile(watch_thread)
        named, dispatched = modes()
        with named, dispatched:
            yield
    finally:
        threading.setprofile(profile)
        attention.forward = forward
        if broken:  # also when the student's code caught the first refusal
            raise Forbidden(f"{exercise} must not call {broken[0]}: write the formula out") from None


@functools.cache  # a new class costs more than most of what it watches
def _modes() -> tuple[type, type]:
    """What watches PyTorch's functions, as they are called and as they are dispatched; each needs a `look`."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    def watched(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.look(func)
        return func(*args, **(kwargs or {}))

    plain = {"_should_skip_dynamo": classmethod(lambda cls: False)}  # not through the compiler, which takes seconds to import
    return (
        type("Named", (TorchFunctionMode,), {"__torch_function__": watched}),
        type("Dispatched", (TorchDispatchMode,), {"__torch_dispatch__": watched, **plain}),
    )


@functools.lru_cache(maxsize=256)
def _forbidden(function: Any, names: tuple[str, ...]) -> str | None:
    """Which of `names` a function of PyTorch's is another door to."""
    called = f"{getattr(function, '__name__', '')} {function}"
    return next((name for name in names if any(part in called for part in (name, *_SAME.get(name, ())))), None)
