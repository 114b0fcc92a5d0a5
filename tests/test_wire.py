"""The wire: what goes in comes out, and nothing that a hostile process writes does more than raise WireError."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
import torch

from grader.confined import wire
from grader.confined.packing import extent, pack
from grader.trouble import Opaque

FRAMES = int(os.environ.get("WIRE_FRAMES", "60000"))  # a million take half a minute: WIRE_FRAMES=1000000 pytest -k mutated


def there(value: Any, *, strided: bool = True) -> Any:
    """`value` after the way to a student's process (strided), or back."""
    frame = pack({"value": value}, strided=strided).frame
    head, _ = wire.sizes(frame[: wire.PREFIX.size])
    start = wire.PREFIX.size
    return wire.unpack(frame[start : start + head], frame[start + head :], strided=strided).message["value"]


PLAIN = [None, True, 3, -(2**129), 2.5, float("inf"), "é\n", (1, [2, {"k": (3,)}]), [], (), {}]


@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_cross_as_they_are(value: Any, strided: bool) -> None:
    got = there(value, strided=strided)
    assert got == value and type(got) is type(value)


DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_cross_both_ways(dtype: str) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for strided in (True, False):
        got = there(array, strided=strided)
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)


VIEWS = [
    np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1),
    np.arange(24.0).reshape(2, 3, 4)[:, ::-1, ::2],
    np.broadcast_to(np.float32(3), (2, 3)),
    np.arange(5)[::-1],
    np.zeros((0, 3)),
    np.array(4.0),
]


@pytest.mark.parametrize("array", VIEWS, ids=lambda array: f"{array.shape}{array.strides}")
def test_an_argument_keeps_its_strides(array: np.ndarray) -> None:
    got = there(array)
    np.testing.assert_array_equal(got, array)
    assert got.strides == array.strides or array.size == 0
    assert got.flags.writeable == array.flags.writeable
    np.testing.assert_array_equal(there(array, strided=False), array)


def test_a_tensor_keeps_strides_dtype_and_gradient_flag() -> None:
    for tensor in (
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(3, 1).expand(3, 5),
        torch.randn(2, 3, dtype=torch.bfloat16),
        torch.randn(3, requires_grad=True),
        torch.empty(2, 3, device="meta"),
        torch.zeros(0, 4),
    ):
        got = there(tensor)
        assert got.stride() == tensor.stride() and got.dtype == tensor.dtype and got.device == tensor.device
        assert got.requires_grad == tensor.requires_grad
        assert tensor.is_meta or torch.equal(got, tensor)


def test_one_argument_passed_twice_stays_one() -> None:
    x = torch.ones(2)
    q, k = there((x, x))
    assert q is k


def test_other_things_cross() -> None:
    assert there(torch.float16) is torch.float16
    assert there(torch.device("meta")) == torch.device("meta")
    assert isinstance(there(np.float32(2)), np.float32)
    generator = np.random.default_rng(3)
    assert there(generator).random() == np.random.default_rng(3).random()


@pytest.mark.parametrize("value", [object(), {1: 2}, np.array(["a"]), 2**200, {1, 2}, range(3), int])
def test_what_is_no_data_is_told_and_not_sent(value: object) -> None:
    got = there(value, strided=False)
    assert isinstance(got, Opaque) and " at 0x" not in got.text


def test_a_long_or_deep_or_big_answer_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, [0] * 30_000, np.broadcast_to(np.float32(0), (10**6, 10**6)), [np.zeros(1)] * 2000):
        with pytest.raises(wire.WireError):
            pack({"value": value}, 1 << 20)


LETTERS = "\u00e9" * 190_000  # two bytes each in a hostile frame, and six in ours
DEEP = '{"t":[' * 22 + "1" + "]}" * 22
TABLE = ",".join(['["n","bool",[0],null,0,0,"cpu",true]'] * 998)
ARRAYS = ",".join(f'{{"a":{place}}}' for place in range(998))
HOARDS = {"letters": (f'"{LETTERS}"', ""), "levels": (DEEP, ""), "arrays": (f"[{ARRAYS}]", TABLE)}


@pytest.mark.parametrize(("value", "table"), HOARDS.values(), ids=HOARDS)
def test_what_an_answer_may_hold_can_be_passed_on(value: str, table: str) -> None:
    """A cache, an object's number and a token go back into the student's process, among other arguments."""
    head = f'{{"v":{{"d":{{"value":{value}}}}},"a":[{table}]}}'.encode()
    try:
        found = wire.parse(wire.PREFIX.pack(len(head), 0) + head).message["value"]
    except wire.WireError:
        return
    pack({"args": ([np.zeros(3) for _ in range(9)], (found, found))}, strided=True)


def test_extent_is_the_memory_itself() -> None:
    for array in (np.zeros((3, 4))[::-1, ::2], torch.zeros(3, 4).t()[1:]):
        extent(array)[:] = 1
        assert bool((array != 0).all())


