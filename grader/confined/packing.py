"""Putting values into frames: what `wire` reads, this writes. It runs on both sides of the wall."""

from __future__ import annotations

import collections.abc
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..trouble import Opaque
from . import twins
from .wire import ANSWER, MAX_ARRAYS, MAX_BODY, MAX_DEPTH, MAX_HEAD, MAX_NODES, MAX_RANK, MAX_TEXT, PREFIX, SIZES, WireError

MAX_INT = 1 << 130  # the state of a NumPy bit generator has 128 bits
_BITS = ("PCG64", "PCG64DXSM", "SFC64", "Philox")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from run to run


@dataclass(frozen=True)
class Packed:
    """A frame, the arrays that went into it, in the order of its table, and the twins that it names."""

    frame: bytes
    arrays: list[Any]
    twins: list[Any]


def pack(message: Mapping[str, Any], limit: int = MAX_BODY, *, strided: bool = False) -> Packed:
    """One frame with at most `limit` bytes of arrays. Raises WireError.

    `strided` is for arguments: strides are kept, and one array stays one however often it occurs.
    """
    writer = _Writer(limit, strided)
    head = json.dumps({"v": writer.node(dict(message), 0), "a": writer.table}, separators=(",", ":")).encode()
    if len(head) > MAX_HEAD // writer.share:
        raise WireError("too many values")
    body = b"".join(writer.chunks)
    return Packed(PREFIX.pack(len(head), len(body)) + head + body, writer.arrays, writer.twins)


def extent(array: Any) -> Any:
    """The memory that the elements of a trusted array span, as a flat writable view of its bytes."""
    if isinstance(array, np.ndarray):
        ahead = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)]
        span = sum((n - 1) * stride for n, stride in zip(ahead.shape, ahead.strides, strict=True)) // array.itemsize
        size = span + 1 if array.size else 0
        return np.lib.stride_tricks.as_strided(ahead, (size,), (array.itemsize,)).view(np.uint8)
    torch = sys.modules["torch"]
    span = sum((n - 1) * stride for n, stride in zip(array.shape, array.stride(), strict=True))
    return torch.as_strided(array.detach(), (span + 1 if array.numel() else 0,), (1,)).view(torch.uint8).numpy()


def put_back(arrays: Sequence[Any], changed: Any) -> None:
    """Let arguments that were changed in place come back changed. Raises TypeError or ValueError for a lie."""
    for index, data in changed:
        if type(index) is not int or not 0 <= index < len(arrays) or type(data) is not np.ndarray:
            raise TypeError("it changed something else")
        memory = extent(arrays[index])
        if data.dtype != np.uint8 or data.shape != memory.shape:
            raise ValueError("it changed the size of an argument")
        if str(arrays[index].dtype).endswith("bool") and data.max(initial=0) > 1:
            raise ValueError("a boolean is neither true nor false")
        memory[:] = data


