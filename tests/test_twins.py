"""Models as arguments: each side has its own, only the name and the mode cross, and a student's process can't forge them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
import torch
from checks import models, oracle

from grader.confined import lockdown, wire
from grader.confined.packing import pack
from grader.confined.runner import Confined, Runner
from grader.course import Limits
from grader.trouble import Opaque

LINUX = sys.platform.startswith("linux")
KINDS = ["strong"] * (LINUX and not lockdown.missing()) + ["process"] * LINUX + ["spawned"]
IDS = {"input_ids": torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])}
SOURCE = b"""
import numpy as np
calls = []
def weights(model, ids, layer): return model(**ids).attentions[layer].detach().numpy()
def mode(model): return model.training
def to_train(a, model=None): model.train()
def to_eval(model): model.eval(); return model
def count(): calls.append(1); return len(calls)
def fails(model): model.eval(); raise ValueError("no")
def ruins(model):
    for parameter in model.parameters(): parameter.data.zero_()
"""


def start(kind: str) -> Runner:
    if kind == "spawned":
        return Runner(Limits(), preload=("numpy",), zygote=False)
    return Runner(Limits(), preload=("numpy",), isolation=kind)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with start(KINDS[0]) as runner:
        yield runner


@pytest.fixture
def confined(runner: Runner) -> Iterator[Confined]:
    with runner.open({"work": SOURCE}) as confined:
        yield confined


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_have_the_same_numbers(kind):
    model = models.stand_in().eval()
    with start(kind) as runner, runner.open({"work": SOURCE}) as confined:
        got = confined.module("work").weights(model, IDS, 1)
        confined.module("work").to_train(1, model=model)
    assert model.training
    assert (got == oracle.attentions("stand_in", IDS)[1]).all()


def test_the_mode_goes_there_and_comes_back(confined):
    model, work = models.stand_in(), confined.module("work")
    for mode in (True, False):
        assert work.mode(model.train(mode)) is mode
    work.to_train(1, model=model.eval())
    assert model.training
    assert all(part.training for part in model.modules())
    work.to_eval(model)
    assert not model.training


def test_the_mode_stays_when_the_call_fails(confined):
    model = models.stand_in().train()
    with pytest.raises(ValueError, match="no"):
        confined.module("work").fails(model)
    assert model.training
    assert confined.module("work").mode(model) is True


def test_a_process_from_before_is_replaced_once(runner):
    models.stand_in()
    with runner.open({"work": SOURCE}) as confined:
        work = confined.module("work")
        work.count()
        work.mode(models.stand_in())
        counted = work.count()
        work.mode(models.stand_in())
        assert work.count() == counted + 1
    with runner.open({"work": SOURCE}) as confined:  # from now on processes start with it
        work = confined.module("work")
        work.count()
        work.mode(models.stand_in())
        assert work.count() == 2


def test_what_a_student_does_to_a_model_ends_with_the_process(runner):
    model = models.stand_in().eval()
    for _ in range(2):
        with runner.open({"work": SOURCE}) as confined:
            got = confined.module("work").weights(model, IDS, 0)
            assert (got == oracle.attentions("stand_in", IDS)[0]).all()
            confined.module("work").ruins(model)
    assert model.embeddings.weight.any()


def test_a_model_does_not_come_back(confined):
    answer = confined.module("work").to_eval(models.stand_in())
    assert isinstance(answer, Opaque)
    assert answer.type_name.endswith("StandIn")


def test_an_answer_can_not_name_one():
    models.stand_in()
    head = json.dumps({"v": {"d": {"value": {"twin": ["stand_in", True]}}}, "a": []}).encode()
    with pytest.raises(wire.WireError):
        wire.parse(wire.PREFIX.pack(len(head), 0) + head)


def test_an_unknown_name_is_refused():
    head = json.dumps({"v": {"d": {"args": {"twin": ["nobody", True]}}}, "a": []}).encode()
    with pytest.raises(wire.WireError):
        wire.unpack(head, b"", strided=True)


def test_only_a_marked_object_is_a_twin():
    packed = pack({"args": (models.stand_in(), torch.nn.Linear(2, 2))}, strided=True)
    assert packed.twins == [models.stand_in()]
    assert packed.frame.count(b'"twin"') == 1
