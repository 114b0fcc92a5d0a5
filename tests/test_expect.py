"""`grader.expect`: one clear sentence for every way to be wrong, and AssertionError for any value whatever."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grader import expect
from grader.diagnosis.recording import RecordedInstance
from grader.trouble import Opaque, Stopped, Trouble

A = np.arange(24.0).reshape(2, 3, 4)
T = torch.arange(24.0).reshape(2, 3, 4)
F64 = T.double()


def said(call, *args, **kwargs):
    """The message of an assert that has to fail."""
    with pytest.raises(AssertionError) as caught:
        call(*args, **kwargs)
    assert type(caught.value) is AssertionError
    return str(caught.value)


CLOSE = np.full(2, 0.5 + 1e-9)


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("got", "want", "message"),
    [
        (None, A, "output is None (is a return missing?), due was a NumPy array"),
        ("0.5", A, "output is the str '0.5', due was a NumPy array"),
        ([1, 2], A, "output is a list of 2, due was a NumPy array"),
        (Opaque("Elephant", "<>"), A, "output is an Elephant, due was a NumPy array"),
        (T, A, "output is a torch tensor of shape (2, 3, 4), due was a NumPy array"),
        (A, T, "output is a NumPy array of shape (2, 3, 4), due was a torch tensor"),
        (A.astype("f"), A, "output is float32, due was float64"),
        (A.astype(complex), A, "output is complex128, due was float64"),
        (A.astype(object), A, "output is object, due was float64"),
        (T.to("meta"), T, "output is on meta, due was cpu"),
        (A.swapaxes(1, 2), A, "output has shape (2, 4, 3), due was (2, 3, 4): axes 1 and 2 are swapped"),
        (
            A.transpose(1, 2, 0),
            A,
            "output has shape (3, 4, 2), due was (2, 3, 4): its axes are those due in the order (1, 2, 0)",
        ),
        (A[0], A, "output has shape (3, 4), due was (2, 3, 4)"),
        (changed(A, (0, 1, 2), np.nan), A, "output[0, 1, 2] is nan, due was 6; 1 of 24 values are not finite"),
        (changed(A, (0, 1, 2), 6.5), A, "output[0, 1, 2] is 6.5, due was 6; 1 of 24 values differ, by up to 0.5"),
        (CLOSE, np.full(2, 0.5), "output[0] is 0.500000001, due was 0.5; 2 of 2 values differ, by up to 1e-09"),
        (T.to_sparse(), T, "output is a Tensor, due was a torch tensor"),
        (np.array(1.0), np.array(2.0), "output is 1, due was 2; 1 of 1 values differ, by up to 1"),
        (np.array([True, False]), np.array([True, True]), "output[1] is False, due was True; 1 of 2 values differ"),
    ],
)
def test_close_says_what_came_and_what_was_due(got, want, message):
    assert said(expect.close, got, want) == message


def test_close_names_swapped_axes_of_equal_size():
    square = np.arange(9.0).reshape(3, 3)
    text = said(expect.close, square.T, square)
    assert text.startswith("output would be right but axes 0 and 1 are swapped: output[0, 1] is 3, due was 1;")


def test_close_takes_the_form_from_like():
    assert said(expect.close, F64, A, like=T) == "output is float64, due was float32, as the input"
    assert expect.close(T.clone().requires_grad_(), A, like=T).requires_grad
    expect.close(T.bfloat16(), A, like=T.bfloat16())


def test_tolerance_follows_the_dtype():
    ones = np.ones(3)
    expect.close(ones.astype("f") * np.float32(1 + 5e-6), ones, like=ones.astype("f"))
    expect.close(ones * (1 + 1e-12), ones)
    assert "differ" in said(expect.close, ones * (1 + 1e-10), ones)
    expect.close(ones * 1.05, ones, tolerance=(0.1, 0.0))
    assert "differ" in said(expect.equal, ones * (1 + 1e-15), ones)


@pytest.mark.parametrize("due", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_equals_only_itself(due):
    want = np.array([1.0, due])
    expect.close(want.copy(), want)
    assert "differ" in said(expect.close, np.array([1.0, 2.0]), want)


def test_half_allows_a_multiple_of_the_plain_formulas_error():
    reference = torch.tensor([1.0, 2.0], dtype=torch.double)
    plain = torch.tensor([1.0, 2.015625], dtype=torch.bfloat16)
    expect.half(torch.tensor([1.0, 2.0625], dtype=torch.bfloat16), reference, plain)
    assert "differ" in said(expect.half, torch.tensor([1.0, 2.125], dtype=torch.bfloat16), reference, plain)
    assert said(expect.half, reference, reference, plain) == "output is float64, due was bfloat16, as the input"


def test_pair():
    assert expect.pair([1, 2]) == (1, 2)
    assert said(expect.pair, T) == "the answer is a torch tensor of shape (2, 3, 4), due was a pair (output, weights)"
    assert said(expect.pair, (1, 2, 3), ("k", "v")) == "the answer holds 3 values, due was a pair (k, v)"
    for odd in (None, "ab", b"ab", {1: 2, 3: 4}, {1, 2}, 5, (x for x in (1, 2)), Opaque("G", "")):
        assert "due was a pair" in said(expect.pair, odd)


def test_unchanged():
    expect.unchanged(A.copy(), A, "q")
    assert said(expect.unchanged, A, changed(A, (0, 0, 1), 9), "q").startswith(
        "the call changed its input: q[0, 0, 1] was 1 and is now 9;"
    )
    flags = torch.tensor([True, False])
    assert "mask[1] was False and is now True" in said(expect.unchanged, flags, torch.tensor([True, True]), "mask")
    assert "turned its input q into" in said(expect.unchanged, T, T[0], "q")


def raiser(error):
    def call():
        raise error

    return call


def test_value_error():
    expect.value_error(raiser(ValueError("10 does not split into 4")), 10, 4)
    assert "does not name 4" in said(expect.value_error, raiser(ValueError("10 and 40")), 10, 4)
    assert "raised AssertionError (d_model)" in said(expect.value_error, raiser(AssertionError("d_model")), 10, 4)
    assert "nothing was raised" in said(expect.value_error, lambda: None, 10, 4)
    stopped = Stopped(Trouble("timeout", "TimeoutError", "too long"))
    missing = AttributeError("no split_heads")
    missing.trouble = Trouble("missing", "AttributeError", "no split_heads")
    for error in (NotImplementedError("todo"), stopped, missing):
        with pytest.raises(type(error)) as caught:
            expect.value_error(raiser(error), 10, 4)
        assert caught.value is error


def test_integer():
    expect.integer(12, 12)
    expect.integer(np.int64(12), 12)
    assert said(expect.integer, 12.0, 12) == "the answer is the float 12.0, due was the int 12: // keeps ints, / does not"
    assert said(expect.integer, 6, 12) == "the answer is 6, due was 12"
    for odd in (True, None, "12", T, 10**9000, 0, Opaque("I", "")):
        assert "due was" in said(expect.integer, odd, 12)


def test_gradients():
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    found = expect.gradients(2 * x, torch.ones(3), {"x": x})
    expect.equal(found["x"], 2 * torch.ones(3))
    assert "no gradient flows from output back to y" in said(expect.gradients, 2 * x, torch.ones(3), {"x": x, "y": y})
    assert "no gradient flows back from output" in said(expect.gradients, x.detach(), torch.ones(3), {"x": x})
    spoilt = x.exp()
    late = spoilt * 1.0
    spoilt.add_(1)
    assert "can't be computed" in said(expect.gradients, late, torch.ones(3), {"x": x})


class Thing:
    fixed = property(lambda self: 1)
    value = 5


def test_attributes():
    thing = Thing()
    assert expect.attribute(thing, "value") == 5
    assert said(expect.attribute, thing, "W_Q") == "a Thing has no W_Q: __init__ should set it, under this very name"
    assert "has no forward: write it, under" in said(expect.attribute, thing, "forward", callable_=True)
    assert "due was a method" in said(expect.attribute, thing, "value", callable_=True)
    expect.assign(thing, {"value": 6})
    assert thing.value == 6
    assert "can't be set" in said(expect.assign, thing, {"fixed": 2})


def test_a_stand_in_is_no_name_for_the_student():
    assert expect.describe(RecordedInstance(Thing(), print, lambda _: print)) == "an object of the class"


def test_module():
    linear = torch.nn.Linear(3, 2, bias=False)
    assert list(expect.module(linear, {"weight": (2, 3)})) == ["weight"]
    assert said(expect.module, linear, {"weight": (3, 2)}) == "weight has shape (2, 3), due was (3, 2): axes 0 and 1 are swapped"
    biased = said(expect.module, torch.nn.Linear(3, 2), {"W": (2, 3)})
    assert biased == "the module's parameters lack W and hold bias, weight besides, due were exactly W"
    assert "due was an nn.Module" in said(expect.module, 5, {"weight": (2, 3)})


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


ODD = [
    None, "text", b"b", 3, True, 1j, float("nan"), 10**9000, [], (None, None), {"a": 1}, set(), object(), Unprintable(), Thing,
    Opaque("", ""), range(2), np.float64(1), np.array("x"), np.zeros(0), np.ma.masked_array([1.0], [True]), A.astype("M8[s]"),
    np.array([None]), torch.zeros(()), torch.zeros(2, 3, 4, device="meta"), T.to(torch.complex64), torch.nn.Linear(2, 2),
    T.to_sparse(), torch.tensor([[1.0]]).to_sparse_csr, np.full((2, 3, 4), np.nan), np.zeros((1,) * 30),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_any_value_whatever_is_an_assertion_error(odd):
    for call, args in [
        (expect.close, (odd, A)), (expect.close, (odd, F64)), (expect.equal, (odd, A)), (expect.array, (odd, T)),
        (expect.half, (odd, F64, T.half())), (expect.integer, (odd, 12)), (expect.attribute, (odd, "W_Q")),
        (expect.module, (odd, {"W": (1,)})), (expect.value_error, (lambda: odd, 3)),
    ]:  # fmt: skip
        assert said(call, *args)
