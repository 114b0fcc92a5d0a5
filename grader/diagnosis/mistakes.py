"""Mistakes as data: a recipe is a right exercise with slots, a mistake goes into a slot, and variants are made by recursion."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..report import Mistake
from .kept import Slot

Function = TypeVar("Function", bound=Callable[..., Any])
_REGISTERED: dict[Callable[..., Any], list[Wrong]] = {}


@dataclass(frozen=True)
class Wrong:
    """A wrong part, and the modules it is meant for (all of them when `only` is empty)."""

    part: Callable[..., Any]
    only: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A recipe with wrong parts: what to call, and which mistakes are in it (one, or two for a pair)."""

    call: Callable[..., Any]
    mistakes: tuple[Mistake, ...]
    slots: tuple[str, ...]

    @functools.cached_property
    def name(self) -> str:
        return "+".join(mistake.name for mistake in self.mistakes)


def instead_of(
    right: Callable[..., Any], *, only: str | tuple[str, ...] = (), remembers: bool = False
) -> Callable[[Function], Function]:
    """Register the decorated function (or class) as what some students write instead of `right`.

    Its name is the mistake's name; its docstring's first line says what is wrong, and a paragraph `Hint:` leads on.
    A method that `remembers` is replayed on an instance that has had the calls before, as the student's had.
    """

    def register(part: Function) -> Function:
        if remembers:
            vars(part)["remembers"] = True
        _REGISTERED.setdefault(right, []).append(Wrong(part, (only,) if isinstance(only, str) else only))
        return part

    return register


@functools.cache
def described(part: Callable[..., Any]) -> Mistake:
    """The mistake that a registered function's name and docstring tell. Raises ValueError when the docstring lacks a part."""
    text, _, hint = inspect.cleandoc(part.__doc__ or "").partition("Hint:")
    if not text.strip() or not hint.strip():
        raise ValueError(f"{part.__module__}.{part.__name__}: the docstring needs a line of text and a paragraph 'Hint:'")
    return Mistake(part.__name__, " ".join(text.split()), " ".join(hint.split()))


def singles(recipe: Callable[..., Any], module: str) -> Iterator[Variant]:
    """Every variant of `recipe` with one wrong part, in its own slots or in those of its parts."""
    for wrong in _REGISTERED.get(recipe, []):
        if not wrong.only or module in wrong.only:
            yield Variant(wrong.part, (described(wrong.part),), ("",))
    yield from _inside(singles, recipe, module)


def pairs(recipe: Callable[..., Any], module: str) -> Iterator[Variant]:
    """Every variant with two wrong parts in different slots."""
    yield from _inside(pairs, recipe, module)  # both wrong parts inside one slot
    slots = _slots(recipe).items()
    wrong = [[(slot, it.mistakes, Slot(part, it.call, wrong=True)) for it in singles(part, module)] for slot, part in slots]
    for firsts, seconds in itertools.combinations(wrong, 2):
        for (slot, mistakes, part), (other, others, other_part) in itertools.product(firsts, seconds):
            call = functools.partial(whole(recipe), **{slot: part, other: other_part})
            yield Variant(call, mistakes + others, (slot, other))


def _inside(variants: Callable[..., Iterator[Variant]], recipe: Callable[..., Any], module: str) -> Iterator[Variant]:
    """`recipe` with each of its methods or slots in turn as one of the `variants` of what is there."""
    methods = _methods(recipe) if inspect.isclass(recipe) else {}
    for name, part in {**methods, **_slots(recipe)}.items():
        for variant in variants(part, module):
            slot = {} if methods else {name: Slot(part, variant.call, wrong=True)}
            call = _with_method(whole(recipe), name, variant.call) if methods else functools.partial(whole(recipe), **slot)
            yield Variant(call, variant.mistakes, tuple(f"{name}.{deep}" for deep in variant.slots))


@functools.cache
def whole(recipe: Callable[..., Any]) -> Callable[..., Any]:
    """`recipe` with nothing wrong, as its variants are made: what its parts answer can be kept."""
    if inspect.isclass(recipe):
        for name, method in _methods(recipe).items():
            recipe = _with_method(recipe, name, whole(method)) if _slots(method) else recipe
        return recipe
    slots = {slot: Slot(part, whole(part)) for slot, part in _slots(recipe).items()}
    return functools.partial(recipe, **slots) if slots else recipe


def grafted(recipe: Callable[..., Any], own: Mapping[Callable[..., Any], Callable[..., Any]]) -> Callable[..., Any]:
    """`recipe` with every slot, at any depth, whose part is a key of `own` filled with its value; itself where there is none."""
    if inspect.isclass(recipe):
        methods = {name: (method, grafted(method, own)) for name, method in _methods(recipe).items()}
        for name, (old, new) in methods.items():
            recipe = recipe if new is old else _with_method(recipe, name, new)
        return recipe
    slots = {slot: (part, own.get(part) or grafted(part, own)) for slot, part in _slots(recipe).items()}
    changed = {slot: new for slot, (old, new) in slots.items() if new is not old}
    return functools.partial(recipe, **changed) if changed else recipe


@functools.cache
def _slots(recipe: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    if inspect.isclass(recipe) or not callable(recipe):
        return {}
    try:
        parameters = inspect.signature(recipe).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {item.name: item.default for item in parameters if item.kind is item.KEYWORD_ONLY and callable(item.default)}


def _methods(cls: Any) -> dict[str, Callable[..., Any]]:
    return {name: member for name, member in vars(cls).items() if inspect.isfunction(member)}


def _with_method(cls: Any, name: str, method: Callable[..., Any]) -> Any:
    def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return type(cls.__name__, (cls,), {name: bound, "remembers": getattr(method, "remembers", False)})
