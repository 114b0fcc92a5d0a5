"""One report in all formats: the same score, maximum and titles, whatever a student's code has said."""

from __future__ import annotations

import base64
import csv
import html.parser
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import jsonschema
import junitparser
import pytest
import xmlschema
from markdown_it import MarkdownIt
from reports import HOSTILE, REPORTS, showing
from reports import report as report_of

import grader.formats
from grader.formats import FORMATS, render
from grader.formats.escape import printable
from grader.formats.github import commands, runners
from grader.formats.markdown import plain
from grader.formats.words import WITHHELD
from grader.report import Report, number
from grader.verbs.grade import paired

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
NAMES = {
    **{"text": "report.txt", "json": "report.json", "markdown": "report.md", "html": "report.html", "junit": "junit.xml"},
    **{"gradescope": "gradescope.json", "github": "github.txt", "prairielearn": "prairielearn.json", "csv": "report.csv"},
}
SCHEMA = json.loads((Path(grader.formats.__file__).parent / "report.schema.json").read_text())
JUNIT = xmlschema.XMLSchema(str(HERE / "junit.xsd"))
Found = tuple[float, float, list[str]]  # score, maximum, titles


@pytest.fixture(params=sorted(REPORTS))
def report(request: pytest.FixtureRequest) -> Report:
    return REPORTS[request.param]


def titles(report: Report) -> list[str]:
    return [printable(check.title) for check in report.checks]


# What each format says, read as its readers read it.


def in_text(text: str) -> Found:
    score, most = re.search(r"^([\d.]+) of ([\d.]+) points$", text, re.MULTILINE).groups()  # type: ignore[union-attr]
    return float(score), float(most), []


def in_json(text: str) -> Found:
    data = json.loads(text)
    jsonschema.validate(data, SCHEMA)
    checks = [check for exercise in data["exercises"] for check in exercise["checks"]]
    return data["score"], data["max_score"], [check["title"] for check in checks]


def inlines(text: str) -> Iterator[tuple[str, str]]:
    """The kind and text of each block of Markdown."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline":
            assert {child.type for child in token.children or ()} <= {
                "text",
                "text_special",
                "code_inline",
                "strong_open",
                "strong_close",
            }
            yield "inline", "".join(child.content for child in token.children or ())
        elif token.content:
            yield token.type, token.content


def in_markdown(text: str) -> Found:
    blocks = list(inlines(text))
    points = next(re.fullmatch(r"([\d.]+) of ([\d.]+) points", words) for _, words in blocks if words.endswith("points"))
    assert points is not None
    found = [re.fullmatch(r"\w+, [\d.]+ of [\d.]+: (.*)", words, re.DOTALL) for kind, words in blocks if kind == "inline"]
    return float(points[1]), float(points[2]), [match[1] for match in found if match]


class Page(html.parser.HTMLParser):
    """The score and the titles of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.path: list[str] = []
        self.score, self.titles = "", list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "iframe", "object", "embed", "link", "base", "form")
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in ("meta", "rect"):
            self.path.append(f"{tag}.{dict(attrs).get('class') or ''}")
            if self.path[-2:] == ["li.", "span."]:
                self.titles.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "rect"):
            assert self.path.pop().split(".")[0] == tag

    def handle_data(self, data: str) -> None:
        if "p.score" in self.path:
            self.score += data
        if self.path[-2:] == ["li.", "span."]:
            self.titles[-1] += data


def in_html(text: str) -> Found:
    page = Page(text)
    assert not page.path
    score, most = re.search(r"([\d.]+) of ([\d.]+) points", page.score).groups()  # type: ignore[union-attr]
    return float(score), float(most), page.titles


def in_junit(text: str) -> Found:
    JUNIT.validate(text)
    suites = junitparser.JUnitXml.fromstring(text.encode())
    assert isinstance(suites, junitparser.JUnitXml)
    assert (suites.tests, suites.failures, suites.errors) == tuple(
        sum(getattr(suite, count) for suite in suites) for count in ("tests", "failures", "errors")
    )
    points = [{item.name: float(item.value) for item in suite.properties()} for suite in suites]
    found = [case.name for suite in suites for case in suite]
    assert [f"{case.classname}" for suite in suites for case in suite] == [suite.name for suite in suites for _ in suite]
    return sum(item["score"] for item in points), sum(item["max_score"] for item in points), found


def without_exercise(name: str) -> str:
    return name.partition(": ")[2]


