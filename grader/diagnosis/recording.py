"""The calls that checks made of a student's code, with what was seen of each: enough to replay them on something else."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import operator
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..confined.chance import seeded
from ..confined.remote import RemoteObject
from ..trouble import Trouble
from .kept import Kept, alike, duplicate
from .seen import Seen, attributes_of, feed, gradients_of, is_module, kind_of, leaves, models, numbers_in, parts_of, same

ATTRIBUTES = "its attributes"  # in place of a method: what was made is looked at


@dataclass(frozen=True, eq=False)
class Call:
    """One call: of a function, of a class (`method` is empty), or of a method of an instance `made` with these arguments.

    Where the method is ATTRIBUTES, the arguments are the names that were read.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    method: str = ""
    made: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
    state: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False
    seen: Seen = field(default_factory=Seen)
    answer: Any = None
    turn: int = 1  # how often this very call was made
    earlier: tuple[Call, ...] = ()  # calls of the same instance
    modes: tuple[bool, ...] = ()  # whether the models among the arguments are in training
    results: frozenset[int] = frozenset()  # arrays among the arguments that an earlier call gave, such as a cache

    def but(self, **changes: Any) -> Call:
        """The same call, otherwise seen or in another turn."""
        other = replace(self, **changes)
        vars(other)["given"] = self.given  # it is most of what recording costs
        return other

    @property
    def looked_at(self) -> Call:
        """The call with its answer taken apart, which a recorder of copies leaves for later."""
        if self.seen.error or self.seen.parts or self.method == ATTRIBUTES:
            return self
        return self.but(seen=replace(self.seen, parts=tuple(parts_of(self.answer))))

    @functools.cached_property
    def instances(self) -> dict[Any, Any]:
        """Instances for this call, by the function that initialised them, and their attributes: recipes are replayed on these."""
        before = self.earlier[-1] if self.earlier else None
        return before.instances if before and before.state is self.state and before.training is self.training else {}

    @functools.cached_property
    def kept(self) -> Kept | None:
        """What right parts answer in this call, for variants that differ in others; only where tensors are, which cost most."""
        tensors = [leaf for leaf in leaves((self.args, dict(self.kwargs))) if kind_of(leaf) == "tensor"]
        return Kept(*_arguments(self)) if tensors and not self.modes else None

    @functools.cached_property
    def cost(self) -> tuple[bool, int, int]:
        """What a replay costs, to compare: gradients, then how many arguments and numbers there are."""
        given = leaves((self.args, dict(self.kwargs), dict(self.state)))
        weights = sum(parameter.numel() for model in models(given) for parameter in model.parameters())
        return any(self.asked), len(given), numbers_in(given) + weights

    @functools.cached_property
    def asked(self) -> tuple[bool, ...]:
        """Of which arrays among the arguments gradients are looked at."""
        arrays = enumerate(leaf for leaf in leaves((self.args, dict(self.kwargs))) if kind_of(leaf))
        return tuple(getattr(leaf, "requires_grad", False) and place not in self.results for place, leaf in arrays)

    @functools.cached_property
    def given(self) -> bytes:
        """The same for the same call of anything, whichever turn it is: what was seen is left out."""
        made = hashlib.sha256(f"{self.function}.{self.method} {self.training} {self.modes} {sorted(self.results)}".encode())
        feed(made, (self.args, dict(self.kwargs), self.made, dict(self.state)))
        return made.digest()

    @functools.cached_property
    def digest(self) -> bytes:
        """The same for the same turn of the same call."""
        return hashlib.sha256(self.given + str(self.turn).encode()).digest()

    @property
    def seed(self) -> int:
        """What random numbers are drawn from during the call."""
        return int.from_bytes(self.digest[:6], "big")


def replay(
    call: Call, target: Callable[..., Any], *, back: bool = True, shared: bool = False, luck: int = 0, kept: Kept | None = None
) -> Seen:
    """What `target` (a function or class like the one recorded) gives on the same call, and `back`, its gradients.

    `shared` is for the course's own classes: equal instances are made only once a call, and right parts may answer from what
    is `kept`. Other `luck` draws other random numbers.
    """
    args, kwargs = kept.given if kept else _arguments(call)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        method = target
        if call.method:
            try:
                made = _shared(call, target) if shared else _instance(call, target)
                if call.method == ATTRIBUTES:
                    return attributes_of({name: getattr(made, name) for name in args})
                if getattr(target, "remembers", False):  # see `instead_of`
                    _relive(made, call.earlier)
                method = getattr(made, call.method)
            except Exception as error:
                return Seen(_kind_of(error))
        with seeded(call.seed + luck), kept.used(substitutes=not back) if kept else contextlib.nullcontext():
            answer, seen, _ = observe(call, method, args, kwargs, back)
        if kept and kept.spoilt:
            del vars(call)["kept"]
            return replay(call, target, back=back, shared=shared)
        looks = kept.looks_at(answer) if kept else None
        return seen if seen.error else replace(seen, parts=tuple(parts_of(answer, looks)))


def _arguments(call: Call) -> Any:
    """Copies of a call's arguments; models can't be copied, but are in the mode again in which they were."""
    copies = duplicate((call.args, dict(call.kwargs)))
    for model, training in zip(models(copies), call.modes, strict=True):
        model.train(training)
    return copies


def replayed(call: Call, target: Callable[..., Any]) -> Any:
    """The answer of a function itself; None when it raises."""
    args, kwargs = _arguments(call)
    with warnings.catch_warnings(), np.errstate(all="ignore"), seeded(call.seed), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        return target(*args, **kwargs)
    return None


