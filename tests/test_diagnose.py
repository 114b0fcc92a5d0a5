"""Recording, replaying and naming, on recipes small enough to see through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grader.diagnosis import diagnose, mistakes
from grader.diagnosis.diagnose import Catalogue, likeliest
from grader.diagnosis.mistakes import instead_of, pairs, singles
from grader.diagnosis.recording import Call, Recorder, replay


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


# Chance, memory, attributes, modes, pairs


def test_random_numbers_are_those_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    monkeypatch.setattr(mistakes, "_REGISTERED", {})

    def drop(x: Any) -> Any:
        return F.dropout(x, 0.5)

    @instead_of(drop)
    def not_scaled_up(x: Any) -> Any:
        """What is kept is not scaled up.

        Hint: And the mean?
        """
        return F.dropout(x, 0.5) / 2

    catalogue = Catalogue(lambda: {"m.recipe": drop})
    x = torch.arange(1.0, 60.0)
    name = lambda student: [mistake.name for mistake in catalogue.diagnose("m.recipe", calls_of(student, x, x))]  # noqa: E731
    assert name(lambda x: torch.nn.Dropout(0.5)(x) / 2) == ["not_scaled_up"]
    assert name(lambda x: torch.nn.Dropout(0.5)(x)) == []
    assert name(lambda x: x * (torch.rand(59) > 0.5)) == []  # not scaled up either, but who can know that?
    before = torch.default_generator.get_state()
    first, second = calls_of(drop, x, x)
    assert not first.seen.matches(second.seen), "equal calls draw different numbers"
    assert [call.seen for call in calls_of(drop, x, x)] == [first.seen, second.seen], "but the same in every run"
    assert replay(second, drop).matches(second.seen)
    assert not replay(second, drop, luck=1).matches(second.seen)
    assert torch.default_generator.get_state().equal(before)


class Counter:
    """Adds nothing, however often it was called."""

    def __init__(self) -> None:
        self.start = np.ones(3)

    def forward(self, x: Any) -> Any:
        return x


def test_what_an_instance_remembers_is_relived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistakes, "_REGISTERED", {})

    @instead_of(Counter.forward, remembers=True)
    def counts(self: Any, x: Any) -> Any:
        """It counts its calls.

        Hint: Where?
        """
        self.calls = getattr(self, "calls", 0) + 1
        return x + (self.calls > 2)

    class Student(Counter):
        calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x + (self.calls > 2)

    calls: list[Call] = []
    instance = Recorder(SimpleNamespace(Counter=Student), calls).Counter()
    for value in (1.0, 2.0, 3.0, 4.0):
        instance.forward(np.full(2, value))
    assert Catalogue(lambda: {"m.Counter": Counter}).diagnose("m.Counter", calls)[0].name == "counts"


def test_attributes_are_told_by_what_chance_leaves_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistakes, "_REGISTERED", {})

    class Drawn:
        def __init__(self) -> None:
            self.A, self.B = np.random.default_rng().normal(size=(2, 3, 3))

    @instead_of(Drawn.__init__)
    def alike(self: Any) -> None:
        """Both are the same.

        Hint: Are they?
        """
        self.A = self.B = np.random.default_rng().normal(size=(3, 3))

    @instead_of(Drawn.__init__)
    def empty(self: Any) -> None:
        """Both are zero.

        Hint: Are they?
        """
        self.A, self.B = np.zeros((2, 3, 3))

    catalogue = Catalogue(lambda: {"m.Drawn": Drawn})

    def told(**attributes: Any) -> list[str]:
        calls: list[Call] = []
        student = type("Drawn", (), {"__init__": lambda self: vars(self).update(attributes)})
        instance = Recorder(SimpleNamespace(Drawn=student), calls).Drawn()
        assert instance.A is attributes["A"]
        assert instance.B is attributes["B"]
        return [mistake.name for mistake in catalogue.diagnose("m.Drawn", calls)]

    mine, other = np.random.default_rng(5).uniform(size=(2, 3, 3))
    assert told(A=mine, B=mine.copy()) == ["alike"]
    assert told(A=np.zeros((3, 3)), B=np.zeros((3, 3))) == ["empty"]
    assert told(A=mine, B=other) == []
    assert told(A=np.eye(3), B=mine) == []


def test_a_model_that_is_left_in_another_mode_is_seen() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Dropout(0.5)

    def right(model: Any, x: Any) -> Any:
        training = model.training
        y = model.eval()(x)
        model.train(training)
        return y

    calls: list[Call] = []
    recorder = Recorder(SimpleNamespace(left=lambda model, x: model.eval()(x), right=right), calls)
    for training in (False, True):
        recorder.left(model.train(training), torch.ones(9))
        recorder.right(model.train(training), torch.ones(9))
    assert [call.seen.changed for call in calls] == [(False, False), (False, False), (False, True), (False, False)]
    model.eval()
    assert not replay(calls[2], right).matches(calls[2].seen)
    assert replay(calls[3], right).matches(calls[3].seen)


def test_likely_pairs_come_first() -> None:
    """Four mistakes and three traits: the student's answer is off in the first two."""
    shown = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], bool)  # the last row is the student's
    unlike = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0]], bool)
    first, second = np.array([(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]).T
    assert likeliest(shown, unlike, first, second).tolist()[0] == 0  # 0 explains the first trait and 1 the second
    assert likeliest(shown, unlike, first, second).tolist()[1] == 1  # 2 changes the second, but not as it is


def test_no_more_pairs_than_allowed_are_tried(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(lambda x: 3 * (x - 1), np.arange(3.0))
    assert [mistake.name for mistake in catalogue.diagnose("m.recipe", calls)] == ["minus_one", "tripled"]
    monkeypatch.setattr(diagnose, "MOST_PAIRS", 0)
    assert catalogue.diagnose("m.recipe", calls) == ()


def test_a_layers_right_parts_run_once_a_call_whatever_wrong_parts_do_to_their_answers(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    ran: list[str] = []

    def first(x: Any) -> Any:
        ran.append("first")
        return x + 1

    def then(x: Any) -> Any:
        return 2 * x

    class Layer(torch.nn.Module):
        def forward(self, x: Any, *, first: Any = first, then: Any = then) -> Any:
            return then(first(x)), first(x)

    def wrong(name: str, part: Any) -> None:
        part.__name__, part.__doc__ = name, f"{name}.\n\nHint: Why?"
        instead_of(then)(part)

    wrong("in_place", lambda x: x.mul_(3))
    for factor in (3, 4, 5, 6):
        wrong(f"times_{factor}", lambda x, factor=factor: factor * x)

    class Student(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return 6 * (x + 1), x + 1

    calls: list[Call] = []
    Recorder(SimpleNamespace(Layer=Student), calls).Layer().forward(torch.arange(3.0))
    found = Catalogue(lambda: {"m.Layer": Layer})
    assert [mistake.name for mistake in found.diagnose("m.Layer", calls)] == ["times_6"]
    assert len(ran) < 12  # twice for each of six, were nothing kept