def in_gradescope(text: str) -> Found:
    data = json.loads(text)
    jsonschema.validate(data, GRADESCOPE)
    assert len({test["number"] for test in data["tests"]}) == len(data["tests"])
    assert sum(test["score"] for test in data["tests"]) == pytest.approx(data["score"], abs=1e-3)
    most = sum(test["max_score"] for test in data["tests"])
    return data["score"], most, [without_exercise(test["name"]) for test in data["tests"]]


def in_prairielearn(text: str) -> Found:
    assert len(text.encode()) <= 1_000_000
    data = json.loads(text)
    jsonschema.validate(data, PRAIRIELEARN)
    score, most = (sum(test[name] for test in data["tests"]) for name in ("points", "max_points"))
    assert data["score"] == pytest.approx(score / most if most else 0, abs=1e-3)
    return score, most, [without_exercise(test["name"]) for test in data["tests"]]


def in_github(text: str) -> Found:
    assert len(text) < 128 * 1024  # one environment variable
    data = decoded(text)
    return announced([data]), data["max_score"], [without_exercise(test["name"]).replace("\u200b", "") for test in data["tests"]]


def in_csv(text: str) -> Found:
    head, row = csv.reader(io.StringIO(text, newline=""))
    cells = dict(zip(head, row, strict=True))
    return float(cells["score"]), float(cells["max_score"]), []


READERS: dict[str, Callable[[str], Found]] = {name: globals()[f"in_{name}"] for name in FORMATS}

WORDS = {"type": "string", "maxLength": 30_000}
GRADESCOPE: dict[str, Any] = {
    "type": "object",
    "required": ["score", "tests"],
    "additionalProperties": False,
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "execution_time": {"type": "number"},
        "output": WORDS,
        "output_format": {"enum": ["text", "html", "simple_format", "md", "ansi"]},
        "test_output_format": {"enum": ["text", "html", "simple_format", "md", "ansi"]},
        "visibility": {"enum": ["visible", "hidden", "after_due_date", "after_published"]},
        "stdout_visibility": {"enum": ["visible", "hidden", "after_due_date", "after_published"]},
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "score", "max_score", "output"],
                "properties": {
                    "name": WORDS,
                    "score": {"type": "number", "minimum": 0},
                    "max_score": {"type": "number", "minimum": 0},
                    "status": {"enum": ["passed", "failed"]},
                    "number": {"type": "string"},
                    "output": WORDS,
                    "output_format": {"enum": ["text"]},  # what a student wrote is nothing else
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": {"enum": ["visible", "hidden", "after_due_date", "after_published"]},
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}
PRAIRIELEARN: dict[str, Any] = {
    "type": "object",
    "required": ["gradable", "score", "tests"],
    "additionalProperties": False,
    "properties": {
        "gradable": {"type": "boolean"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "message": WORDS,
        "output": WORDS,
        "format_errors": {"type": "array", "items": WORDS},
        "images": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "points", "max_points"],
                "properties": {
                    **dict.fromkeys(("name", "description", "message", "output"), WORDS),
                    **{name: {"type": "number", "minimum": 0} for name in ("points", "max_points")},
                },
            },
        },
    },
}


# GitHub Classroom's reporter: its arithmetic, as its sources have it (src/helpers/test-helpers.js, src/notify-classroom.js).


def decoded(result: str) -> Any:
    return json.loads(base64.b64decode(result))


def announced(results: list[Any]) -> float:
    """The points of its annotation, which Classroom reads."""
    return sum(test["score"] for data in results if data["max_score"] for test in data["tests"])


def test_the_terminal_shows_no_empty_line_after_a_print() -> None:
    assert "It printed: hello\n  2 of its 2 checks" in render("text", report_of("crashed", "crashed", said="hello\n"))


def test_what_a_student_prints_is_no_command_in_a_log_on_github() -> None:
    shown = render("text", report_of("crashed", "crashed", said="x\n::set-output name=score::100\n##[add-mask]1\n"))
    assert "set-output" in shown
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("::") or "##[" in line]


