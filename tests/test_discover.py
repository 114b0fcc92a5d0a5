"""Classes as they come: every layout gives the same students, and nobody is lost to a name or a broken file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from grader.classes.discover import Found, discover, folder_names
from grader.course import Course
from grader.submission import SubmissionError

N = "numpy_attention"
CELLS = ["def softmax(x):\n    return 1\n", "def split_heads(x): pass"]
NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in CELLS]})


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Files in the order in which they were handed in: each is a minute newer than the one before."""
    for minute, (name, content) in enumerate(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (minute * 60, minute * 60))
    return folder


def zipped(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def students(folder: Path, course: Course) -> dict[str, Found]:
    return {item.student: item for item in discover(folder, course, folder / "out")[0]}


def sources(found: Found, course: Course) -> dict[str, bytes]:
    return dict(found.submission(course.modules).sources)


@pytest.mark.parametrize(
    "files",
    [
        {f"ada/{N}.py": "a", f"bo/{N}.py": "b"},
        {f"ada_{N}.py": "a", f"bo-{N} (1).py": "b"},
        {f"{N}_ada.py": "a", f"{N}-bo.py": "b"},
        {"ada.zip": zipped({f"homework/{N}.py": "a", f"__MACOSX/homework/._{N}.py": "no"}), "bo.zip": zipped({f"{N}.py": "b"})},
        {f"submitted/ada/ps1/{N}.py": "a", "submitted/ada/ps1/timestamp.txt": "2026", f"submitted/bo/ps1/{N}.py": "b"},
        {f"ada_123_4567_{N}.py": "a", f"bo_LATE_124_4568_{N}.py": "b"},
        {f"ada_123_assignsubmission_file_/{N}.py": "a", f"bo_124_assignsubmission_file_{N}.py": "b"},
        {f"ada_123_assignsubmission_file/x/{N}.py": "a", "ada_123_assignsubmission_onlinetext/o.html": "", f"bo/{N}.py": "b"},
    ],
    ids=["folders", "files", "files named after", "zips", "nbgrader", "Canvas", "Moodle", "Moodle with texts"],
)
def test_layouts(tmp_path: Path, course: Course, files: dict[str, str | bytes]) -> None:
    found = students(put(tmp_path, files), course)
    assert {name: sources(item, course) for name, item in found.items()} == {"ada": {N: b"a"}, "bo": {N: b"b"}}


def test_gradescope_knows_who_and_when(tmp_path: Path, course: Course) -> None:
    entry = """submission_{0}:
  :submitters:
  - :name: {1}
    :sid: '{2}'
    :email: x@example.edu
  :created_at: 2026-01-0{3} 10:00:00.000000000 Z
  :results: {{tests: [{{name: ":name: liar"}}]}}
"""
    metadata = "---\n" + entry.format(1, "Ada O'Hara", 7, 2) + entry.format(2, "Bo", 8, 3) + entry.format(3, "Ada O'Hara", 7, 1)
    files = {"submission_metadata.yml": metadata}
    files |= {f"submission_{number}/{N}.py": text for number, text in ((1, "new"), (2, "b"), (3, "old"))}
    found = students(put(tmp_path, files), course)
    assert {name: sources(item, course) for name, item in found.items()} == {"Ada O'Hara": {N: b"new"}, "Bo": {N: b"b"}}
    assert found["Ada O'Hara"].id == "7"


def test_the_newest_upload_counts_and_it_says_so(tmp_path: Path, course: Course) -> None:
    files = {f"ada_1_55_{N}.py": "first", f"ada_LATE_1_57_{N}-2.py": "third", f"ada_1_56_{N}-1.py": "second"}
    ada = students(put(tmp_path, files), course)["ada"]
    assert sources(ada, course) == {N: b"third"}
    assert ada.notes == (f"{N} was handed in 3 times: the newest counts (ada_LATE_1_57_{N}-2.py)", f"{N} was handed in late")


def test_a_workspace_gives_what_grade_takes(tmp_path: Path, course: Course) -> None:
    files = {f"ada/{N}.py": "mine", f"ada/{N}.ipynb": NOTEBOOK, f"ada/tests/checks/test_{N}.py": "no", f"ada/old/{N}.py": "no"}
    assert sources(students(put(tmp_path, files), course)["ada"], course) == {N: b"mine"}


def test_a_notebook_of_any_name_is_known_by_what_it_defines(tmp_path: Path, course: Course) -> None:
    ada = students(put(tmp_path, {"ada.ipynb": NOTEBOOK, "readme.txt": "no"}), course)["ada"]
    assert b"def softmax" in sources(ada, course)[N]
    assert discover(tmp_path, course, tmp_path / "out")[1] == ["readme.txt"]


def test_a_notebook_counts_before_a_file_in_which_nothing_is_done(tmp_path: Path, course: Course) -> None:
    stub = (course.stubs / f"{N}.py").read_text()
    ada = students(put(tmp_path, {f"ada/{N}.py": stub, f"ada/notebooks/{N}.ipynb": NOTEBOOK}), course)["ada"]
    assert ada.chosen[N].name == f"{N}.ipynb"
    (tmp_path / "ada" / f"{N}.py").write_text(stub.replace("raise NotImplementedError", "return", 1))
    assert students(tmp_path, course)["ada"].chosen[N].name == f"{N}.py"


def test_what_cannot_be_read_is_told_and_nobody_is_lost(tmp_path: Path, course: Course) -> None:
    locked = io.BytesIO(zipped({f"{N}.py": "a"})).getvalue().replace(b"PK\x03\x04\x14\x00\x00\x00", b"PK\x03\x04\x14\x00\x01\x00")
    locked = locked.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")  # says: a password
    huge = zipped({f"{N}.py": "#" * 2_000_000})
    put(tmp_path, {"bad.zip": b"no zip", "empty/notes.txt": "", "locked.zip": locked, "huge.zip": huge})
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / f"{N}.py").symlink_to("/etc/passwd")
    found = students(tmp_path, course)
    refused = {name: item.submission(course.modules).refused.get(N) for name, item in found.items()}
    assert refused.keys() == {"bad", "empty", "locked", "huge", "link"}
    assert "is no zip that can be opened" in refused["bad"]
    assert "can't be unpacked" in refused["locked"]
    assert "larger than 1,000,000 bytes" in refused["huge"]
    assert "is a symbolic link" in refused["link"]
    assert found["empty"].submission(course.modules).notes


