"""Asserts about values that a student's code gave back, with messages for a person at midnight.

It knows arrays (NumPy's and torch's), not what they are for. Whatever it is handed, it raises AssertionError with a
message and nothing else; torch is used only when somebody has loaded it already.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from grader.diagnosis.seen import along
from grader.trouble import Opaque, Stopped

__tracebackhide__ = True  # pytest then shows the line of the check, not of this file
Floats = NDArray[np.float64]
TOLERANCE = {"float32": (1e-5, 1e-6), "float64": (1e-12, 1e-12)}  # (relative, absolute); other types: exact
KINDS = {"array": "a NumPy array", "tensor": "a torch tensor"}
STAND_INS = dict.fromkeys(("RecordedInstance", "RemoteObject"), "object of the class")  # that the student wrote


def fail(message: str, seen: object = None) -> NoReturn:
    error = AssertionError(message)
    error.seen = seen  # type: ignore[attr-defined]  # for a picture: what came, what was due, where it is right
    raise error


def array(got: Any, like: Any, shape: Sequence[int] | None = None, label: str = "output") -> Any:
    """The kind, dtype and device of `like`, and this shape."""
    _form(got, like, like.shape if shape is None else shape, label, ", as the input")
    return got


def close(got: Any, want: Any, like: Any = None, label: str = "output", tolerance: tuple[float, float] | None = None) -> Any:
    """The form of `like` (or else of `want`) and the values of `want`, within (relative, absolute) tolerance."""
    model = want if like is None else like
    _form(got, model, want.shape, label, "" if like is None else ", as the input")
    relative, absolute = tolerance or TOLERANCE.get(_dtype(model), (0.0, 0.0))
    due = _floats(want, label)
    _compare(_floats(got, label), due, relative * np.abs(due) + absolute, label, _dtype(model) == "bool")
    return got


def equal(got: Any, want: Any, like: Any = None, label: str = "output") -> Any:
    """The same, to the last bit."""
    return close(got, want, like, label, (0.0, 0.0))


def half(got: Any, reference: Any, lowprec: Any, label: str = "output", fudge: float = 5.0) -> Any:
    """As near to the reference as the plain formula in this type (`lowprec`) is, up to a factor: PyTorch's own rule."""
    _form(got, lowprec, reference.shape, label, ", as the input")
    due = _floats(reference, label)
    slack = max(1e-5, fudge * float(np.max(np.abs(_floats(lowprec, label) - due), initial=0.0)))
    _compare(_floats(got, label), due, np.full(due.shape, slack), label)
    return got


def varied(got: Any, label: str) -> None:
    """Finite numbers that are not all the same: enough to compute with what a student's code chose itself."""
    numbers = _floats(got, label)
    if not np.isfinite(numbers).all():
        fail(f"{label} holds numbers that are not finite")
    if numbers.size and np.ptp(numbers) == 0:
        fail(f"every number of {label} is {numbers.flat[0]:.4g}: draw them at random")


def pair(got: Any, names: tuple[str, str] = ("output", "weights")) -> tuple[Any, Any]:
    """Any sequence of two; an array is one value, also when its first axis is 2 long."""
    first, second = several(got, names, "a pair")
    return first, second


def several(got: Any, names: Sequence[str], what: str = "a tuple") -> tuple[Any, ...]:
    """Any sequence with a value for each name."""
    due = f"due was {what} ({', '.join(names)})"
    if _kind(got) or not isinstance(got, Sequence) or isinstance(got, str | bytes):
        fail(f"the answer is {describe(got)}, {due}")
    if len(got) != len(names):
        fail(f"the answer holds {len(got)} values, {due}")
    return tuple(got)


def integers(got: Any, want: Mapping[str, int]) -> None:
    """A dict with exactly these ints."""
    due = f"due was a dict with the keys {', '.join(map(repr, want))}"
    if not isinstance(got, dict):
        fail(f"the answer is {describe(got)}, {due}")
    if set(got) != set(want):
        fail(f"the answer's keys are {_short(list(got))}, {due}")
    for name, number in want.items():
        integer(got[name], number, f"{name!r}")


def text(got: Any, want: str, label: str = "the answer") -> None:
    """This string."""
    if not isinstance(got, str) or got != want:
        fail(f"{label} is {describe(got)}, due was {want!r}")


