"""The only language between the grader and a student's process: two lengths, a JSON head, raw bytes. Never pickle.

What comes from a student's process is hostile: sizes are checked before anything is allocated, and `WireError` is all
that a frame can cause. Arrays are written one after another, so that none can share another's bytes or reach past the
end.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..trouble import Opaque
from . import twins

PREFIX = struct.Struct(">IQ")  # bytes of the head, bytes of the body
MAX_HEAD, MAX_BODY = 1 << 20, 1 << 31
MAX_DEPTH, MAX_NODES, MAX_ARRAYS, MAX_RANK, MAX_TEXT = 24, 20_000, 1_000, 32, 200_000
ANSWER = 4  # an answer may hold a quarter, and three levels less: checks pass it on, in other letters and with more beside it
MAX_ELEMENTS = 1 << 22  # of an array, also of one that holds no bytes: the grader computes with as many

SIZES = {
    **{"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8},
    **{"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16},
}
_FAULTS = (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, RuntimeError, MemoryError)


class WireError(Exception):
    """A frame, or a value on its way into one, is not what the wire allows."""


@dataclass(frozen=True)
class Unpacked:
    """A frame's message. `buffers` are the bytes that its `arrays` look at; `twins` are those of the other side."""

    message: dict[str, Any]
    arrays: list[Any]
    buffers: list[bytearray]
    twins: list[Any]


def sizes(prefix: bytes, limit: int = MAX_BODY) -> tuple[int, int]:
    """The lengths of the head and the body that follow. Raises WireError before anything that big is allocated."""
    if len(prefix) != PREFIX.size:
        raise WireError("a frame ends in its first bytes")
    head, body = PREFIX.unpack(prefix)
    if not 0 < head <= MAX_HEAD // ANSWER or body > limit:
        raise WireError(
            "a frame says that it is longer than is allowed, or empty"
        )  # no number: random bytes say another every time
    return head, body


def unpack(head: bytes, body: bytes, *, strided: bool = False, device: str = "") -> Unpacked:
    """The message of a frame. Raises WireError, and nothing else, whatever the bytes are.

    Tensors of `device` cross as those of the CPU do, and are put there; with `strided` those of any device.
    """
    try:
        data = _DECODER.decode(head.decode("utf-8"))
        if type(data) is not dict or data.keys() != {"v", "a"} or type(data["a"]) is not list:
            raise WireError("a frame's head is malformed")
        reader = _Reader(data["a"], body, strided, {"cpu", "meta", device})
        message = reader.value(data["v"], 0)
    except _FAULTS:
        raise WireError("a frame is malformed") from None
    if type(message) is not dict:
        raise WireError("a frame holds no message")
    return Unpacked(message, reader.arrays, reader.buffers, reader.twins)


def parse(frame: bytes, limit: int = MAX_BODY) -> Unpacked:
    """The message of one whole frame that came from a student's process. Raises WireError."""
    head, body = sizes(frame[: PREFIX.size], limit)
    if len(frame) != PREFIX.size + head + body:
        raise WireError("a frame has not the length that it says")
    return unpack(frame[PREFIX.size :][:head], frame[PREFIX.size + head :])


