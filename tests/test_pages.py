"""The pages in a real Chromium: sorted, filtered, walked by keyboard, printed; nothing runs, nothing is loaded."""

from __future__ import annotations

import csv as csv_module
import io
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import report as report_of

from grader.classes.similar import Similar
from grader.formats.classpage import Class, classpage
from grader.formats.csv import csv, gradebooks
from grader.formats.html import html, page
from grader.formats.json import as_data
from grader.report import Check, Mistake, Report, by_exercise, together
from grader.trouble import Frame, Trouble

EVIL = "<script>window.pwned = 1</script><img src=http://127.0.0.1:9/x onerror='window.pwned = 1'>"
NAMES = ["Ada", "Bo", "=cmd|'/c calc'!A1", EVIL, '"><svg onload=window.pwned=1>', "Émile"]
INVERTED = Mistake("mask_polarity_inverted", "The mask is read the wrong way round.", "What does True mean?")
UNSCALED = Mistake("scale_missing", "The scores are not scaled.", "By what do they grow?")


def report(name: str, number: int) -> Report:
    crash = Trouble("raised", "ValueError", EVIL, (Frame("lesson.py", 7, EVIL, EVIL),), EVIL)
    both = together((UNSCALED, INVERTED))
    mistake = (INVERTED, both)[number % 2]
    checks = [
        Check("a/1", "lesson.first", "rows sum to 1", Fraction(number), "passed"),
        Check("a/2", "lesson.first", "a mask hides keys", Fraction(10 - number), "failed", f"got {EVIL}", mistake),
        Check("b/1", "lesson.second", "it ends", Fraction(4), "crashed" if number == 2 else "todo", EVIL, trouble=crash),
    ]
    hints = ((exercise, ("A question?",)) for exercise in ("lesson.first", "lesson.second"))
    return Report(name, by_exercise(checks, hints), "strong", 1, (f"handed in late {EVIL}",) if number == 3 else ())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("class")
    whole = Class(f"A course {EVIL}", ["lesson.first", "lesson.second"])
    for number, name in enumerate(NAMES, 1):
        data = {"student": name, **as_data(report(name, number))}
        whole.add(data, f"s {number}/report.html")
        (out / f"s {number}").mkdir()
        (out / f"s {number}" / "report.html").write_text(page(data, {"lesson.first": ["A question?"]}))
    (out / "class.html").write_text(classpage(whole, [(97, "Ada", EVIL)]))
    return out


