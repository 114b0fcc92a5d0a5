"""Objects that can't cross the wall, such as a model: each side makes its own twin, and only its name and mode cross.

Where they are made is trusted: a check's own code names the factory, and the zygote calls it before it forks. A student's
process can't name one, nor send one back.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

_FILES: dict[str, str] = {}  # where each factory is, by the name of its twin
_MADE: dict[str, Any] = {}


def twin(make: Callable[[], Any]) -> Callable[[], Any]:
    """Mark a factory of an object with `training` and `train(mode)`, to be passed to students' functions as an argument.

    It is called once in a process and makes the same in each; its file is imported by its path, and so stands alone.
    """
    name = make.__name__
    _FILES[name] = make.__code__.co_filename

    @functools.wraps(make)
    def made() -> Any:
        if name not in _MADE:
            _MADE[name] = make()
        return _MADE[name]

    return made


def name_of(thing: object) -> str | None:
    """The name of a twin; None for everything else."""
    return next((name for name, made in _MADE.items() if made is thing), None)


def among(things: tuple[Any, ...]) -> dict[str, str]:
    """The names of the twins among the arguments of a call, with the files that make them."""
    return {name: _FILES[name] for name in map(name_of, things) if name is not None}


def make_all(wanted: Mapping[str, str]) -> bool:
    """Make what is not there yet. Whether there was anything to do."""
    missing = sorted(wanted.keys() - _MADE.keys())
    for name in missing:
        spec = importlib.util.spec_from_file_location(f"twins_{name}", wanted[name])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, name)()
    return bool(missing)


def take(name: str, training: bool) -> Any:
    """This process's own twin, in the mode that the other one is in. Raises KeyError."""
    _MADE[name].train(training)
    return _MADE[name]
