"""The calls that checks made of a student's code, with what was seen of each: enough to replay them on something else."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .remote import RemoteObject
from .trouble import Trouble

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

    @property
    def form(self) -> tuple[Any, ...]:
        """What it is apart from its numbers."""
        return (self.error, self.changed, *(part.form for part in self.parts))

    def fulfils(self, due: Seen) -> bool:
        """As right as `due`: an error may be told in other words, but with no number less."""
        return replace(self, numbers=due.numbers).matches(due) and set(due.numbers) <= set(self.numbers)

    def matches(self, other: Seen) -> bool:
        """The same in everything that a student could be told about."""
        return (
            self.numbers == other.numbers
            and (self.error, self.changed, len(self.parts)) == (other.error, other.changed, len(other.parts))
            and all(mine.matches(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True))
        )


@dataclass(frozen=True, eq=False)
class Call:
    """One call: of a function, of a class (`method` is empty), or of a method of an instance `made` with these arguments."""

    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    method: str = ""
    made: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
    state: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False
    seen: Seen = field(default_factory=Seen)
    answer: Any = None

    @functools.cached_property
    def digest(self) -> bytes:
        """The same for the same call of anything: what was seen is left out."""
        made = hashlib.sha256(f"{self.function}.{self.method} {self.training}".encode())
        _feed(made, (self.args, dict(self.kwargs), self.made, dict(self.state)))
        return made.digest()


def replay(call: Call, target: Callable[..., Any]) -> Seen:
    """What `target` (a function or class like the one recorded) gives on the same call."""
    args, kwargs = duplicate((call.args, dict(call.kwargs)))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if call.method:
            try:
                target = getattr(_instance(call, target), call.method)
            except Exception as error:
                return Seen(_kind_of(error))
        return observe(target, args, kwargs)[1]


def observe(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, Seen, BaseException | None]:
    """Call `target`; give its answer (or None), what was seen, and its error (or None)."""
    before = duplicate((args, dict(kwargs)))
    try:
        answer = target(*args, **kwargs)
    except Exception as error:
        trouble = getattr(error, "trouble", None)
        if isinstance(trouble, Trouble) and trouble.kind != "raised":
            return None, Seen(trouble.kind), error
        return None, Seen(_kind_of(error), tuple(re.findall(r"\d+", str(error)))), error
    pairs = zip(leaves(before), leaves((args, dict(kwargs))), strict=False)
    changed = tuple(not _part(old).matches(_part(new)) for old, new in pairs if _kind(old))
    return answer, Seen("", (), (*_parts(answer), *_gradients(answer, leaves((args, dict(kwargs))))), changed), None


def _kind_of(error: Exception) -> str:
    """The built-in class of an error, which is all that crosses the wall."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def duplicate(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A copy of nested arguments that later changes can't reach; strides, requires_grad and what is the same object stay."""
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = _duplicate(value, memo)
    return memo[id(value)]


def _duplicate(value: Any, memo: dict[int, Any]) -> Any:
    kind = _kind(value)
    if kind == "tensor":
        if value.device.type == "meta":
            return value
        return value.detach()[_dense(value.stride())].clone().expand(value.shape).requires_grad_(value.requires_grad)
    if kind == "array":
        dense = value[_dense(value.strides)].copy(order="K")
        return dense if dense.shape == value.shape else np.broadcast_to(dense, value.shape)
    if isinstance(value, tuple | list):
        return type(value)(duplicate(item, memo) for item in value)
    if isinstance(value, dict):
        return {key: duplicate(item, memo) for key, item in value.items()}
    return copy.deepcopy(value) if isinstance(value, np.random.Generator) else value


def _dense(strides: tuple[int, ...]) -> tuple[slice, ...]:
    """Of axes that an expanded array only repeats, the first."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)


def _instance(call: Call, cls: Callable[..., Any]) -> Any:
    args, kwargs = duplicate(call.made)
    made = cls(*args, **kwargs)
    if _is_module(made):
        tensors = list(call.state.values())
        if tensors:
            made.to(tensors[0].dtype)
        made.load_state_dict(call.state, strict=False)
        made.train(call.training)
    else:
        for name, value in duplicate(dict(call.state)).items():
            setattr(made, name, value)
    return made


def leaves(value: Any) -> list[Any]:
    """What nested arguments hold, in order."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def _parts(answer: Any) -> Iterator[Part]:
    """The parts of an answer; a list and a tuple are the same sequence."""
    if not isinstance(answer, tuple | list | dict):
        yield _part(answer)
        return
    yield Part(("dict", *answer) if isinstance(answer, dict) else ("sequence", len(answer)))
    for item in answer.values() if isinstance(answer, dict) else answer:
        yield from _parts(item)


