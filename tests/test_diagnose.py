"""Recording, replaying and naming, on recipes small enough to see through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grader import mistakes
from grader.diagnose import Catalogue
from grader.mistakes import instead_of, pairs, singles
from grader.recording import Call, Recorder, replay


def plus_one(x: Any) -> Any:
    return x + 1


def doubled(x: Any) -> Any:
    return 2 * x


def recipe(x: Any, *, first: Any = plus_one, then: Any = doubled) -> Any:
    return then(first(x))


class Scale:
    """Scales by a factor that can be set."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(self, x: Any, *, then: Any = doubled) -> Any:
        return then(self.factor * x)


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    monkeypatch.setattr(mistakes, "_REGISTERED", {})

    @instead_of(plus_one)
    def minus_one(x: Any) -> Any:
        """One is taken away.

        Hint: Which way?
        """
        return x - 1

    @instead_of(plus_one, only="other")
    def plus_two(x: Any) -> Any:
        """Two are added.

        Hint: How many?
        """
        return x + 2

    @instead_of(doubled)
    def in_place(x: Any) -> Any:
        """It writes into its input.

        Hint: Whose array is it?
        """
        x *= 2
        return x

    @instead_of(doubled)
    def tripled(x: Any) -> Any:
        """Three times.

        Hint: Twice?
        """
        return 3 * x

    return Catalogue(lambda: {"m.recipe": recipe, "other.recipe": recipe, "m.Scale": Scale, "m.doubled": doubled})


def calls_of(student: Any, *inputs: Any) -> list[Call]:
    calls: list[Call] = []
    recorder = Recorder(SimpleNamespace(recipe=student, doubled=student), calls)
    for x in inputs:
        recorder.recipe(x)
    return calls


def test_variants_are_made_by_recursion_and_only_where_they_are_meant(catalogue: Catalogue) -> None:
    assert [variant.name for variant in singles(recipe, "m")] == ["minus_one", "in_place", "tripled"]
    assert [variant.name for variant in singles(recipe, "other")] == ["minus_one", "plus_two", "in_place", "tripled"]
    assert [variant.name for variant in pairs(recipe, "m")] == ["minus_one+in_place", "minus_one+tripled"]
    assert [variant.name for variant in singles(Scale, "m")] == ["in_place", "tripled"]
    assert next(singles(Scale, "m")).slots == ("forward.then.",)


def test_a_single_a_pair_and_nothing_are_told_apart(catalogue: Catalogue) -> None:
    inputs = [np.arange(3.0), np.arange(4.0)]
    name = lambda student: [mistake.name for mistake in catalogue.diagnose("m.recipe", calls_of(student, *inputs))]  # noqa: E731
    assert name(lambda x: 2 * (x - 1)) == ["minus_one"]
    assert name(lambda x: 3 * (x - 1)) == ["minus_one", "tripled"]
    assert name(lambda x: 2 * x + 2) == []
    assert name(lambda x: x) == []


def test_a_mistake_must_explain_the_right_answers_too(catalogue: Catalogue) -> None:
    def student(x: Any) -> Any:
        return 2 * (x - 1) if len(x) == 3 else 2 * (x + 1)

    assert catalogue.diagnose("m.recipe", calls_of(student, np.arange(3.0))) != ()
    assert catalogue.diagnose("m.recipe", calls_of(student, np.arange(3.0), np.arange(4.0))) == ()


def test_a_change_of_the_input_is_seen(catalogue: Catalogue) -> None:
    def student(x: Any) -> Any:
        x *= 2
        return x

    calls: list[Call] = []
    x = np.arange(1.0, 4.0)
    Recorder(SimpleNamespace(doubled=student), calls).doubled(x)
    assert calls[0].seen.changed == (True,)
    assert calls[0].args[0].tolist() == [1, 2, 3]
    assert catalogue.diagnose("m.doubled", calls)[0].name == "in_place"


def test_dtype_shape_errors_and_nan_are_part_of_what_is_seen() -> None:
    x = np.arange(3.0)
    [call] = calls_of(lambda x: x, x)
    for other in (
        lambda x: x.astype(np.float32),
        lambda x: x[None],
        lambda x: x + np.nan,
        lambda x: [x],
        lambda x: [][0],
    ):
        assert not replay(call, other).matches(call.seen)
    assert replay(call, lambda x: x * (1 + 1e-13)).matches(call.seen)
    assert not replay(call, lambda x: x * (1 + 1e-8)).matches(call.seen)


def test_an_instance_is_replayed_with_what_was_set_on_it(catalogue: Catalogue) -> None:
    class Student(Scale):
        def forward(self, x: Any, **_: Any) -> Any:
            return 3 * self.factor * x

    calls: list[Call] = []
    instance = Recorder(SimpleNamespace(Scale=Student), calls).Scale(5.0)
    instance.factor = 7.0
    assert instance.factor == 7.0
    assert instance.forward(np.ones(2)).tolist() == [21, 21]
    assert [call.method for call in calls] == ["", "forward"]
    assert catalogue.diagnose("m.Scale", calls)[0].name == "tripled"


def test_a_torch_module_is_replayed_with_its_weights_and_mode() -> None:
    torch = pytest.importorskip("torch")

    class Student(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.W = torch.nn.Linear(2, 2, bias=False)

        def forward(self, x: Any) -> Any:
            return self.W(x) * (3 if self.training else 1)

    calls: list[Call] = []
    module = Recorder(SimpleNamespace(Student=Student), calls).Student()
    module.double().eval()
    module(torch.ones(2, dtype=torch.float64)).sum().backward()
    assert module.W.weight.grad is not None
    assert replay(calls[-1], Student).matches(calls[-1].seen)
    module.train()
    module(torch.ones(2, dtype=torch.float64))
    assert not calls[-1].seen.matches(calls[-2].seen)
    assert replay(calls[-1], Student).matches(calls[-1].seen)


def test_random_answers_tell_nothing(catalogue: Catalogue) -> None:
    rng = np.random.default_rng()
    noisy = Catalogue(lambda: {"m.recipe": lambda x: x + rng.normal()})
    assert noisy.diagnose("m.recipe", calls_of(lambda x: x, np.arange(3.0))) == ()