def frame(head: str, body: bytes = b"") -> bytes:
    return wire.PREFIX.pack(len(head.encode()), len(body)) + head.encode() + body


ARRAY = '{"v":{"d":{"x":%s}},"a":[%s]}'
LIES = {
    "shorter than it says": frame("{}")[:-1],
    "longer than it says": frame("{}") + b"x",
    "a terabyte": wire.PREFIX.pack(2, 1 << 40) + b"{}",
    "no JSON": frame("{"),
    "not UTF-8": wire.PREFIX.pack(1, 0) + b"\xff",
    "no message": frame('{"v":3,"a":[]}'),
    "deep": frame('{"v":' + "[" * 100_000 + "]" * 100_000 + ',"a":[]}'),
    "a huge integer": frame('{"v":{"d":{"x":' + "9" * 5000 + '}},"a":[]}'),
    "an unknown dtype": frame(ARRAY % ('{"a":0}', '["n","object",[1],null,0,8,"cpu",true]'), bytes(8)),
    "more elements than bytes": frame(ARRAY % ('{"a":0}', '["n","float64",[9],null,0,8,"cpu",true]'), bytes(8)),
    "a negative length": frame(ARRAY % ('{"a":0}', '["n","float64",[-1],null,0,-8,"cpu",true]')),
    "strides of its own": frame(ARRAY % ('{"a":0}', '["n","float64",[9],[0],0,8,"cpu",true]'), bytes(8)),
    "a bool that is 2": frame(ARRAY % ('{"a":0}', '["n","bool",[1],null,0,1,"cpu",true]'), b"\2"),
    "a tensor of a GPU": frame(ARRAY % ('{"a":0}', '["t","float64",[1],null,0,8,"cuda:0",true]'), bytes(8)),
    "a gradient of integers": frame(ARRAY % ('{"a":0}', '["t","int64",[1],null,0,8,"cpu",true]'), bytes(8)),
    "an array twice": frame(ARRAY % ('[{"a":0},{"a":0}]', '["n","uint8",[1],null,0,1,"cpu",true]'), b"\1"),
    "an array that is not there": frame(ARRAY % ('{"a":1}', "")),
    "bytes that nobody owns": frame('{"v":{"d":{}},"a":[]}', b"x"),
    "a gradient of no bytes": frame(ARRAY % ('{"a":0}', '["t","float64",[9],null,0,0,"meta",true]')),
    "a giant of no bytes": frame(ARRAY % ('{"a":0}', '["t","float64",[4194305],null,0,0,"meta",false]')),
    "an array to compute with for minutes": frame(
        ARRAY % ('{"a":0}', '["n","bool",[4194305],null,0,4194305,"cpu",true]'), bytes(4194305)
    ),
    "an empty giant": frame(ARRAY % ('{"a":0}', '["t","int8",[0,1099511627776,9],null,0,0,"cpu",false]')),
    "a generator": frame(ARRAY % ('{"rng":["PCG64",{}]}', "")),
    "a value of two kinds": frame(ARRAY % ('{"t":[],"d":{}}', "")),
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES.keys())
def test_a_lying_frame_is_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.parse(data)


TOKENS = [
    b"{",
    b"}",
    b"[",
    b'{"a":0}',
    b"1e999",
    b"-1",
    b"NaN",
    b"null",
    b"9" * 50,
    b"\\ud800",
    b'"t"',
    b"true",
    b'"meta"',
]


def mutated(original: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, lost, doubled or replaced by words of the grammar, mostly with honest lengths."""
    data = bytearray(original)
    for _ in range(chance.randint(1, 4)):
        place, way = chance.randrange(len(data) + 1), chance.random()
        if way < 0.3 and data:
            data[place - 1] = chance.randrange(256)
        elif way < 0.45:
            del data[place : place + chance.randint(1, 9)]
        elif way < 0.8:
            data[place : place + chance.choice([0, 1, 3])] = chance.choice(TOKENS)
        elif way < 0.95:
            data[place:place] = data[chance.randrange(len(data) + 1) :][:20]
        else:
            del data[place:]
    if chance.random() < 0.8 and len(data) > wire.PREFIX.size:
        head, body = wire.PREFIX.unpack(original[: wire.PREFIX.size])
        head = max(1, head + len(data) - len(original))
        data[: wire.PREFIX.size] = wire.PREFIX.pack(head, body)
    return bytes(data)


def test_mutated_frames_raise_nothing_but_wire_error() -> None:
    values = (np.arange(6.0), [torch.randn(2, 2, requires_grad=True), {"k": np.float32(2)}], 2**100, "é", torch.float16)
    original = pack({"ticket": "ab", "ok": True, "value": values, "changed": [(0, np.zeros(8, np.uint8))]}).frame
    chance, taken = random.Random(2017), 0
    for _ in range(FRAMES):
        try:
            wire.parse(mutated(original, chance), 1 << 26)
            taken += 1
        except wire.WireError:
            pass
    assert 0 < taken < FRAMES / 2
