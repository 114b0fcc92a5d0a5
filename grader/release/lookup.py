"""What is due, looked up in a table of numbers that was made with this workspace: nothing is computed here."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_name("dues.json")
DIGITS = 6  # of an argument's numbers, so that another processor's last digit finds the same entry


class NotStored(LookupError):
    """Nothing is stored for these arguments."""


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_") or name not in table()["functions"]:
        raise AttributeError(name)
    return functools.partial(_due, name)


@functools.cache
def table() -> Any:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def _due(name: str, *args: Any, **kwargs: Any) -> Any:
    try:
        return unpacked(table()["values"][table()["dues"][key(name, args, kwargs)]])
    except KeyError:
        raise NotStored(
            f"what {name} should give here is not in {TABLE.name}: was a check changed, or does this NumPy "
            f"({np.__version__}) draw other numbers than the one the workspace was made with ({table()['numpy']})?"
        ) from None


def key(name: str, args: Any, kwargs: Any) -> str:
    """The same for the same call, up to the last digits of its numbers."""
    made = hashlib.sha256(name.encode())
    _feed(made, (args, kwargs))
    return made.hexdigest()[:20]


def _feed(made: Any, value: Any) -> None:
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, dict):
        value = sorted(value.items())
    elif isinstance(value, set):
        value = sorted(value)
    if isinstance(value, list | tuple):
        made.update(f"({len(value)}".encode())
        for item in value:
            _feed(made, item)
    elif isinstance(value, np.ndarray):
        kind = value.dtype.kind
        numbers = np.round(value.astype("<f8"), DIGITS) + 0.0 if kind == "f" else value.astype("|b1" if kind == "b" else "<i8")
        made.update(f"{value.dtype if kind == 'f' else kind} {value.shape}".encode())
        made.update(np.ascontiguousarray(numbers).tobytes())
    else:
        made.update(f"{type(value).__name__} {value!r}".encode())


def packed(value: Any) -> Any:
    """An answer as JSON: arrays as their bytes."""
    if isinstance(value, tuple):
        return [packed(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    little = value.astype(value.dtype.newbyteorder("<"))
    data = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()
    return {"dtype": little.dtype.str, "shape": list(value.shape), "data": data}


def unpacked(value: Any) -> Any:
    """An answer from its JSON; arrays are new ones."""
    if isinstance(value, list):
        return tuple(map(unpacked, value))
    if not isinstance(value, dict):
        return value
    flat = np.frombuffer(base64.b64decode(value["data"]), value["dtype"])
    return flat.reshape(value["shape"]).astype(flat.dtype.newbyteorder("="))