def unchanged(before: Any, after: Any, label: str) -> None:
    """An input looks after the call as its copy from before it."""
    if tuple(before.shape) != tuple(after.shape) or _dtype(before) != _dtype(after):
        fail(f"the call turned its input {label} into {describe(after)}: inputs stay as they were")
    old, new = _floats(before, label), _floats(after, label)
    moved = ~((old == new) | (np.isnan(old) & np.isnan(new)))
    if moved.any():
        at = tuple(int(i) for i in np.argwhere(moved)[0])
        is_now, was = _numbers(new[at], old[at], _dtype(before) == "bool")
        text = f"the call changed its input: {_name(label, at)} was {was} and is now {is_now}"
        fail(f"{text}; inputs stay as they were, so make a new array instead of writing into this one")


def value_error(call: Callable[[], Any], *sizes: int) -> None:
    """The call raises ValueError, and its message holds each of these numbers."""
    due = "due was a ValueError whose message names " + " and ".join(map(str, sizes))
    try:
        got = call()
    except ValueError as error:
        text = str(error)
        if missing := [size for size in sizes if not re.search(rf"(?<!\d){size}(?!\d)", text)]:
            fail(f"ValueError says {text[:200]!r}, which does not name {' and '.join(map(str, missing))}: {due}")
    except (NotImplementedError, Stopped):
        raise
    except Exception as error:
        if getattr(getattr(error, "trouble", None), "kind", "raised") != "raised":
            raise
        fail(f"raised {type(error).__name__} ({str(error)[:200]}), {due}")
    else:
        fail(f"nothing was raised and the answer is {describe(got)}, {due}")


def integer(got: Any, want: int, label: str = "the answer") -> None:
    """This int, as an int."""
    if isinstance(got, float | np.floating) and got == want:
        fail(f"{label} is the float {got}, due was the int {want}: // keeps ints, / does not")
    if isinstance(got, bool) or not isinstance(got, int | np.integer):
        fail(f"{label} is {describe(got)}, due was the int {want}")
    if got != want:
        fail(f"{label} is {_short(got)}, due was {want}")


def gradients(output: Any, upstream: Any, inputs: Mapping[str, Any], label: str = "output") -> dict[str, Any]:
    """What autograd sends back from this output to each of these inputs."""
    if not output.requires_grad:
        fail(f"no gradient flows back from {label}: detach(), .data, no_grad or a trip through NumPy cut it off")
    try:
        found = sys.modules["torch"].autograd.grad(along([output], [upstream]), list(inputs.values()), allow_unused=True)
    except (NotImplementedError, Stopped):
        raise
    except Exception as error:
        fail(f"the gradient of {label} can't be computed: {str(error)[:300]}")
    for name, gradient in zip(inputs, found, strict=True):
        if gradient is None:
            fail(f"no gradient flows from {label} back to {name}: is it used, and is it never detached?")
    return dict(zip(inputs, found, strict=True))


def attribute(owner: Any, name: str, callable_: bool = False) -> Any:
    """What the object holds under this name."""
    try:
        value = getattr(owner, name)
    except AttributeError:
        fail(f"{describe(owner)} has no {name}: {'write' if callable_ else '__init__ should set'} it, under this very name")
    if callable_ and not callable(value):
        fail(f"{name} of {describe(owner)} is {describe(value)}, due was a method")
    return value


def assign(owner: Any, values: Mapping[str, Any]) -> None:
    """Each of these attributes exists and can be given another value."""
    for name, value in values.items():
        attribute(owner, name)
        try:
            setattr(owner, name, value)
        except (AttributeError, TypeError) as error:
            fail(f"{name} of {describe(owner)} can't be set: {str(error)[:200]}")


