"""Reading submissions: what counts, what is refused, and the sentence for each."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from grader.submission import MAX_BYTES, SubmissionError, read_submission

MODULES = ("numpy_attention", "torch_attention")


def test_a_folder_gives_its_exercise_files_and_nothing_else(tmp_path: Path) -> None:
    for name in ("numpy_attention.py", "conftest.py", "numpy.py", "sitecustomize.py"):
        (tmp_path / name).write_text("x = 1\n")
    submission = read_submission(tmp_path, MODULES)
    assert dict(submission.sources) == {"numpy_attention": b"x = 1\n"}
    assert not submission.refused


def test_one_file_counts_for_its_module_whatever_a_platform_put_around_its_name(tmp_path: Path) -> None:
    path = tmp_path / "doe_12345_67890_numpy_attention (1).py"
    path.write_text("x = 1\n")
    assert list(read_submission(path, MODULES).sources) == ["numpy_attention"]


def test_a_name_put_before_a_file_in_a_folder_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "jane_numpy_attention.py").write_text("x = 1\n")
    assert list(read_submission(tmp_path, MODULES).sources) == ["numpy_attention"]
    (tmp_path / "old_numpy_attention.py").write_text("x = 2\n")
    submission = read_submission(tmp_path, MODULES)
    assert not submission.sources  # which of the two was meant?
    assert submission.notes


def test_a_notebook_that_a_file_stands_before_is_told(tmp_path: Path) -> None:
    for name in ("numpy_attention.py", "numpy_attention.ipynb", "torch_attention.ipynb"):
        (tmp_path / name).write_text('{"cells": []}')
    submission = read_submission(tmp_path, MODULES)
    assert submission.notes == ("numpy_attention.ipynb was not graded: the .py file beside it was",)


def test_files_in_a_folder_inside_are_found_and_the_least_deep_count(tmp_path: Path) -> None:
    for place, text in (("hw/old", "x = 0\n"), ("hw", "x = 1\n"), (".git", "x = 2\n"), ("__MACOSX", "x = 3\n")):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "numpy_attention.py").write_text(text)
    (tmp_path / "hw/old/torch_attention.py").write_text("x = 4\n")
    (tmp_path / "hw/round").symlink_to(tmp_path)
    assert dict(read_submission(tmp_path, MODULES).sources) == {"numpy_attention": b"x = 1\n", "torch_attention": b"x = 4\n"}


def test_folders_deeper_than_python_counts_do_no_harm(tmp_path: Path) -> None:
    subprocess.run(["mkdir", "-p", "in/" + "d/" * 1_500], cwd=tmp_path, check=True)
    try:
        assert read_submission(tmp_path / "in", MODULES).notes
    finally:
        subprocess.run(["rm", "-rf", "in"], cwd=tmp_path, check=True)  # pytest's own tidying would count them


def test_a_notebook_gives_its_code_without_magics(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# text"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import numpy as np\n", "if True:\n", "    !ls\n"]},
        {"cell_type": "code", "source": "%%bash\nrm x"},
        {"cell_type": "code", "source": "%%time\ny = 2"},
    ]
    path = tmp_path / "numpy_attention.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    names: dict[str, object] = {}
    exec(read_submission(path, MODULES).sources["numpy_attention"], names)
    assert names["y"] == 2


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"x = '\xff'\n", "numpy_attention.py is not UTF-8 text (line 1, byte 0xff): save it as UTF-8"),
        (b"x = 1\0\n", "numpy_attention.py holds null bytes"),
        (b"#" * (MAX_BYTES + 1), "numpy_attention.py is larger than 1,000,000 bytes"),
    ],
)
def test_a_file_that_is_no_source_is_refused_and_the_others_count(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "numpy_attention.py").write_bytes(data)
    (tmp_path / "torch_attention.py").write_text("x = 1\n")
    submission = read_submission(tmp_path, MODULES)
    assert list(submission.sources) == ["torch_attention"]
    assert submission.refused["numpy_attention"].startswith(sentence)


def test_links_pipes_and_folders_in_place_of_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "numpy_attention.py").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "torch_attention.py")
    submission = read_submission(tmp_path, MODULES)
    assert not submission.sources
    assert "symbolic link" in submission.refused["numpy_attention"]
    assert "no regular file" in submission.refused["torch_attention"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "no such file"),
        ("essay.pdf", "is no submission"),
        ("essay.py", "none of the exercise files"),
        ("numpy_attention.ipynb", "no Jupyter notebook"),
    ],
)
def test_what_cannot_be_read_at_all_is_one_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    if name != "absent":
        (tmp_path / name).write_text("[1, 2")
    with pytest.raises(SubmissionError, match=sentence):
        read_submission(tmp_path / name, MODULES)


def test_a_latin_1_file_that_says_so_is_python(tmp_path: Path) -> None:
    (tmp_path / "numpy_attention.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    assert "numpy_attention" in read_submission(tmp_path, MODULES).sources
