"""No check takes a right answer to another question: code that overwrites its inputs and then answers rightly for what
they have become earns nothing but what asks for form alone. What is due comes from data that a student can't reach."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grading import ROOT, grade_each
from proof import prove

from grader.course import Course, find_course
from grader.diagnosis.diagnose import load_catalogue

pytestmark = pytest.mark.filterwarnings("ignore")  # zeros and ones are divided by what they sum to

CATALOGUE = load_catalogue(ROOT / "solutions" / "mistakes")
assert CATALOGUE is not None
RECIPES = CATALOGUE.recipes
NO_ARRAYS = {
    "torch_attention.causal_mask",
    "grouped_query.kv_cache_bytes",
    "head_analysis.attention_parameters",
    "head_analysis.attention_matrix_bytes",
}
EXERCISES = [one.name for one in find_course(ROOT).exercises if one.name in RECIPES and one.name not in NO_ARRAYS]

# The checks that ask for shapes, dtypes, parameters or a ValueError, and for no number that depends on an input.
FORM: dict[str, set[str]] = {
    "numpy_attention.split_heads": {"visible/split_shape", "visible/split_refuses", "hidden/split_refuses"},
    "numpy_attention.merge_heads": {"visible/merge_shape"},
    "numpy_attention.MultiHeadAttention": {"visible/mha_matrices", "visible/mha_refuses", "hidden/mha_dtype"},
    "torch_attention.split_heads": {"visible/split_shape", "visible/split_refuses"},
    "torch_attention.merge_heads": {"visible/merge_shape"},
    "torch_attention.MultiHeadAttention": {"visible/mha_parameters", "visible/mha_refuses"},
    "grouped_query.repeat_kv": {"visible/repeat_shape", "visible/repeat_refuses", "hidden/repeat_refuses"},
    "grouped_query.grouped_query_attention": {"visible/gqa_refuses"},
    "grouped_query.GroupedQueryAttention": {"visible/layer_parameters", "visible/layer_refuses", "hidden/layer_state"},
    "head_analysis.prune_heads": {"visible/prune_shapes", "visible/prune_refuses"},
}

# These ask under a mask as well, and there for the form alone.
FORM_UNDER_A_MASK = {
    "numpy_attention.MultiHeadAttention": {"hidden/mha_dtype"},
    "torch_attention.MultiHeadAttention": {"hidden/mha_state"},
}

# A name is due, and it happens to be the one that weights of all zeros, or all ones, have too.
SAME_NAME: dict[tuple[str, str], set[str]] = {
    ("head_analysis.classify_head", "all zeros"): {"visible/classify_pattern[focused]"},
    ("head_analysis.classify_head", "all ones"): {
        "visible/classify_pattern[sink]",
        "visible/classify_order[sink before previous]",
        "visible/classify_one_token",
    },
}

# By name: whether it is masks that are overwritten or all else, and with what. With None, being given one raises.
CHANGES: dict[str, tuple[bool, float | None]] = {
    "all zeros": (False, 0),
    "all ones": (False, 1),
    "nothing hidden": (True, False),
    "everything hidden": (True, True),
    "refuses masks": (True, None),
}


# These four are part of a submission too


def fill(x: Any, value: float | None) -> None:
    """Write into the whole memory that x is a view of, past flags, strides and autograd."""
    if value is None:
        raise RuntimeError("here is one")
    if hasattr(x, "untyped_storage"):
        x.detach().new_empty(0).set_(x.untyped_storage()).fill_(value)
        return
    while isinstance(x.base, np.ndarray):
        x = x.base
    x.fill(value)


def change(given: Iterable[Any], masks: bool, value: float | None) -> None:
    for x in given:
        if isinstance(x, tuple | list | dict):
            change(x.values() if isinstance(x, dict) else x, masks, value)
        elif (isinstance(x, np.ndarray) or hasattr(x, "untyped_storage")) and ("bool" in str(x.dtype)) == masks:
            fill(x, value)


def matrices(layer: Any) -> list[Any]:
    return [getattr(W, "weight", W) for W in (layer.W_Q, layer.W_K, layer.W_V, layer.W_O)]


def changing(right: Any, masks: bool, value: float | None) -> Any:
    """A right function or class, but what it is given (and its matrices) is overwritten before it begins."""

    class Changing(right if inspect.isclass(right) else object):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            change([*args, *kwargs.values(), *matrices(self)], masks, value)
            return super().forward(*args, **kwargs)

    def function(*args: Any, **kwargs: Any) -> Any:
        change([*args, *kwargs.values()], masks, value)
        return right(*args, **kwargs)

    return Changing if inspect.isclass(right) else function


def nothing(*_: Any, **__: Any) -> None:
    raise RuntimeError("no answer at all")


def look(exercise: str, checks: set[str], passed: dict[str, set[str]]) -> None:
    """What the variants of an exercise passed is what they may pass."""
    form, masked = FORM.get(exercise, set()), checks - passed["refuses masks"]
    assert FORM_UNDER_A_MASK.get(exercise, set()) <= masked
    masked -= FORM_UNDER_A_MASK.get(exercise, set())
    assert form <= checks
    for name in ("all zeros", "all ones"):
        assert passed[name] == form | SAME_NAME.get((exercise, name), set()), name
    assert passed["nothing hidden"] & masked == set()
    assert passed["everything hidden"] & masked == set()
    assert (masked == set()) == (not takes_masks(exercise)), "checks hand over masks, or there is none to hand over"


def takes_masks(exercise: str) -> bool:
    recipe = RECIPES[exercise]
    return "mask" in inspect.signature(recipe.forward if inspect.isclass(recipe) else recipe).parameters


@pytest.mark.parametrize("exercise", EXERCISES)
def test_overwritten_inputs_pass_what_asks_for_form_alone(course: Course, exercise: str) -> None:
    variants: dict[str, Callable[..., Any]] = {name: changing(RECIPES[exercise], *how) for name, how in CHANGES.items()}
    found = prove(course, {}, exercise, [("nothing", nothing), *variants.items()])
    raised = [one.name for one in found if any(check.status == "crashed" for check in one.lost)]
    assert raised == ["nothing", "refuses masks"][: 1 + takes_masks(exercise)]
    assert not any(one.broken for one in found)
    failed = {one.name: {check.id.removeprefix(f"{exercise}/") for check in one.lost} for one in found}
    look(exercise, failed["nothing"], {name: failed["nothing"] - failed[name] for name in CHANGES})


def test_overwritten_inputs_in_a_real_submission() -> None:
    found = grade_each({name: {"numpy_attention.py": submission(how)} for name, how in CHANGES.items()})
    for exercise in (name for name in EXERCISES if name.startswith("numpy_attention.")):
        checks = {name: checks_of(report, exercise) for name, report in found.items()}
        broken = [(check["id"], check["message"]) for each in checks.values() for check in each if check["status"] == "broken"]
        assert broken == []
        passed = {name: {short(check) for check in each if check["status"] == "passed"} for name, each in checks.items()}
        look(exercise, {short(check) for check in checks["all zeros"]}, passed)


def submission(how: tuple[bool, float | None]) -> str:
    """numpy_attention.py of a student whose every function overwrites its inputs first; the right ones are kept apart."""
    names = [name.partition(".")[2] for name in EXERCISES if name.startswith("numpy_attention.")]
    right = Path(ROOT / "solutions" / "numpy_attention.py").read_text(encoding="utf-8")
    parts = "\n\n".join(inspect.getsource(part) for part in (fill, change, matrices, changing))
    answers = "\n".join(f"{name} = changing(right[{name!r}], *{how})" for name in names)
    imports = "from __future__ import annotations\nimport inspect\nimport numpy as np"
    return f"{imports}\n\n{parts}\n\nright = {{'__name__': 'right'}}\nexec({right!r}, right)\n{answers}\n"


def checks_of(report: dict[str, Any], exercise: str) -> list[dict[str, Any]]:
    return next(found["checks"] for found in report["exercises"] if found["name"] == exercise)


def short(check: dict[str, Any]) -> str:
    return str(check["id"]).partition("/")[2]
