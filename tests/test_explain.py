"""Errors are explained from what the libraries really say: each is provoked here, not quoted."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from grader.course import Course
from grader.diagnosis.explain import meaning
from grader.judge import judge
from grader.trouble import Frame, Trouble

x = torch.randn(2, 3, 4)
a = np.ones((2, 3, 4))


def in_place_after_use() -> None:
    leaf = torch.ones(3, requires_grad=True)
    weights = leaf.exp()
    weights += 1
    weights.sum().backward()


def one_argument(x: object) -> object:
    return x


@pytest.mark.parametrize(
    ("provoke", "words"),
    [
        (lambda: x.transpose(1, 2).view(2, 12), "reshape copies"),
        (lambda: torch.ones(2, 3) @ torch.ones(4, 5), "3 is not 4"),
        (lambda: x @ x, "4 is not 3"),
        (lambda: np.ones((2, 3)) @ np.ones((4, 5)), "3 is not 4"),
        (lambda: x + torch.ones(2, 3, 5), "on axis 2 they are 4 and 5"),
        (lambda: a + np.ones((2, 3)), "lined up from the right"),
        (lambda: x.reshape(5, 5), "keeps the number of elements"),
        (lambda: a.reshape(5, 5), "keeps the number of elements"),
        (lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64), "different dtypes"),
        (in_place_after_use, "write in place"),
        (lambda: torch.ones(3, requires_grad=True).add_(1), "make a new tensor"),
        (lambda: bool(x > 0), "is None"),
        (lambda: bool(a > 0), "is None"),
        (lambda: a.transpose(0, 2, 1, 3), "every axis named once"),
        (lambda: x.permute(0, 2, 1, 3), "every axis named once"),
        (lambda: x.sum(dim=7), "no such axis"),
        (lambda: a.sum(axis=7), "no such axis"),
        (lambda: [0 for _ in [x.shape] for b, h, n, d in [tuple(_)]], "4 names stand"),
        (
            lambda: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3, dtype=torch.bool), is_causal=True),
            "not both",
        ),
        (lambda: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3, dtype=torch.int64)), "boolean mask"),
        (lambda: torch.ones(2, requires_grad=True).numpy(), "cuts the gradient"),
        (lambda: torch.ones(2).sum().backward(), "tied to an input"),
        (lambda: torch.ones(2, 1).mul_(torch.ones(2, 3)), "can't make its target larger"),
        (lambda: one_argument(1, 2), "eep the parameters"),  # type: ignore[call-arg]
        (lambda: a.max(dim=-1), "dim and keepdim"),
        (lambda: x.repeat(2, axis=1), "dim and keepdim"),
        (lambda: x.transpose(0, 2, 1), "tell a tensor"),
        (lambda: np.ones((1, 2, 3, 2)) @ np.ones((1, 2, 3, 2)).T, "move more than the last two"),
        (lambda: math.log(a), "take one number"),
        (lambda: torch.sqrt(3), "take one number"),
        (lambda: torch.mm(x, x), "in front"),
        (lambda: x.expand(5, 3, 4), "axes of size 1"),
        (lambda: x.size[1], "without its parentheses"),
        (lambda: [n for n, d in [x.size]], "without its parentheses"),
        (lambda: num_heads, "self. in front"),  # type: ignore[name-defined]  # noqa: F821
        (lambda: 3 % None, "omething here is None"),  # type: ignore[operator]
        (lambda: not x, "`~`"),
        (lambda: None + 1, "omething here is None"),  # type: ignore[operator]
        (lambda: None.shape, "omething here is None"),  # type: ignore[attr-defined]
        (lambda: 1 / 0, ""),
    ],
)
def test_a_real_error_is_explained(provoke: Callable[[], object], words: str) -> None:
    with pytest.raises(Exception) as error:
        provoke()
    found = meaning(str(error.value))
    assert words in found if words else found == "", str(error.value)


@pytest.mark.parametrize(("code", "status"), [("return hidden | future", "crashed"), ("raise NotImplementedError", "todo")])
def test_what_torch_cannot_do_is_no_stub(course: Course, code: str, status: str) -> None:
    """torch's own NotImplementedError comes of a mistake, not of an exercise that nobody has begun."""
    with pytest.raises(NotImplementedError, match="not implemented for") as provoked:
        torch.ones(2) | torch.ones(2)
    provoked.value.trouble = Trouble(  # type: ignore[attr-defined]
        *("raised", "NotImplementedError", str(provoked.value)), (Frame("torch_attention.py", 3, "efficient_mha", code),)
    )
    assert judge(provoked.value, "torch_attention.efficient_mha", course, {}).status == status