@dataclass
class _Reader:
    table: list[Any]
    body: bytes
    strided: bool
    devices: set[str]
    arrays: list[Any] = field(default_factory=list)
    buffers: list[bytearray] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    twins: list[Any] = field(default_factory=list)
    nodes: int = 0

    def __post_init__(self) -> None:
        self.share = 1 if self.strided else ANSWER
        if len(self.table) > MAX_ARRAYS // self.share:
            raise WireError("too many arrays")
        lengths = [self._length(*entry) for entry in self.table]
        if sum(lengths) != len(self.body):
            raise WireError("a frame's arrays don't fill its body")
        start = 0
        for entry, length in zip(self.table, lengths, strict=True):
            self.buffers.append(bytearray(self.body[start : start + length]))
            self.arrays.append(self._array(self.buffers[-1], entry))
            start += length

    def _length(self, *entry: Any) -> int:
        """The bytes of one array, if its description is honest."""
        library, dtype, shape, strides, offset, length, device, flag = entry
        kinds = list(map(type, (dtype, shape, offset, length, device, flag)))
        if kinds != [str, list, int, int, str, bool] or dtype not in SIZES or library not in ("n", "t") or length < 0:
            raise WireError("an array's description is malformed")
        if len(shape) > MAX_RANK or not all(type(n) is int and n >= 0 for n in shape):
            raise WireError("an array's shape is malformed")
        due = 0 if device == "meta" and library == "t" else math.prod(shape) * SIZES[dtype]
        lies = strides is not None or offset or length != due or device not in self.devices or (flag and device == "meta")
        if lies and not self.strided:
            raise WireError("an array's shape and bytes don't agree")
        if not self.strided and math.prod(n for n in shape if n) > MAX_ELEMENTS:
            raise WireError(f"an array has more than {MAX_ELEMENTS:,} numbers")
        return int(length)

    def _array(self, buffer: bytearray, entry: Any) -> Any:
        library, dtype, shape, strides, offset, _, device, flag = entry
        if dtype == "bool" and not self.strided and buffer.translate(None, b"\0\1"):
            raise WireError("a boolean is neither true nor false")
        if library == "n":
            array: Any = np.ndarray(shape, dtype, buffer or None, offset, strides)
            array.flags.writeable = flag
            return array
        try:
            import torch
        except ImportError:  # NumPy's exercises do without
            return Opaque("Tensor", f"a tensor of shape {tuple(shape)}")
        kind = getattr(torch, dtype)
        if not buffer:
            tensor = torch.empty(shape, dtype=kind, device="meta" if device == "meta" else "cpu")
        else:
            flat = torch.frombuffer(buffer, dtype=kind)
            tensor = flat.reshape(shape) if strides is None else flat.as_strided(shape, strides)
        if device not in ("cpu", "meta"):
            tensor = tensor.to(device)
        return tensor.requires_grad_(True) if flag else tensor

    def value(self, node: Any, depth: int) -> Any:
        """The value that a node of the head stands for."""
        self.nodes += 1
        if depth + self.share > MAX_DEPTH or self.nodes > MAX_NODES // self.share:
            raise WireError("too many values, or nested too deeply")
        if type(node) is str:
            return _text(node)
        if type(node) is list:
            return [self.value(item, depth + 1) for item in node]
        if type(node) is not dict:
            return node
        ((tag, inner),) = node.items()
        return self._tagged(tag, inner, depth + 1)

    def _tagged(self, tag: str, inner: Any, depth: int) -> Any:
        torch = sys.modules.get("torch")
        if tag in ("a", "n") and type(inner) is int and 0 <= inner < len(self.arrays):
            if inner in self.used and not self.strided:
                raise WireError("an array occurs twice")
            self.used.add(inner)
            return self.arrays[inner] if tag == "a" else self.arrays[inner][()]
        if tag == "t" and type(inner) is list:
            return tuple(self.value(item, depth) for item in inner)
        if tag == "d" and type(inner) is dict:
            return {_text(key): self.value(item, depth) for key, item in inner.items()}
        if tag == "o" and type(inner) is list and list(map(type, inner)) == [str, str]:
            return Opaque(_text(inner[0])[:100], _text(inner[1])[:300])
        if tag == "rng" and self.strided:
            bits = getattr(np.random, inner[0])()
            bits.state = self.value(inner[1], depth)
            return np.random.Generator(bits)
        if tag == "twin" and self.strided:
            self.twins.append(twins.take(*inner))
            return self.twins[-1]
        if tag == "dtype" and torch is not None and inner in SIZES:
            return getattr(torch, inner)
        if tag == "device" and torch is not None and type(inner) is str:
            return torch.device(inner)
        raise WireError("a value is malformed")


def _integer(digits: str) -> int:
    if len(digits) > 41:
        raise WireError("an integer is too large")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def _text(text: str) -> str:
    """Text that can be written anywhere: a lone half of a surrogate pair can't."""
    return text[:MAX_TEXT] if text.isascii() else text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
