"""What can be seen of a call's answer, made small: its form, and a few numbers that stand for its contents."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..confined import twins

MOST = 4096  # numbers of an array that are looked at: a student's answer may have millions
MOST_PARTS = 64  # of an answer
PROJECTIONS = 3  # numbers that stand for an array: its products with fixed random directions
SAME = {"float64": 1e-10, "complex128": 1e-10, "float32": 3e-5, "float16": 1e-2, "bfloat16": 4e-2}  # relative, by dtype


@dataclass(frozen=True)
class Part:
    """One value of an answer: its form, its largest number, and numbers that stand for its contents relative to that."""

    form: tuple[Any, ...]
    numbers: tuple[float, ...] = ()
    largest: float = 0.0
    dtype: str = "float64"

    def matches(self, other: Part) -> bool:
        """The same form, and the same contents as near as the dtype can tell."""
        slack = SAME.get(self.dtype, 1e-10)
        return (
            self.form == other.form
            and abs(self.largest - other.largest) <= slack * max(self.largest, other.largest)
            and all(abs(a - b) <= slack for a, b in zip(self.numbers, other.numbers, strict=True))
        )


@dataclass(frozen=True)
class Seen:
    """What one call gave: the parts of its answer or the kind of its error (with its numbers), and which arguments it changed."""

    error: str = ""
    numbers: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    changed: tuple[bool, ...] = ()
    gradients: tuple[Part, ...] = ()  # of the inputs that want one

    @property
    def form(self) -> tuple[Any, ...]:
        """What it is apart from its numbers."""
        return (self.error, self.changed, *(part.form for part in (*self.parts, *self.gradients)))

    def fulfils(self, due: Seen, back: bool = True) -> bool:
        """As right as `due`: an error may be told in other words, but with no number less."""
        return replace(self, numbers=due.numbers).matches(due, back) and set(due.numbers) <= set(self.numbers)

    def matches(self, other: Seen, back: bool = True) -> bool:
        """The same in everything that a student could be told about; without `back`, but for the gradients."""
        mine, theirs = ((seen.error, seen.numbers, seen.changed) for seen in (self, other))
        return mine == theirs and _match(self.parts, other.parts) and (not back or _match(self.gradients, other.gradients))


def models(value: Any) -> list[Any]:
    """The torch modules among nested values, such as a trained model that a function is given."""
    return [leaf for leaf in leaves(value) if is_module(leaf)]


def numbers_in(value: Any) -> int:
    """How many numbers the arrays among nested values hold."""
    return sum(math.prod(leaf.shape) for leaf in leaves(value) if kind_of(leaf))


def _match(mine: tuple[Part, ...], theirs: tuple[Part, ...]) -> bool:
    return len(mine) == len(theirs) and all(map(Part.matches, mine, theirs))


def same(old: Any, new: Any) -> bool:
    """Whether an array or tensor holds what its copy of before does."""
    if kind_of(old) == "array":
        equal = np.array_equal(old, new)
    else:
        alike = (old.shape, old.dtype, old.device) == (new.shape, new.dtype, new.device) and old.device.type != "meta"
        equal = alike and old.detach().equal(new.detach())
    return equal or part_of(old).matches(part_of(new))  # NaN equals nothing


def leaves(value: Any) -> list[Any]:
    """What nested arguments hold, in order."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def parts_of(answer: Any, looks: dict[int, Part | None] | None = None) -> Iterator[Part]:
    """The parts of an answer, or the first of very many; a list and a tuple are the same sequence. `looks` are kept, by id."""
    return itertools.islice(_parts(answer, looks or {}), MOST_PARTS)


def _parts(answer: Any, looks: dict[int, Part | None]) -> Iterator[Part]:
    if not isinstance(answer, tuple | list | dict):
        part = looks.get(id(answer)) or part_of(answer)
        if id(answer) in looks:
            looks[id(answer)] = part
        yield part
        return
    yield Part(("dict", len(answer), *list(answer)[:MOST_PARTS]) if isinstance(answer, dict) else ("sequence", len(answer)))
    for item in answer.values() if isinstance(answer, dict) else answer:
        yield from _parts(item, looks)


def gradients_of(answer: Any, wanted: list[Any]) -> Iterator[Part]:
    """What flows back from an answer, in one fixed direction, to each input that wants it."""
    given = [leaf for leaf in leaves(answer) if kind_of(leaf) == "tensor" and leaf.requires_grad]
    if not wanted or not given:
        return
    torch = sys.modules["torch"]
    back = [torch.linspace(-1, 1, leaf.numel()).sin().reshape(leaf.shape).to(leaf) for leaf in given]
    try:
        found = torch.autograd.grad(along(given, back), wanted, retain_graph=True, allow_unused=True)
    except Exception:
        yield Part(("no gradient", "an error"))
        return
    yield from (Part(("no gradient",)) if gradient is None else part_of(gradient) for gradient in found)