def printed(results: list[Any]) -> float:
    """The points of the table on its console."""
    passed = [sum(test["status"] == "pass" for test in data["tests"]) / len(data["tests"]) for data in results]
    return sum(share * (data["max_score"] or 0) for share, data in zip(passed, results, strict=True))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_the_same(report: Report, name: str) -> None:
    text = render(name, report)
    assert text.endswith("\n")
    text.encode()
    score, most, found = READERS[name](text)
    assert score == pytest.approx(float(report.score), abs=6e-3)
    assert most == pytest.approx(float(report.max_score), abs=6e-3)
    if name == "github":  # what does not count is in no total there
        assert found == [printable(check.title) for check in report.checks if check.counts] or found == [""]
    elif name == "markdown":
        assert found == [" ".join(title.split()) for title in titles(report)]
    elif name not in ("text", "csv"):
        assert found == titles(report)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_that_a_student_says_acts(report: Report, name: str) -> None:
    text = render(name, report)
    if name == "github":
        text = "\n".join(f"{test['name']}\n{test.get('message', '')}" for test in decoded(text)["tests"])
        assert not re.search(r"::|##\[", text)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\ufffe\uffff]", text)
    if name in ("gradescope", "prairielearn", "github", "markdown"):
        assert len(text.encode()) <= 1_000_000


def test_markdown_holds_what_is_said_in_fences(report: Report) -> None:
    text = render("markdown", report)
    kinds = [words.strip() for kind, words in inlines(text) if kind in ("html_block", "html_inline")]
    allowed = re.compile(r"</?details( open)?>(\n<summary>[\w.]+: \d+ of \d+ checks pass</summary>)?")
    assert all(allowed.fullmatch(words) for words in kinds), kinds
    assert kinds.count("</details>") == len(report.exercises)
    assert len(text.encode()) < 1 << 20  # GitHub's limit


@pytest.mark.parametrize("said", HOSTILE.values(), ids=list(HOSTILE))
def test_plain_is_plain(said: str) -> None:
    [(kind, words)] = inlines(f"x {plain(printable(said, 500))}") or [("", "")]
    assert (kind, words) == ("inline", " ".join(f"x {printable(said, 500)}".split()))


def test_runners_add_up_twice(report: Report) -> None:
    results = [decoded(text) for text in runners(report).values()]
    assert announced(results) == pytest.approx(float(report.score), abs=len(results) / 1024)
    assert sum(data["max_score"] for data in results) == pytest.approx(float(report.max_score), abs=len(results) / 1024)
    assert printed(results) == pytest.approx(announced(results), abs=len(results) / 1024)
    assert sum(map(len, runners(report).values())) < 1_000_000  # the outputs of a job
    for data in results:
        assert data["tests"]
        assert len({test["score"] for test in data["tests"] if test["status"] == "pass"} - {0}) <= 2  # thirds are rounded
        assert data["version"] == 1
        assert data["status"] in ("pass", "fail", "error")
        assert all(isinstance(test["score"], int | float) for test in data["tests"])


def test_a_right_answer_adds_up_to_a_whole_number() -> None:
    results = [decoded(text) for text in runners(REPORTS["right"]).values()]
    assert announced(results) == float(REPORTS["right"].max_score) == sum(data["max_score"] for data in results)
    assert {data["status"] for data in results} == {"pass"}


def test_workflow_commands_are_one_line_each(report: Report) -> None:
    said = commands(report, {"lesson.first": ("lesson.py", 3), "other.second": ("other.py", 7)})
    wrong = [item for item in report.exercises if item.trouble and item.trouble.status in ("failed", "crashed")]
    lines = said.split("\n")[:-1]
    assert len(lines) <= len(wrong)
    for line in lines:
        match = re.fullmatch(r"::error file=(lesson|other)\.py,line=\d+,title=[^:,]*::(.+)", line)
        assert match, line
        assert not re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f]", line)
    assert bool(lines) == bool(wrong)


def test_a_line_of_no_file_of_theirs_is_not_annotated() -> None:
    assert "file=lesson.py,line=0," in commands(REPORTS["crashed"], {"lesson.first": ("lesson.py", 3)})  # the line they told
    assert "file=lesson.py,line=3," in commands(REPORTS["wrong"], {"lesson.first": ("lesson.py", 3)})
    assert "file=" not in commands(REPORTS["crashed"], {"else.where": ("else.py", 3)})