def module(got: Any, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """A torch module whose parameters are exactly these; gives them by name."""
    if not isinstance(got, sys.modules["torch"].nn.Module):
        fail(f"the class makes {describe(got)}, due was an nn.Module")
    found = dict(got.named_parameters())
    if set(found) != set(shapes):
        missing, more = sorted(set(shapes) - set(found)), sorted(set(found) - set(shapes))
        parts = [f"lack {', '.join(missing)}"] * bool(missing) + [f"hold {', '.join(more)} besides"] * bool(more)
        fail(f"the module's parameters {' and '.join(parts)}, due were exactly {', '.join(shapes)}")
    for name, shape in shapes.items():
        if tuple(found[name].shape) != tuple(shape):
            fail(name + _shapes(tuple(found[name].shape), tuple(shape)))
    return found


def describe(value: Any) -> str:
    """A few words on a value of any kind."""
    if value is None:
        return "None (is a return missing?)"
    if kind := _kind(value):
        return f"{KINDS[kind]} of shape {tuple(value.shape)}"
    name = value.type_name if isinstance(value, Opaque) else STAND_INS.get(type(value).__name__, type(value).__name__)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    if type(value) in (bool, int, float, complex, str):
        return f"the {name} {_short(value)}"
    size = f" of {len(value)}" if type(value) in (list, tuple, dict, set) else ""
    return f"{article} {name}{size}"


def _form(got: Any, like: Any, shape: Sequence[int], label: str, why: str) -> None:
    kind = _kind(like)
    if _kind(got) != kind:
        fail(f"{label} is {describe(got)}, due was {KINDS[kind]}{why}")
    if _dtype(got) != _dtype(like):
        fail(f"{label} is {_dtype(got)}, due was {_dtype(like)}{why}")
    if kind == "tensor" and got.device != like.device:
        fail(f"{label} is on {got.device}, due was {like.device}{why}")
    if tuple(got.shape) != tuple(shape):
        fail(label + _shapes(tuple(got.shape), tuple(shape)))


def _shapes(got: tuple[int, ...], want: tuple[int, ...]) -> str:
    text = f" has shape {got}, due was {want}"
    if sorted(got) == sorted(want) and len(got) < 7:
        orders = itertools.permutations(range(len(want)))
        return text + ": " + _moved(next(p for p in orders if tuple(want[i] for i in p) == got))
    return text


def _moved(order: Sequence[int]) -> str:
    moved = [i for i, axis in enumerate(order) if i != axis]
    if len(moved) == 2:
        return f"axes {moved[0]} and {moved[1]} are swapped"
    return f"its axes are those due in the order {tuple(order)}"


def _compare(have: Floats, due: Floats, slack: Floats, label: str, flags: bool = False) -> None:
    with np.errstate(all="ignore"):
        apart = np.abs(have - due)
    right = (have == due) | (np.isnan(have) & np.isnan(due)) | (np.isfinite(due) & (apart <= slack))
    if right.all():
        return
    odd = np.isfinite(due) & ~np.isfinite(have)
    wrong = odd if odd.any() else ~right
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    is_now, wanted = _numbers(have[at], due[at], flags)
    text = f"{_name(label, at)} is {is_now}, due was {wanted}; {wrong.sum()} of {wrong.size} values "
    if odd.any():
        fail(text + "are not finite", (have, due, right))
    for order in list(itertools.permutations(range(due.ndim)))[1:] if due.ndim < 6 else []:
        turned = due.transpose(order)
        if turned.shape == have.shape and np.all(np.abs(have - turned) <= slack.transpose(order)):
            fail(f"{label} would be right but {_moved(order)}: {text}differ", (have, due, right))
    fail(text + ("differ" if flags else f"differ, by up to {np.max(apart[wrong]):.3g}"), (have, due, right))


def _numbers(got: Any, want: Any, flags: bool) -> tuple[str, str]:
    """Both numbers, with as many digits as it takes to tell them apart."""
    if flags:
        return str(bool(got)), str(bool(want))
    texts = [(f"{got:.{digits}g}", f"{want:.{digits}g}") for digits in (4, 9, 17)]
    return next((both for both in texts if both[0] != both[1]), texts[-1])


def _name(label: str, at: tuple[int, ...]) -> str:
    return f"{label}[{', '.join(map(str, at))}]" if at else label


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an int of ten thousand digits, an object with a broken __repr__
        return "that can't be shown"
    return text if len(text) <= 60 else text[:57] + "..."


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "array"
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.is_nested or value.layout != torch.strided:
        return ""
    return "tensor"


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.") if _kind(value) == "tensor" else str(value.dtype.name)


def _floats(value: Any, label: str) -> Floats:
    try:
        if _kind(value) == "tensor":
            value = value.detach().double().numpy(force=True)
        return np.asarray(value, dtype=np.float64)
    except Exception:  # sparse, meta, objects: nothing that could be compared
        fail(f"{label} can't be read as numbers, value by value: it is {describe(value)}")