@pytest.fixture
def tab(browser: Any, folder: Path) -> Iterator[Any]:
    """The class's page. At the end: no script of a submission has run, nothing was asked for, nothing was complained of."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    tab = context.new_page()
    asked, said = [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto((folder / "class.html").as_uri())
    yield tab
    assert tab.evaluate("window.pwned") is None
    assert all(url.startswith("file:") and url.endswith(".html") for url in asked), asked
    assert said == []
    context.close()


def rows(tab: Any) -> list[str]:
    return tab.locator("#heat tbody tr:visible th").all_inner_texts()


def test_it_sorts_by_any_column(tab: Any) -> None:
    assert rows(tab)[0] == "Ada"
    tab.get_by_role("button", name="Score").click()
    assert [name[:3] for name in rows(tab)] == [name[:3] for name in reversed(NAMES)]
    assert tab.locator("#heat th", has_text="Score").get_attribute("aria-sort") == "descending"
    tab.get_by_role("button", name="Score").click()
    assert rows(tab)[0] == "Ada"
    tab.get_by_role("button", name="second").click()
    assert rows(tab)[0] == "Bo"  # a crash is a 0, and what is to do comes below that
    assert tab.locator("#heat [aria-sort]").count() == 1


def test_it_filters_by_name_and_by_what_happened(tab: Any) -> None:
    tab.get_by_label("Find a student").fill("BO")
    assert rows(tab) == ["Bo"]
    assert tab.locator("#count").inner_text() == "1 of 6"
    tab.get_by_label("Find a student").fill("")
    tab.get_by_role("button", name="Crashed").click()
    assert rows(tab) == ["Bo"]
    tab.get_by_role("button", name="With a note").click()
    assert rows(tab) == []
    tab.get_by_role("button", name="Crashed").click()
    assert len(rows(tab)) == 1


def test_a_keyboard_is_enough(tab: Any) -> None:
    tab.locator("#filter").focus()
    for _ in range(8):  # five filters, the table itself, then two heads
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert tab.locator("#heat [aria-sort]").inner_text() == "Score"
    for _ in range(3):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/report.html")


def test_it_leads_to_each_student(tab: Any) -> None:
    for name in NAMES:
        tab.locator("#heat").get_by_role("link", name=name, exact=True).click()
        assert tab.locator("h1").inner_text() == name
        assert "got <script>" in tab.locator("main").inner_text()
        tab.go_back()


def test_it_says_what_was_wrong_and_what_nobody_got(tab: Any) -> None:
    mistakes = tab.locator("section[aria-labelledby=mistakes] li.card").all_inner_texts()
    assert "6 of 6 students" in mistakes[0]
    assert "What does True mean?" in mistakes[0]
    assert "3 of 6 students" in mistakes[1]
    assert "a mask hides keys" in tab.locator("section[aria-labelledby=nobody]").inner_text()
    assert "97 %" in tab.locator("section[aria-labelledby=similar]").inner_text()


def test_a_crash_shows_the_student_s_own_line(tab: Any, folder: Path) -> None:
    tab.goto((folder / "s 2" / "report.html").as_uri())
    text = tab.locator("main").inner_text()
    assert "lesson.py, line 7" in text
    assert "What happens: The mask is read the wrong way round." in text
    assert "Hint: What does True mean?" in text
    assert "It printed" in text


def test_a_file_that_is_no_python_needs_no_hint_on_attention() -> None:
    made = as_data(report_of("crashed"))
    [check] = made["exercises"][0]["checks"]
    for function, hinted in (("first", True), ("<module>", False)):
        check["trace"][-1]["function"] = function
        assert ("Hint:" in page(made, {"lesson.first": ["A question?"]})) is hinted


@pytest.mark.parametrize("file", ["class.html", "s 2/report.html"])
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_and_can_be_read(browser: Any, folder: Path, file: str, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto((folder / file).as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    colours = tab.evaluate(CONTRAST)
    assert len(colours) > 20
    assert not [found for found in colours if found[0] < 4.4]  # 4.5 is what WCAG asks; the canvas rounds
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 24, 28)") == (scheme == "dark")
    context.close()


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = (parts) => parts.map((part) => linear(part / 255))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, .hidden-text, script, style")) continue;
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
    const [a, b] = [light(rgb(layers)), light(rgb([...layers, getComputedStyle(element).color]))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.outerHTML.slice(0, 80)]);
  }
  return found;
}"""


def test_it_prints_everybody(browser: Any, folder: Path) -> None:
    tab = browser.new_page()
    tab.goto((folder / "class.html").as_uri())
    assert tab.pdf().startswith(b"%PDF")
    tab.emulate_media(media="print")
    assert tab.locator(".tools").is_hidden()
    assert tab.locator(".scroll").evaluate("item => getComputedStyle(item).overflow") == "visible"
    tab.close()


def test_one_report_as_a_page_and_as_csv() -> None:
    text = html(report(EVIL, 2))
    assert "<script>" not in text
    assert "<img" not in text
    assert text.endswith("\n")
    head, row = csv_module.reader(io.StringIO(csv(report("=1+1", 2))))
    assert (head[0], row) == ("submission", ["'=1+1", "2", "0", "2", "14", "graded"])


@pytest.mark.parametrize("name", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "＝1"])
def test_no_name_is_a_formula(name: str) -> None:
    whole = Class("course", ["lesson.first"])
    whole.add({"student": name, **as_data(report(name, 1))}, "x/report.html")
    for text in gradebooks(whole, {name: "12"}).values():
        cells = [cell for row in csv_module.reader(io.StringIO(text, newline="")) for cell in row]
        assert f"'{name}" in cells
        assert name not in cells
    moodle = gradebooks(whole, {name: "12"})["moodle.csv"]
    assert "Participant 12" in moodle


def test_copies_stand_out_and_the_lesson_s_own_words_do_not() -> None:
    rng = np.random.default_rng(0)
    stub = " ".join(f"lesson{number}" for number in range(500))

    def own() -> str:
        return " ".join(f"name{number} = value{number}\n" for number in rng.integers(0, 10_000, 200))

    texts = {f"s{number}": own() for number in range(12)}
    texts["copy"] = texts["s3"].replace("name1", "renamed1", 3)
    own_of_the_leak = own()
    found = Similar([stub])
    for student, text in texts.items():
        found.add(student, [f"{stub}\n{text}".encode()])
    [(share, *pair)] = found.pairs()
    assert sorted(pair) == ["copy", "s3"]
    assert 80 < share < 100
    for number in range(8):  # too many to be rare
        found.add(f"leak{number}", [(stub + own_of_the_leak).encode()])
    assert [pair for pair in found.pairs() if pair[0] == 100] == [(100, "leak0", f"leak{number}") for number in range(1, 8)]