def _gradients(answer: Any, inputs: list[Any]) -> Iterator[Part]:
    """What flows back from an answer, in one fixed direction, to each input that wants it."""
    wanted = [leaf for leaf in inputs if _kind(leaf) == "tensor" and leaf.requires_grad]
    given = [leaf for leaf in leaves(answer) if _kind(leaf) == "tensor" and leaf.requires_grad]
    if not wanted or not given:
        return
    torch = sys.modules["torch"]
    back = [torch.as_tensor(_directions(leaf.numel())[0]).reshape(leaf.shape).to(leaf) for leaf in given]
    try:
        found = torch.autograd.grad(given, wanted, back, retain_graph=True, allow_unused=True)
    except Exception as error:
        yield Part(("no gradient", type(error).__name__))
        return
    yield from (Part(("no gradient",)) if gradient is None else _part(gradient) for gradient in found)


def _kind(value: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "tensor"
    return "array" if isinstance(value, np.ndarray) else ""


def _is_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _part(value: Any) -> Part:
    kind = _kind(value)
    if kind == "tensor":
        dtype, form = (
            str(value.dtype).removeprefix("torch."),
            ("tensor", str(value.dtype), str(value.device), tuple(value.shape), value.requires_grad),
        )
        return Part(form) if value.device.type == "meta" else _numbers(form, value.detach().to("cpu").double().numpy(), dtype)
    if kind == "array":
        form = ("array", str(value.dtype), "cpu", tuple(value.shape), False)
        return _numbers(form, value.astype(np.float64), value.dtype.name) if value.dtype.kind in "fiub" else Part(form)
    if isinstance(value, bool | int | str | None) or value is None:
        return Part((type(value).__name__, value))
    if isinstance(value, float | np.number | np.bool_):
        return _numbers((type(value).__name__,), np.asarray(value, dtype=np.float64), "float64")
    if _is_module(value):
        parameters = tuple((name, tuple(item.shape)) for name, item in value.named_parameters())
        return Part(("module", parameters, tuple(value.state_dict())))
    return Part(("other",))


def _numbers(form: tuple[Any, ...], values: NDArray[np.float64], dtype: str) -> Part:
    flat = values.reshape(-1)
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


def _feed(hash: Any, value: Any) -> None:
    if _kind(value):
        hash.update(repr(_part(value).form).encode())
        if _kind(value) == "array" or value.device.type != "meta":
            array = value if _kind(value) == "array" else value.detach().cpu().double().numpy()
            hash.update(np.ascontiguousarray(array).tobytes())
    elif isinstance(value, tuple | list):
        hash.update(b"(")
        for item in value:
            _feed(hash, item)
        hash.update(b")")
    elif isinstance(value, dict):
        for key, item in value.items():
            hash.update(str(key).encode())
            _feed(hash, item)
    elif isinstance(value, np.random.Generator):
        hash.update(repr(value.bit_generator.state).encode())
    else:
        hash.update(repr(value).encode())


class Recorder:
    """Stands before a student's module and keeps every call that goes through; answers and errors pass unchanged."""

    def __init__(self, module: Any, calls: list[Call]) -> None:
        self._module, self._calls = module, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return functools.partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        kept = duplicate((args, kwargs))
        answer, seen, error = observe(target, args, kwargs)
        self._calls.append(Call(name, kept[0], kept[1], seen=seen, answer=answer))
        if error is not None:
            raise error
        if _is_module(answer):
            forward = answer.forward
            answer.forward = lambda *args, **kwargs: self._method(name, kept, answer, "forward", forward, args, kwargs)
        elif inspect.isclass(target) or isinstance(answer, RemoteObject):
            return RecordedInstance(answer, lambda *rest: self._method(name, kept, *rest))
        return answer

    def _method(self, name: str, made: Any, owner: Any, method: str, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        state = owner.state_dict() if _is_module(owner) else owner._state
        kept, state = duplicate((args, kwargs)), duplicate(dict(state))
        answer, seen, error = observe(target, args, kwargs)
        training = bool(getattr(owner, "training", False)) if _is_module(owner) else False
        self._calls.append(
            Call(name, kept[0], kept[1], method=method, made=made, state=state, training=training, seen=seen, answer=answer)
        )
        if error is not None:
            raise error
        return answer


class RecordedInstance:
    """An instance of a plain class: attributes can be read and set as on the instance itself, and calls are kept."""

    def __init__(self, instance: Any, method: Callable[..., Any]) -> None:
        vars(self).update(_instance=instance, _method=method, _state={})

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._instance, name)
        if callable(found):
            return lambda *args, **kwargs: self._method(self, name, found, args, kwargs)
        self._state[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._instance, name, value)
        self._state[name] = value
