"""The only language between the grader and a student's process: a length, a JSON head, raw bytes. Never pickle.

What comes from a student's process is hostile: sizes are checked before anything is allocated, and `WireError` is all that
a frame can cause. Arrays are written one after another, so that no two can share bytes or reach past the end.
"""

from __future__ import annotations

import collections.abc
import json
import math
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .trouble import Opaque

PREFIX = struct.Struct(">IQ")  # bytes of the head, bytes of the body
MAX_HEAD = 1 << 20
MAX_BODY = 1 << 31
MAX_DEPTH = 24
MAX_NODES = 20_000
MAX_ARRAYS = 1_000
MAX_TEXT = 200_000
MAX_RANK = 32
MAX_ELEMENTS = 1 << 40  # of shapes that hold no bytes (a length of 0, the meta device)
MAX_INT = 1 << 130  # the state of a NumPy bit generator has 128 bits

_SIZES = {
    **{"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8},
    **{"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16},
}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from run to run
_BITS = ("PCG64", "PCG64DXSM", "SFC64", "Philox")


class WireError(Exception):
    """A frame, or a value on its way into one, is not what the wire allows."""


@dataclass(frozen=True)
class Packed:
    """A frame, and the arrays that went into it, in the order of its table."""

    frame: bytes
    arrays: list[Any]


@dataclass(frozen=True)
class Unpacked:
    """A frame's message. `buffers` are the bytes that its `arrays` look at."""

    message: dict[str, Any]
    arrays: list[Any]
    buffers: list[bytearray]


def pack(message: Mapping[str, Any], limit: int = MAX_BODY, *, strided: bool = False) -> Packed:
    """One frame with at most `limit` bytes of arrays.

    `strided` keeps strides, and one array stays one however often it occurs: for arguments. Raises WireError.
    """
    writer = _Writer(limit, strided)
    head = json.dumps({"v": writer.node(dict(message), 0), "a": writer.table}, separators=(",", ":")).encode()
    if len(head) > MAX_HEAD and not strided:
        raise WireError("too many values")
    body = b"".join(writer.chunks)
    return Packed(PREFIX.pack(len(head), len(body)) + head + body, writer.arrays)


def sizes(prefix: bytes, limit: int = MAX_BODY) -> tuple[int, int]:
    """The lengths of the head and the body that follow. Raises WireError before anything that big is allocated."""
    if len(prefix) != PREFIX.size:
        raise WireError("a frame ends in its first bytes")
    head, body = PREFIX.unpack(prefix)
    if not 0 < head <= MAX_HEAD or body > limit:
        raise WireError(f"a frame of {head} + {body} bytes is too large")
    return head, body


def unpack(head: bytes, body: bytes, *, strided: bool = False) -> Unpacked:
    """The message of a frame. Raises WireError, and nothing else, whatever the bytes are."""
    try:
        data = json.loads(head.decode("utf-8"), parse_int=_integer)
        if type(data) is not dict or data.keys() != {"v", "a"} or type(data["a"]) is not list:
            raise WireError("a frame's head is malformed")
        reader = _Reader(data["a"], body, strided)
        message = reader.value(data["v"], 0)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, RuntimeError, MemoryError) as error:
        raise WireError(f"a frame is malformed ({type(error).__name__})") from None
    if type(message) is not dict:
        raise WireError("a frame holds no message")
    return Unpacked(message, reader.arrays, reader.buffers)


def parse(frame: bytes, limit: int = MAX_BODY) -> Unpacked:
    """The message of one whole frame that came from a student's process. Raises WireError."""
    head, body = sizes(frame[: PREFIX.size], limit)
    if len(frame) != PREFIX.size + head + body:
        raise WireError("a frame has not the length that it says")
    return unpack(frame[PREFIX.size : PREFIX.size + head], frame[PREFIX.size + head :])


def extent(array: Any) -> Any:
    """The memory that an array's elements span, as a flat writable view of bytes. The array's owner must be trusted."""
    if isinstance(array, np.ndarray):
        ahead = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)]
        length = 1 + sum((n - 1) * stride for n, stride in zip(ahead.shape, ahead.strides, strict=True)) // array.itemsize
        flat = np.lib.stride_tricks.as_strided(ahead, (length if array.size else 0,), (array.itemsize,))
        return flat.view(np.uint8)
    torch = sys.modules["torch"]
    length = 1 + sum((n - 1) * stride for n, stride in zip(array.shape, array.stride(), strict=True))
    flat = torch.as_strided(array.detach(), (length if array.numel() else 0,), (1,))
    return flat.view(torch.uint8).numpy()


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
    nodes: int = 0
    total: int = 0

    def node(self, value: Any, depth: int) -> Any:
        """The JSON of `value`; what the wire does not know becomes Opaque."""
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("too many values, or nested too deeply")
        kind = type(value)
        if value is None or kind in (bool, float):
            return value
        if kind is int:
            return value if abs(value) < MAX_INT else self._opaque("int", "an integer of more than 130 bits")
        if kind is str:
            return value[:MAX_TEXT] if not self.strided else value
        if isinstance(value, np.generic):
            return self._array("n", np.asarray(value)) if value.dtype.name in _SIZES else self._opaque_of(value)
        if isinstance(value, np.ndarray) or is_tensor(value):
            return self._array("a", value)
        if isinstance(value, Opaque):
            return self._opaque(value.type_name, value.text)
        return self._container(value, depth + 1)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, tuple):
            return {"t": [self.node(item, depth) for item in tuple.__iter__(value)]}
        if isinstance(value, list):
            return [self.node(item, depth) for item in list.__iter__(value)]
        if isinstance(value, dict) and all(type(key) is str for key in dict.keys(value)):
            return {"d": {key: self.node(item, depth) for key, item in dict.items(value)}}
        if self.strided and isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _BITS:
            return {"rng": [type(value.bit_generator).__name__, self.node(_plain(value.bit_generator.state), depth)]}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.dtype | torch.device):
            return {"dtype" if isinstance(value, torch.dtype) else "device": str(value).removeprefix("torch.")}
        if isinstance(value, collections.abc.Sequence) and not isinstance(value, bytes | bytearray | memoryview | str | range):
            return [self.node(value[i], depth) for i in range(min(len(value), MAX_NODES))]
        return self._opaque_of(value)

    def _array(self, tag: str, array: Any) -> Any:
        seen = [i for i, known in enumerate(self.arrays) if known is array] if self.strided else []
        if seen:
            return {tag: seen[0]}
        entry = self._numpy(array) if isinstance(array, np.ndarray) else self._torch(array)
        if entry is None:
            return self._opaque_of(array)
        if len(self.table) >= MAX_ARRAYS:
            raise WireError("too many arrays")
        self.table.append(entry)
        self.arrays.append(array)
        return {tag: len(self.table) - 1}

    def _numpy(self, array: Any) -> list[Any] | None:
        name = array.dtype.name
        if name not in _SIZES or array.ndim > MAX_RANK or not array.dtype.isnative:
            return None
        if self.strided and all(stride % array.itemsize == 0 for stride in array.strides):
            offset = sum(-(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True) if stride < 0)
            nbytes = self._write(extent(array))
            return ["n", name, array.shape, array.strides, offset, nbytes, "cpu", array.flags.writeable]
        self._check(math.prod(array.shape) * array.itemsize)
        return ["n", name, array.shape, None, 0, self._write(np.array(array, order="C", subok=False)), "cpu", True]

    def _torch(self, tensor: Any) -> list[Any] | None:
        torch = sys.modules["torch"]
        with torch._C.DisableTorchFunctionSubclass():  # a subclass may lie, a plain view of its storage can't
            plain = tensor.as_subclass(torch.Tensor)
        name, shape, device = str(plain.dtype).removeprefix("torch."), tuple(plain.shape), plain.device
        if name not in _SIZES or len(shape) > MAX_RANK or plain.layout != torch.strided:
            return None
        entry = ["t", name, shape, None, 0, 0, str(device), bool(plain.requires_grad)]
        if self.strided and device.type in ("cpu", "meta"):
            entry[3] = plain.stride()
        if device.type != "meta":
            self._check(math.prod(shape) * _SIZES[name])
            data = plain.detach().resolve_conj().resolve_neg()
            flat = extent(data) if entry[3] is not None else data.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            entry[5] = self._write(flat)
        return entry

    def _check(self, more: int) -> None:
        if not self.strided and self.total + more > self.limit:
            raise WireError(f"{(self.total + more) / 2**20:,.0f} MiB in one answer: {self.limit / 2**20:,.0f} MiB are the limit")

    def _write(self, data: Any) -> int:
        self.chunks.append(data.tobytes())
        self.total += len(self.chunks[-1])
        return len(self.chunks[-1])

    def _opaque_of(self, value: object) -> Any:
        try:
            text = repr(value)
        except Exception:
            text = "?"
        return self._opaque(type(value).__qualname__, text)

    def _opaque(self, type_name: str, text: str) -> Any:
        return {"o": [str(type_name)[:100], _ADDRESS.sub("", str(text)[:300])]}


