"""What a student's workspace knows of mistakes: numbers that name them as the catalogue does, and no line of their code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from grading import ROOT
from proof import prove

from grader.course import Course
from grader.diagnosis.diagnose import Catalogue, load_catalogue
from grader.diagnosis.recording import Call, Recorder
from grader.diagnosis.stored import Stored, store

EXERCISES = ("numpy_attention.split_heads", "numpy_attention.attention", "torch_attention.MultiHeadAttention")


class Recording(Catalogue):
    """Keeps the calls that it is asked about."""

    def __init__(self, recipes: Any) -> None:
        super().__init__(lambda: recipes)
        self.calls: dict[str, list[Call]] = {}

    def diagnose(self, exercise: str, calls: list[Call]) -> Any:
        self.calls[exercise] = calls
        return super().diagnose(exercise, calls)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    found = load_catalogue(ROOT / "solutions" / "mistakes")
    assert found is not None
    return found


def test_a_stored_catalogue_names_what_the_catalogue_names(course: Course, catalogue: Catalogue, tmp_path: Path) -> None:
    for exercise in EXERCISES:
        variants = catalogue.singles(exercise)[:20]
        recorded = Recording(catalogue.recipes)
        proven = prove(course, catalogue.recipes, exercise, [(v.name, v.call) for v in variants], using=recorded)
        path = tmp_path / f"{exercise}.json"
        path.write_text(store(catalogue, recorded.calls))
        stored = prove(course, catalogue.recipes, exercise, [(v.name, v.call) for v in variants[-1:]], using=Stored(path))
        assert stored[-1].named == proven[-1].named is not None


def test_nothing_of_a_mistakes_code_is_stored(catalogue: Catalogue, tmp_path: Path) -> None:
    calls: list[Call] = []
    import numpy as np

    recipe = catalogue.recipes["numpy_attention.split_heads"]
    Recorder(SimpleNamespace(split_heads=recipe), calls).split_heads(np.arange(24.0).reshape(1, 3, 8), 2)
    text = store(catalogue, {"numpy_attention.split_heads": calls})
    for variant in catalogue.singles("numpy_attention.split_heads"):
        source = inspect.getsource(inspect.unwrap(getattr(variant.call, "func", variant.call)))
        for line in re.sub(r'""".*?"""', "", source, flags=re.DOTALL).splitlines()[1:]:
            assert len(line.strip()) < 12 or line.strip() not in text
