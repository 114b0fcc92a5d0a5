"""One wrong call of a student's code, with what is due there, as the properties look at it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checks import torch
from grader.diagnosis.kept import duplicate
from grader.diagnosis.recording import Call
from grader.trouble import Stopped

Arrays = dict[str, Any]  # by name; numbers are float64, masks bool
Found = Iterator[tuple[str, str, str]]
SLACK = {"float32": 3e-4, "float16": 3e-2, "bfloat16": 1e-1}  # relative to the largest number that is due
MATRICES = ("W_Q", "W_K", "W_V", "W_O")


@dataclass(frozen=True)
class Subject:
    arguments: tuple[str, ...]
    labels: tuple[str, ...]  # of the arrays that the student gives back; `due` may know more
    due: Callable[[Arrays], Arrays]


@dataclass(frozen=True, eq=False)
class Case:
    subject: Subject
    call: Call
    student: Callable[..., Any]
    only: set[str] = field(default_factory=set)  # the keys that are still of interest, where not all are

    @functools.cached_property
    def native(self) -> Arrays:
        return {**dict(zip(self.subject.arguments, self.call.args, strict=False)), **self.call.kwargs}

    @functools.cached_property
    def dtype(self) -> str:
        return next((dtype_of(x) for x in leaves([*self.native.values()]) if dtype_of(x) not in ("", "bool")), "")

    @functools.cached_property
    def given(self) -> Arrays:
        state = {name: numbers(x) for name, x in self.call.state.items()}
        state = {name.removesuffix(".weight"): x.T if name.endswith(".weight") else x for name, x in state.items()}
        made = dict(zip(("d_model", "num_heads", "dropout"), self.call.made[0], strict=False)) | dict(self.call.made[1])
        cache = {"cache": None} if "cache" in self.subject.arguments else {}
        return {**made, **state, **cache, **{name: numbers(x) for name, x in self.native.items()}}

    @functools.cached_property
    def due(self) -> Arrays:
        return self.subject.due(self.given)

    @functools.cached_property
    def got(self) -> Arrays:
        return self.read(self.call.answer)

    @functools.cached_property
    def weights(self) -> Any:
        """The student's weights, if they have the right shape. A function that keeps them shows them when v is the identity."""
        weights = self.got.get("weights")
        if "v" in self.given and "weights" not in self.got:
            shape = self.given["v"].shape
            weights = self.ask(v=np.broadcast_to(np.eye(shape[-2]), (*shape[:-1], shape[-2]))).get("output")
        return weights if weights is not None and weights.shape == self.due["weights"].shape else None

    @functools.cached_property
    def cut_off(self) -> list[str]:
        """Inputs that asked for a gradient and got none."""
        wanted = [name for name, x in self.native.items() if getattr(x, "requires_grad", False)]
        if not wanted or not getattr(leaves(self.call.answer)[0], "requires_grad", False):
            return wanted
        return [name for name, part in zip(wanted, self.call.seen.gradients, strict=True) if part.form == ("no gradient",)]

    @functools.cached_property
    def faults(self) -> set[str]:
        """What is wrong: "form" is a shape or dtype, "values" are finite numbers."""
        pairs = [(self.got[label], self.due[label]) for label in self.subject.labels]
        alike = all(got.shape == due.shape for got, due in pairs)
        faults = {
            "changed": any(self.call.seen.changed),
            "gradient": bool(self.cut_off),
            "form": not alike or ("float" in self.dtype and {dtype_of(x) for x in leaves(self.call.answer)} != {self.dtype}),
            "not finite": not all(np.isfinite(got).all() for got, _ in pairs),
            "values": alike and not all(self.near(np.where(np.isfinite(got), got, due), due) for got, due in pairs),
        }
        return {fault for fault, there in faults.items() if there}

    def alike(self, label: str) -> bool:
        """Whether an answer has the shape that is due. One that has not may have millions of numbers."""
        return bool(self.got[label].shape == self.due[label].shape)

    @property
    def slack(self) -> float:
        return SLACK.get(self.dtype, 1e-8)

    def near(self, got: Any, due: Any) -> bool:
        return got.shape == due.shape and bool((abs(got - due) <= self.slack * max(1.0, abs(due).max(initial=0))).all())

    def fits(self, got: Arrays, due: Arrays) -> bool:
        return bool(got) and all(self.near(got[label], due[label]) for label in self.subject.labels)

    def read(self, answer: Any) -> Arrays:
        arrays = [numbers(x) for x in leaves(answer)]
        several = isinstance(answer, tuple | list)
        if len(arrays) != len(self.subject.labels) or several != (len(arrays) > 1):
            return {}
        if not all(isinstance(x, np.ndarray) for x in arrays):
            return {}
        return {label: x.astype(np.float64) for label, x in zip(self.subject.labels, arrays, strict=True)}

    def ask(self, **changes: Any) -> Arrays:
        """What the student answers when asked the same in float64 and with these changes; nothing when that raises."""
        make = torch.tensor if any("torch" in type(x).__module__ for x in leaves([*self.native.values()])) else np.array
        new = {name: {**self.given, **changes}[name] for name in self.subject.arguments if name in {**self.native, **changes}}
        new = {name: each(x, lambda x: make(np.ascontiguousarray(x))) for name, x in new.items()}
        try:
            first = [new.pop(name) for name in self.subject.arguments[: len(self.call.args)]]
            return self.read(self.ready({name: changes[name] for name in MATRICES if name in changes})(*first, **new))
        except Stopped:
            raise
        except Exception:
            return {}

    def ready(self, changes: Arrays) -> Callable[..., Any]:
        """What to call: the student's function, or a method of a fresh object with the call's matrices."""
        if not self.call.method:
            return self.student
        made = self.student(*duplicate(self.call.made[0]), **duplicate(dict(self.call.made[1])))
        matrices = {**{name: self.given[name] for name in MATRICES}, **changes}
        if hasattr(made, "load_state_dict"):
            made.double().train(self.call.training)
            made.load_state_dict({f"{name}.weight": torch.tensor(x.T) for name, x in matrices.items()}, strict=False)
        else:
            _ = [setattr(made, name, x.copy()) for name, x in matrices.items()]
        return getattr(made, self.call.method)

    def right(self, **changes: Any) -> bool:
        return self.fits(self.ask(**changes), self.subject.due({**self.given, **changes}))


def leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, tuple | list) else [x]


def each(x: Any, make: Callable[[Any], Any]) -> Any:
    return tuple(each(item, make) for item in x) if isinstance(x, tuple) else make(x) if isinstance(x, np.ndarray) else x


def dtype_of(x: Any) -> str:
    return str(getattr(x, "dtype", "")).removeprefix("torch.")


def numbers(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return tuple(numbers(item) for item in x)
    if "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor):
        x = (x if dtype_of(x) == "bool" else x.detach().double()).numpy(force=True)
    return x if not isinstance(x, np.ndarray) or x.dtype == bool else x.astype(np.float64)