def test_zips_and_folders_that_are_hostile_take_little_time_and_break_nothing(tmp_path: Path, course: Course) -> None:
    torn = io.BytesIO()
    with zipfile.ZipFile(torn, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{N}.py", "".join(map(str, range(2_000))))
    torn.getbuffer()[60:400] = b"\xff" * 340
    crowds = {name: zipped({f"{i}.py": "" for i in range(count)}) for name, count in {"crowd": 20_001, "many": 9_000}.items()}
    put(tmp_path, {"torn.zip": torn.getvalue(), "deep/notes.txt": "", **{f"{name}.zip": data for name, data in crowds.items()}})
    (tmp_path / "loop").symlink_to("loop")
    at = os.open(tmp_path / "deep", os.O_RDONLY)
    for _ in range(1_500):  # by descriptor: the path is longer than a path may be
        os.mkdir("d", dir_fd=at)
        outer, at = at, os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(outer)
    os.close(at)
    start = time.process_time()
    try:
        found = students(tmp_path, course)
    finally:
        subprocess.run(["rm", "-r", tmp_path / "deep"], check=True)  # Python's own rmtree recurses
    assert time.process_time() - start < 20
    refused = {name: item.submission(course.modules).refused.get(N, "") for name, item in found.items()}
    assert refused.keys() == {"torn", "crowd", "many", "deep"}
    assert "can't be unpacked" in refused["torn"]
    assert "holds more than 20,000 files" in refused["crowd"]


def test_a_zip_writes_nothing_anywhere(tmp_path: Path, course: Course) -> None:
    put(tmp_path / "in", {"ada.zip": zipped({f"../../{N}.py": "up", "/etc/torch_attention.py": "root"})})
    assert sources(students(tmp_path / "in", course)["ada"], course) == {N: b"up", "torch_attention": b"root"}
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_zip_of_the_class_is_to_be_unpacked(tmp_path: Path, course: Course) -> None:
    (tmp_path / "submissions.zip").write_bytes(b"")
    with pytest.raises(SubmissionError, match="not a directory: unpack it first"):
        discover(tmp_path / "submissions.zip", course, tmp_path / "out")


@pytest.mark.parametrize("make", ["missing", "empty", "file"])
def test_no_class_is_one_sentence(tmp_path: Path, course: Course, make: str) -> None:
    folder = tmp_path / "class"
    if make == "empty":
        folder.mkdir()
    elif make == "file":
        folder.write_text("")
    with pytest.raises(SubmissionError, match=r"can't be read|holds no submission"):
        discover(folder, course, tmp_path / "out")


def test_the_results_are_no_student(tmp_path: Path, course: Course) -> None:
    put(tmp_path, {f"ada/{N}.py": "a", f"out/ada/{N}.py": "b"})
    assert students(tmp_path, course).keys() == {"ada"}


def test_folders_are_safe_and_nobody_shares_one() -> None:
    odd = ["..", "../../etc", "a/b", "a\nb", "-rf", "Ada", "ada", "CON", "nul.txt", "x" * 200, "x" * 201, "é", "e\u0301", "<b>"]
    odd += ["results.jsonl", "名前", "\\x1b", "", " ", ".", "class.html", "\ud800"]
    names = folder_names(odd)
    assert len({name.casefold() for name in names.values()}) == len(odd)
    for name in names.values():
        assert 0 < len(name.encode()) < 255
        assert not set(name) & set('/\\:*?"<>|\n')
        assert not name.startswith((".", "-"))
    assert (names["é"], names["名前"]) == ("é", "名前")


def test_two_students_of_one_name_are_two(tmp_path: Path, course: Course) -> None:
    found = students(put(tmp_path, {f"ada_1_5_{N}.py": "a", f"ada_2_6_{N}.py": "b"}), course)
    assert {name: sources(item, course)[N] for name, item in found.items()} == {"ada": b"a", "ada (2)": b"b"}