@dataclass
class _Reader:
    table: list[Any]
    body: bytes
    strided: bool
    arrays: list[Any] = field(default_factory=list)
    buffers: list[bytearray] = field(default_factory=list)
    nodes: int = 0

    def __post_init__(self) -> None:
        if len(self.table) > MAX_ARRAYS:
            raise WireError("too many arrays")
        lengths = [self._checked(entry) for entry in self.table]
        if sum(lengths) != len(self.body):
            raise WireError("a frame's arrays don't fill its body")
        start = 0
        for entry, length in zip(self.table, lengths, strict=True):
            self.buffers.append(bytearray(self.body[start : start + length]))
            self.arrays.append(self._array(entry, self.buffers[-1]))
            start += length
        self.used: set[int] = set()

    def _checked(self, entry: Any) -> int:
        """The bytes of one array, if its description is honest."""
        if type(entry) is not list or len(entry) != 8:
            raise WireError("an array's description is malformed")
        library, dtype, shape, strides, offset, length, device, flag = entry
        if type(dtype) is not str or dtype not in _SIZES or library not in ("n", "t") or type(flag) is not bool or type(length) is not int:
            raise WireError("an array's description is malformed")
        if type(shape) is not list or len(shape) > MAX_RANK or not all(type(n) is int and n >= 0 for n in shape):
            raise WireError("an array's shape is malformed")
        if math.prod(n for n in shape if n) > MAX_ELEMENTS or length < 0:
            raise WireError("an array is too large")
        if self.strided:
            return length
        due = 0 if device == "meta" and library == "t" else math.prod(shape) * _SIZES[dtype]
        if strides is not None or offset != 0 or length != due or device not in ("cpu", "meta"):
            raise WireError("an array's shape and bytes don't agree")
        return length

    def _array(self, entry: list[Any], buffer: bytearray) -> Any:
        library, dtype, shape, strides, offset, _, device, flag = entry
        if dtype == "bool" and not self.strided and buffer.translate(None, b"\0\1"):
            raise WireError("a boolean is neither true nor false")
        if library == "n":
            array = np.ndarray(tuple(shape), dtype, buffer=buffer or None, offset=offset, strides=strides and tuple(strides))
            array.flags.writeable = flag
            return array
        torch = sys.modules.get("torch")
        if torch is None:  # nobody here asked for tensors: don't spend seconds on their library
            return Opaque("Tensor", f"a tensor of shape {tuple(shape)}")
        kind = getattr(torch, dtype)
        if not buffer:
            tensor = torch.empty(shape, dtype=kind, device="meta" if device == "meta" else "cpu")
        elif strides is None:
            tensor = torch.frombuffer(buffer, dtype=kind).reshape(shape)
        else:
            tensor = torch.frombuffer(buffer, dtype=kind).as_strided(shape, strides)
        return tensor.requires_grad_(True) if flag else tensor

    def value(self, node: Any, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("too many values, or nested too deeply")
        if type(node) is str:
            return _text(node)
        if type(node) is list:
            return [self.value(item, depth + 1) for item in node]
        if type(node) is not dict:
            return node
        if len(node) != 1:
            raise WireError("a value is malformed")
        ((tag, inner),) = node.items()
        return self._tagged(tag, inner, depth + 1)

    def _tagged(self, tag: str, inner: Any, depth: int) -> Any:
        if tag in ("a", "n") and type(inner) is int and 0 <= inner < len(self.arrays):
            if inner in self.used and not self.strided:
                raise WireError("an array occurs twice")
            self.used.add(inner)
            return self.arrays[inner] if tag == "a" else self.arrays[inner][()]
        if tag == "t" and type(inner) is list:
            return tuple(self.value(item, depth) for item in inner)
        if tag == "d" and type(inner) is dict:
            return {_text(key): self.value(item, depth) for key, item in inner.items()}
        if tag == "o" and type(inner) is list and len(inner) == 2 and all(type(item) is str for item in inner):
            return Opaque(_text(inner[0])[:100], _text(inner[1])[:300])
        if tag == "rng" and self.strided:
            bits = getattr(np.random, inner[0])()
            bits.state = self.value(inner[1], depth)
            return np.random.Generator(bits)
        if tag in ("dtype", "device") and type(inner) is str and "torch" in sys.modules:
            torch = sys.modules["torch"]
            if tag == "device":
                return torch.device(inner)
            if inner in _SIZES:
                return getattr(torch, inner)
        raise WireError("a value is malformed")


def _plain(state: Any) -> Any:
    """A bit generator's state without NumPy's own integers."""
    if isinstance(state, Mapping):
        return {key: _plain(value) for key, value in state.items()}
    return state if isinstance(state, str | np.ndarray) else int(state)


def _integer(digits: str) -> int:
    if len(digits) > 41:
        raise WireError("an integer is too large")
    return int(digits)


def _text(text: str) -> str:
    """Text that can be written anywhere: a lone half of a surrogate pair can't."""
    return text[:MAX_TEXT] if text.isascii() else text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
