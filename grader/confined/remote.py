"""What a check holds instead of a student's module, function, class or object. It can't tell the difference."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runner import Confined


@dataclass(frozen=True)
class Answer:
    """What a call gave: a value, or the description of an object; and what its gradients can be asked with."""

    value: Any
    made: Any
    generation: int
    token: Any
    given: Sequence[Any]  # tensors of the value that have a gradient
    wanted: Sequence[Any]  # tensors of the question that want one


@dataclass(frozen=True)
class Place:
    """Where something of a student's is: a module, or an object (`thing`). Copies of a mirror share it."""

    confined: Confined
    module: str  # of an object: its class
    exercise: str
    thing: tuple[int, int] | None = None

    def __deepcopy__(self, memo: Any) -> Place:
        return self

    def answer(self, name: str, args: Any, kwargs: Any, **state: Any) -> Answer:
        to = {"thing": self.thing, "state": None, "training": False, **state}
        return self.confined.call(self.module, name, args, kwargs, self.exercise, **to)

    def call(self, name: str, args: Any, kwargs: Any, **state: Any) -> Any:
        return with_gradients(self, self.answer(name, args, kwargs, **state), name)

    def ask(self, op: str, name: str, **more: Any) -> Mapping[str, Any]:
        message = {"op": op, "name": name, **more}
        label = f"{self.module}.{name}"
        return self.confined.ask(message, label, self.exercise, self.module, self.thing)[1].message


class RemoteModule:
    """A student's module. Its attributes are their functions and classes; what is missing is told when it is called."""

    def __init__(self, confined: Confined, name: str, exercise: str) -> None:
        self.__name__ = name
        self._place = Place(confined, name, exercise)

    def __getattr__(self, name: str) -> Remote:
        if name.startswith("__"):
            raise AttributeError(name)
        return Remote(self._place, name)


class Remote:
    """A function or a class: calling it calls the student's."""

    def __init__(self, place: Place, name: str) -> None:
        self.__name__ = name
        self._place = place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        place, answer = self._place, self._place.answer(self.__name__, args, kwargs)
        if answer.made is None:
            return with_gradients(place, answer, self.__name__)
        with place.confined.checking(self.__name__):
            thing = Place(place.confined, self.__name__, place.exercise, (answer.generation, answer.made["id"]))
            return RemoteObject(thing) if answer.made["state"] is None else mirror(thing, answer.made)


class RemoteObject:
    """An object of a student's class that is no torch module: its data can be read and set, its methods called."""

    def __init__(self, place: Place) -> None:
        """What is set goes with the next question; arrays that came with an answer are not asked for."""
        vars(self).update(_place=place, _set={}, _came={})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._came:
            return self._came.pop(name)
        reply = self._place.ask("getattr", name, **self._news())
        if reply.get("callable") is True:
            return lambda *args, **kwargs: self._place.call(name, args, kwargs, **self._news())
        with self._place.confined.checking(name):
            self._came.update(reply.get("beside") or {})
        return reply.get("value")

    def __setattr__(self, name: str, value: Any) -> None:
        self._set[name] = value
        self._came.pop(name, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._place.call("__call__", args, kwargs, **self._news())

    def _news(self) -> dict[str, Any]:
        """What the object must hear with the next question."""
        news = {"set": dict(self._set)} if self._set else {}
        self._set.clear()
        self._came.clear()
        return news


def mirror(place: Place, made: Mapping[str, Any]) -> Any:
    """A torch module with the parameters of the student's, under the same names, whose forward runs over there."""
    nn = sys.modules["torch"].nn
    if any(tensor.device.type != "cpu" for tensor in (*made["state"].values(), *made["buffers"].values())):
        raise TypeError("a parameter has no values")

    class Mirror(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return place.call("forward", args, kwargs, state=dict(self.named_parameters()), training=self.training)

    module = Mirror()
    for name, tensor in made["state"].items():
        parameter = nn.Parameter(tensor.detach().clone(), requires_grad=tensor.requires_grad)
        _owner(module, name, nn).register_parameter(name.rpartition(".")[2], parameter)
    for name, tensor in made["buffers"].items():
        _owner(module, name, nn).register_buffer(name.rpartition(".")[2], tensor.detach().clone())
    Mirror.__name__ = Mirror.__qualname__ = place.module
    return module.train(made["training"] is True)


def _owner(module: Any, name: str, nn: Any) -> Any:
    """The submodule that holds a dotted name, made on the way."""
    for part in name.split(".")[:-1]:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    return module


def with_gradients(place: Place, answer: Answer, name: str) -> Any:
    """The value of an answer, its tensors tied to the question's: backward asks the student's process for gradients."""
    if not answer.wanted or not answer.given or answer.token is None:
        return answer.value
    autograd = sys.modules["torch"].autograd

    class Call(autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, outputs: list[Any], *_: Any) -> tuple[Any, ...]:
            ctx.set_materialize_grads(False)
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            held = Place(place.confined, place.module, place.exercise, (answer.generation, 0))
            message = held.ask("gradient", f"{name}.backward", token=answer.token, grads=list(grads))
            with place.confined.checking(name):
                return None, *_checked(message["value"], answer.wanted)

    tied = Call.apply([tensor.detach() for tensor in answer.given], *answer.wanted)
    return _replace(answer.value, {id(old): new for old, new in zip(answer.given, tied, strict=True)})


def _checked(found: Any, wanted: Sequence[Any]) -> list[Any]:
    """Gradients that autograd can take. Raises TypeError for others."""
    if not isinstance(found, list) or len(found) != len(wanted):
        raise TypeError("gradients of other tensors")
    for grad, tensor in zip(found, wanted, strict=True):
        if grad is not None and (grad.shape, grad.dtype, grad.device) != (tensor.shape, tensor.dtype, tensor.device):
            raise TypeError("a gradient of another shape, dtype or device")
    return [None if grad is None else grad.detach() for grad in found]


def _replace(value: Any, tied: Mapping[int, Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_replace(item, tied) for item in value)
    if isinstance(value, dict):
        return {key: _replace(item, tied) for key, item in value.items()}
    return tied.get(id(value), value)