def is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@dataclass
class _Writer:
    limit: int
    strided: bool
    table: list[list[Any]] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)
    twins: list[Any] = field(default_factory=list)
    nodes: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        self.share = 1 if self.strided else ANSWER

    def node(self, value: Any, depth: int) -> Any:
        """The JSON of `value`; what the wire does not know becomes Opaque."""
        self.nodes += 1
        if depth + self.share > MAX_DEPTH or self.nodes > MAX_NODES // self.share:
            raise WireError("too many values, or nested too deeply")
        kind = type(value)
        if value is None or kind in (bool, float) or (kind is int and abs(value) < MAX_INT):
            return value
        if kind in (dict, list, tuple):
            return self._container(value, depth + 1)
        if isinstance(value, str):
            return str.__str__(value)[:MAX_TEXT]  # NumPy has strings of its own
        if isinstance(value, np.generic) and value.dtype.name in SIZES:
            return self._array("n", np.asarray(value))
        if isinstance(value, np.ndarray) or is_tensor(value):
            return self._array("a", value)
        return self._container(value, depth + 1)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, tuple):
            return {"t": [self.node(item, depth) for item in tuple.__iter__(value)]}
        if isinstance(value, list):
            return [self.node(item, depth) for item in list.__iter__(value)]
        if isinstance(value, dict) and all(type(key) is str for key in dict.keys(value)):
            return {"d": {key: self.node(item, depth) for key, item in dict.items(value)}}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.dtype | torch.device):
            return {"dtype" if isinstance(value, torch.dtype) else "device": str(value).removeprefix("torch.")}
        if self.strided and isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _BITS:
            return {"rng": [type(value.bit_generator).__name__, self.node(_plain(value.bit_generator.state), depth)]}
        if self.strided and (name := twins.name_of(value)) is not None:
            self.twins.append(value)
            return {"twin": [name, bool(value.training)]}
        if isinstance(value, collections.abc.Sequence) and not isinstance(value, str | bytes | bytearray | range):
            return [self.node(value[i], depth) for i in range(min(len(value), MAX_NODES))]
        return self._opaque(value)

    def _array(self, tag: str, array: Any) -> Any:
        if self.strided:
            for i, known in enumerate(self.arrays):
                if known is array:
                    return {tag: i}
        if len(self.table) >= MAX_ARRAYS // self.share:
            raise WireError("too many arrays")
        entry = self._numpy(array) if isinstance(array, np.ndarray) else self._torch(array)
        if entry is None:
            return self._opaque(array)
        self.table.append(entry)
        self.arrays.append(array)
        return {tag: len(self.table) - 1}

    def _numpy(self, array: Any) -> list[Any] | None:
        name = array.dtype.name
        if name not in SIZES or array.ndim > MAX_RANK or not array.dtype.isnative:
            return None
        if self.strided and all(stride % array.itemsize == 0 for stride in array.strides):
            pairs = zip(array.shape, array.strides, strict=True)
            offset = sum((1 - n) * stride for n, stride in pairs if stride < 0) if array.size else 0
            length = self._write(extent(array))
            return ["n", name, array.shape, array.strides, offset, length, "cpu", array.flags.writeable]
        self._check(math.prod(array.shape) * array.itemsize)
        length = self._write(np.array(array, order="C", subok=False))
        return ["n", name, array.shape, None, 0, length, "cpu", True]

    def _torch(self, tensor: Any) -> list[Any] | None:
        torch = sys.modules["torch"]
        try:
            with torch._C.DisableTorchFunctionSubclass():  # a subclass may lie
                plain = tensor.as_subclass(torch.Tensor)
        except (RuntimeError, TypeError):  # sparse ones have no storage
            return None
        name, shape, device = str(plain.dtype).removeprefix("torch."), tuple(plain.shape), plain.device
        if name not in SIZES or len(shape) > MAX_RANK or plain.layout != torch.strided:
            return None
        strides = plain.stride() if self.strided and device.type in ("cpu", "meta") else None
        length = 0
        if device.type != "meta":
            self._check(math.prod(shape) * SIZES[name])
            data = plain.detach().resolve_conj().resolve_neg()
            if strides is None:
                data = data.cpu().contiguous()
            length = self._write(extent(data))
        return ["t", name, shape, strides, 0, length, str(device), bool(plain.requires_grad)]

    def _check(self, more: int) -> None:
        if not self.strided and self.total + more > self.limit:
            raise WireError(f"it has {(self.total + more) / 2**20:,.0f} MiB, and {self.limit / 2**20:,.0f} are the limit")

    def _write(self, data: Any) -> int:
        self.chunks.append(data.tobytes())
        self.total += len(self.chunks[-1])
        return len(self.chunks[-1])

    def _opaque(self, value: object) -> Any:
        if not isinstance(value, Opaque):
            try:
                value = Opaque(type(value).__qualname__, repr(value))
            except Exception:
                value = Opaque(type(value).__qualname__, "?")
        return {"o": [value.type_name[:100], _ADDRESS.sub("", value.text[:300])]}


def _plain(state: Any) -> Any:
    """A bit generator's state without NumPy's own integers."""
    if isinstance(state, Mapping):
        return {key: _plain(value) for key, value in state.items()}
    return state if isinstance(state, str | np.ndarray) else int(state)