def along(outputs: Sequence[Any], upstream: Sequence[Any]) -> Any:
    """One number whose gradient is that of these outputs along `upstream`: torch would import SymPy to compare shapes."""
    pairs = list(zip(outputs, upstream, strict=True))
    if any(output.shape != direction.shape for output, direction in pairs):
        raise ValueError(f"its shape is {tuple(outputs[0].shape)}, due was {tuple(upstream[0].shape)}")
    return sum((output * direction).sum() for output, direction in pairs)


def kind_of(value: Any) -> str:
    """`tensor`, `array`, or nothing for any other value."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "tensor"
    return "array" if isinstance(value, np.ndarray) else ""


def has_numbers(array: Any) -> bool:
    """Whether there are real numbers in it: tensors without data have none, and of complex ones no exercise asks."""
    return "complex" not in str(array.dtype) and (kind_of(array) == "array" or array.device.type != "meta")


def is_module(value: Any) -> bool:
    """Whether it is a torch module; torch is never imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def part_of(value: Any) -> Part:
    """A single value as a part."""
    kind = kind_of(value)
    if kind == "tensor":
        dtype = str(value.dtype).removeprefix("torch.")
        form = ("tensor", dtype, str(value.device), tuple(value.shape), value.requires_grad)
        return _numbers(form, value.detach().to("cpu").double().numpy(), dtype) if has_numbers(value) else Part(form)
    if kind == "array":
        form = ("array", str(value.dtype), "cpu", tuple(value.shape), False)
        return _numbers(form, value.astype(np.float64), value.dtype.name) if value.dtype.kind in "fiub" else Part(form)
    if isinstance(value, bool | int | str | None) or value is None:
        return Part((type(value).__name__, value))
    if isinstance(value, float | np.floating | np.integer | np.bool_):
        return _numbers((type(value).__name__,), np.asarray(value, dtype=np.float64), "float64")
    if is_module(value):
        parameters = tuple((name, tuple(item.shape)) for name, item in value.named_parameters())
        return Part(("module", parameters, tuple(value.state_dict())))
    return Part(("other",))


def textures(answer: Any) -> Iterator[tuple[Any, ...]]:
    """What stays of an answer's arrays when their numbers change a little: signs, zeros, axes with equal sums"""
    for leaf in leaves(answer)[:MOST_PARTS]:
        if kind_of(leaf) and has_numbers(leaf) and 0 < math.prod(leaf.shape) <= MOST:
            x = leaf.astype(np.float64) if kind_of(leaf) == "array" else leaf.detach().cpu().double().numpy()
            x = np.where(np.isfinite(x), x, 0.0)
            yield x.min() < 0, bool((x == 0).any())
            yield tuple(bool(np.ptp(x.sum(axis)) < 1e-3) for axis in range(x.ndim))


def attributes_of(values: Mapping[str, Any]) -> Seen:
    """What can be compared of attributes that may be random: shapes, which are equal, and how many different numbers each has."""
    found, known = [], list[Any]()
    for name, value in values.items():
        if kind_of(value) != "array":
            found.append(Part(("attribute", name, type(value).__name__)))
            continue
        like = next((i for i, other in enumerate(known) if np.array_equal(value, other)), len(known))
        known.append(value)
        numbers = np.unique(value.reshape(-1)[:: value.size // MOST + 1]).size
        found.append(Part(("attribute", name, value.shape, like, numbers)))
    return Seen(parts=tuple(found))


def _numbers(form: tuple[Any, ...], values: NDArray[np.float64], dtype: str) -> Part:
    flat = values.reshape(-1)[:: values.size // MOST + 1]
    finite = np.isfinite(flat)
    holes = () if finite.all() else (int(np.isnan(flat).sum()), int(np.isposinf(flat).sum()), int(np.isneginf(flat).sum()))
    kept = flat if not holes else np.where(finite, flat, 0.0)
    largest = float(np.abs(kept).max(initial=0.0))
    relative = kept / largest if largest else kept
    return Part((*form, *holes), tuple(float(x) for x in _directions(flat.size) @ relative), largest, dtype)


@functools.lru_cache(maxsize=256)
def _directions(size: int) -> NDArray[np.float64]:
    directions: NDArray[np.float64] = np.random.default_rng(size).normal(0.0, max(size, 1) ** -0.5, size=(PROJECTIONS, size))
    return directions


def feed(hash: Any, value: Any) -> None:
    """Put nested arguments into a hash, the same for the same values."""
    if kind_of(value):
        hash.update(repr(part_of(value).form).encode())
        if kind_of(value) == "array" or value.device.type != "meta":
            array = value if kind_of(value) == "array" else value.detach().cpu().double().numpy()
            hash.update(np.ascontiguousarray(array).tobytes())
    elif isinstance(value, tuple | list):
        hash.update(b"(")
        for item in value:
            feed(hash, item)
        hash.update(b")")
    elif isinstance(value, dict):
        for key, item in value.items():
            hash.update(str(key).encode())
            feed(hash, item)
    elif is_module(value):
        hash.update(str(twins.name_of(value)).encode())
    elif isinstance(value, np.random.Generator):
        hash.update(repr(value.bit_generator.state).encode())
    else:
        hash.update(repr(value).encode())