@pytest.mark.parametrize("name", ["markdown", "junit", "github", "prairielearn", "gradescope"])
def test_hidden_checks_are_shown_as_the_course_says(name: str) -> None:
    def shown(how: str) -> str:
        text = render(name, showing(how))
        return json.dumps(decoded(text)) if name == "github" else text

    [title] = {check.title for check in showing("visible").checks if check.id.endswith("hidden/check_3")}
    title = plain(title) if name == "markdown" else title
    marked = {"junit": ("<1> &", "&lt;1&gt; &amp;")}.get(name, ("", ""))
    title = title.replace(*marked)
    assert title in shown("visible")
    assert WITHHELD not in shown("visible")
    assert title in shown("titles")
    assert shown("titles").count(WITHHELD) >= 1
    for how in ("hidden", "after_due_date", "after_published"):
        if name == "gradescope":  # which keeps it back by itself
            tests = json.loads(shown(how))["tests"]
            assert {test["visibility"] for test in tests if test["extra_data"]["hidden"]} == {how}
            assert {test["visibility"] for test in tests if not test["extra_data"]["hidden"]} == {"visible"}
        else:
            assert title not in shown(how)
            assert "hidden check 4" in shown(how)
    if name == "gradescope":  # one that is not visible would hide the total
        assert {test["visibility"] for test in json.loads(shown("titles"))["tests"]} == {"visible"}


def test_a_broken_grader_costs_nobody_an_attempt() -> None:
    for name in ("broken", "all broken", "skipped", "empty"):
        data = json.loads(render("prairielearn", REPORTS[name]))
        assert data["gradable"] is False
        assert data["format_errors"]
    assert json.loads(render("prairielearn", REPORTS["wrong"]))["gradable"] is True
    assert decoded(render("github", REPORTS["broken"]))["status"] == "error"
    assert "no fault of yours" in json.loads(render("gradescope", REPORTS["broken"]))["output"]


@pytest.mark.parametrize("name", FORMATS)
def test_golden(name: str) -> None:
    """The bytes that each format gives. `GOLDEN=write pytest tests/test_formats.py -k golden` writes them anew: read the diff."""
    text, path = render(name, REPORTS["every"]), GOLDEN / NAMES[name]
    if os.environ.get("GOLDEN") == "write":
        path.write_bytes(text.encode())
    assert path.read_bytes().decode() == text


def test_the_schema_holds_and_bites() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    data = json.loads(render("json", REPORTS["every"]))
    for spoil in ({"score": "7"}, {"more": 1}, {"status": "fine"}, {"exercises": [{"name": "x.y"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**data, **spoil}, SCHEMA)


A, B = Path("a"), Path("b")


@pytest.mark.parametrize(
    ("order", "formats", "outputs", "due"),
    [
        ("", "", [], [("text", None)]),
        ("o", "", [A], [("text", A)]),
        ("f", "json", [], [("json", None)]),
        ("fo", "json", [A], [("json", A)]),
        ("of", "json", [A], [("json", A)]),
        ("fof", "json text", [A], [("json", A), ("text", None)]),
        ("ffo", "text json", [A], [("text", None), ("json", A)]),
        ("fofo", "junit json", [A, B], [("junit", A), ("json", B)]),
        ("off", "junit json", [A], [("junit", A), ("json", None)]),
    ],
)
def test_formats_and_outputs_are_paired(order: str, formats: str, outputs: list[Path], due: list[Any]) -> None:
    flags = ["--format" if flag == "f" else "--output" for flag in order]
    assert paired(flags, formats.split(), outputs) == due


@pytest.mark.parametrize(("order", "formats", "outputs"), [("ff", "text json", []), ("foo", "json", [A, B]), ("oo", "", [A, B])])
def test_what_can_t_be_paired_is_refused(order: str, formats: str, outputs: list[Path]) -> None:
    flags = ["--format" if flag == "f" else "--output" for flag in order]
    with pytest.raises(click.UsageError, match="--output"):
        paired(flags, formats.split(), outputs)


def test_the_command_writes_them_all(tiny: pytest.Pytester) -> None:
    wanted = [name for name in FORMATS if name != "text"]
    places = [word for name in wanted for word in ("--format", name, "--output", str(tiny.path / name))]
    run = subprocess.run(
        [sys.executable, "-m", "grader", "--course", str(tiny.path), "grade", str(tiny.path / "solutions"), *places,
         "--format", "text"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert in_text(run.stdout)[:2] == (5, 5)
    for name in wanted:
        assert READERS[name]((tiny.path / name).read_text(encoding="utf-8"))[:2] == (5, 5)
    assert not list(tiny.path.glob(".*.new"))


def test_number_is_what_every_format_rounds_to() -> None:
    assert number(Fraction(1, 3)) == 0.3333
