"""The calls that checks made of a student's code, with what was seen of each: enough to replay them on something else."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .remote import RemoteObject
from .seen import Seen, feed, gradients_of, is_module, kind_of, leaves, part_of, parts_of
from .trouble import Trouble


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
        feed(made, (self.args, dict(self.kwargs), self.made, dict(self.state)))
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
    changed = tuple(not part_of(old).matches(part_of(new)) for old, new in pairs if kind_of(old))
    return answer, Seen("", (), (*parts_of(answer), *gradients_of(answer, leaves((args, dict(kwargs))))), changed), None


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
    kind = kind_of(value)
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
    if is_module(made):
        tensors = list(call.state.values())
        if tensors:
            made.to(tensors[0].dtype)
        made.load_state_dict(call.state, strict=False)
        made.train(call.training)
    else:
        for name, value in duplicate(dict(call.state)).items():
            setattr(made, name, value)
    return made


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
        if is_module(answer):
            forward = answer.forward
            answer.forward = lambda *args, **kwargs: self._method(name, kept, answer, "forward", forward, args, kwargs)
        elif inspect.isclass(target) or isinstance(answer, RemoteObject):
            return RecordedInstance(answer, lambda *rest: self._method(name, kept, *rest))
        return answer

    def _method(self, name: str, made: Any, owner: Any, method: str, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        state = owner.state_dict() if is_module(owner) else owner._state
        kept, state = duplicate((args, kwargs)), duplicate(dict(state))
        answer, seen, error = observe(target, args, kwargs)
        training = bool(getattr(owner, "training", False)) if is_module(owner) else False
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
