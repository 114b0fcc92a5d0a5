"""The page of a report in a real Chromium: it loads nothing and runs nothing, fits, and can be used by everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import REPORTS

from grader.formats import render

OPEN = "document.querySelectorAll('details').forEach(item => { item.open = true; })"


EVERY_WAY = [("every", width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]
NARROW = [(name, 390, "dark") for name in ("right", "skipped", "broken", "script", "controls", "long", "long line feeds")]


@pytest.mark.parametrize(("name", "width", "scheme"), [*EVERY_WAY, *NARROW])
def test_a_report_s_page(browser: Any, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tmp_path / "report.html"
    page.write_text(render("html", REPORTS[name]), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab, asked, said = context.new_page(), list[str](), list[str]()
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    tab.goto(page.as_uri())
    tab.evaluate(OPEN)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.run(tab).response
    assert [(item["id"], item["impact"], item["nodes"][0]["html"][:200]) for item in found["violations"]] == []
    assert len(found["passes"]) > 15
    assert asked == [page.as_uri()]
    assert said == []
    context.close()


def test_axe_does_look(browser: Any, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tmp_path / "report.html"
    page.write_text(
        render("html", REPORTS["every"]).replace('<html lang="en">', "<html>").replace('role="img" aria-label', 'role="img" x')
    )
    tab = browser.new_page()
    tab.goto(page.as_uri())
    assert {"html-has-lang", "svg-img-alt"} <= {item["id"] for item in axe.run(tab).response["violations"]}
    tab.close()