def observe(
    call: Call, target: Callable[..., Any], args: Any, kwargs: Any, back: bool = True
) -> tuple[Any, Seen, BaseException | None]:
    """Call `target` with copies of a call's arguments: its answer or None, what was seen beside that, its error or None."""
    try:
        answer = target(*args, **kwargs)
    except Exception as error:
        trouble = getattr(error, "trouble", None)
        if isinstance(trouble, Trouble) and trouble.kind != "raised":
            return None, Seen(trouble.kind), error
        return None, Seen(_kind_of(error), tuple(re.findall(r"\d+", str(error)))), error
    given = leaves((args, dict(kwargs)))
    pairs = [pair for pair in zip(leaves((call.args, dict(call.kwargs))), given, strict=False) if kind_of(pair[0])]
    modes = [model.training for model in models(given)]
    changed = (*(not same(old, new) for old, new in pairs), *map(operator.ne, call.modes, modes))
    wanted = [new for (_, new), asked in zip(pairs, call.asked, strict=False) if asked and back]
    return answer, Seen(changed=changed, gradients=tuple(gradients_of(answer, wanted))), None


def _kind_of(error: Exception) -> str:
    """The built-in class of an error, which is all that crosses the wall."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _instance(call: Call, cls: Callable[..., Any]) -> Any:
    args, kwargs = duplicate(call.made)
    made = cls(*args, **kwargs)
    if is_module(made):
        dtype = next((tensor.dtype for tensor in call.state.values() if tensor.is_floating_point()), None)
        if dtype is not None and any(tensor.dtype != dtype for tensor in (*made.parameters(), *made.buffers())):
            made.to(dtype)
        made.load_state_dict(call.state, strict=False)
        made.train(call.training)
    else:
        for name, value in duplicate(dict(call.state)).items():
            setattr(made, name, value)
    return made


def _relive(made: Any, calls: tuple[Call, ...]) -> None:
    """Make the calls that an instance has already had."""
    for call in calls:
        args, kwargs = duplicate((call.args, dict(call.kwargs)))
        with contextlib.suppress(Exception):
            getattr(made, call.method)(*args, **kwargs)


def _shared(call: Call, cls: Any) -> Any:
    if not inspect.isclass(cls):
        return _instance(call, cls)
    if cls.__init__ not in call.instances:
        made = _instance(call, cls)
        call.instances[cls.__init__] = made, dict(vars(made))
    made, attributes = call.instances[cls.__init__]
    made.__class__ = cls
    vars(made).clear()  # the last one may have set others
    vars(made).update(attributes)
    return made


class Recorder:
    """Stands before a student's module and keeps every call that goes through; answers and errors pass unchanged.

    Answers that are `copies`, which nothing changes later, are looked at only when somebody asks for the mistake.
    """

    def __init__(self, module: Any, calls: list[Call], copies: bool = False) -> None:
        self._module, self._calls, self._copies = module, calls, copies
        self._turns: Counter[bytes] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return functools.partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        kept = duplicate((args, kwargs))
        modes = tuple(bool(model.training) for model in models((args, kwargs)))
        answer = self._observed(Call(name, kept[0], kept[1], modes=modes), target, args, kwargs)
        if is_module(answer):
            method = self._of(name, kept, answer)
            forward = answer.forward
            answer.forward = lambda *args, **kwargs: method("forward", forward, args, kwargs)
        elif inspect.isclass(target) or isinstance(answer, RemoteObject):
            return RecordedInstance(answer, functools.partial(self._read, name, kept), functools.partial(self._of, name, kept))
        return answer

    def _read(self, name: str, made: Any, attributes: Mapping[str, Any]) -> None:
        self._calls.append(Call(name, tuple(attributes), {}, ATTRIBUTES, made, seen=attributes_of(attributes)))

    def _of(self, name: str, made: Any, owner: Any) -> Callable[..., Any]:
        """What keeps the calls of an instance's methods."""
        earlier: list[Call] = []

        def method(method: str, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            state, training = (owner.state_dict(), bool(owner.training)) if is_module(owner) else (owner._state, False)
            kept, state = duplicate((args, kwargs)), dict(state)
            known = earlier[-1].state if earlier else {}
            state = known if alike([*known.items()], [*state.items()]) else duplicate(state)
            arrays = enumerate(leaf for leaf in leaves((args, kwargs)) if kind_of(leaf))
            results = frozenset(place for place, leaf in arrays if not getattr(leaf, "is_leaf", True))
            call = Call(name, kept[0], kept[1], method, made, state, training, earlier=tuple(earlier), results=results)
            earlier.append(call)
            return self._observed(call, target, args, kwargs)

        return method

    def _observed(self, call: Call, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make the call and keep it. Equal calls draw different random numbers, but the same in every run."""
        self._turns[call.given] += 1
        call = call.but(turn=self._turns[call.given])
        with seeded(call.seed):
            answer, seen, error = observe(call, target, args, kwargs)
        kept = call.but(seen=seen, answer=answer)
        self._calls.append(kept if self._copies else kept.looked_at)
        if error is not None:
            raise error
        return answer


class RecordedInstance:
    """An instance of a plain class: attributes can be read and set as on the instance itself, and calls are kept."""

    def __init__(self, instance: Any, read: Callable[[Mapping[str, Any]], None], of: Callable[[Any], Callable[..., Any]]) -> None:
        vars(self).update(_instance=instance, _read=read, _state={}, _own={}, _method=of(self))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._instance, name)
        if callable(found):
            return lambda *args, **kwargs: self._method(name, found, args, kwargs)
        if name not in self._state:  # nobody has set it
            self._own[name] = found
            self._read(self._own)
        self._state[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._instance, name, value)
        self._state[name] = value
