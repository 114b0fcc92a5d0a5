"""The report as JUnit XML, in the form that pytest calls xunit2 and CI systems read: a suite an exercise, a case a check.

The form has no place for points: each suite has the properties `score` and `max_score`, and the whole is named with its own.
"""

from __future__ import annotations

from xml.etree import ElementTree as tree

from ..report import Check, Exercise, Report, Status, number
from .escape import printable
from .words import for_students, heading, told

ELEMENTS: dict[Status, str] = {
    **{"failed": "failure", "todo": "failure", "blocked": "failure"},
    **{"crashed": "error", "broken": "error", "skipped": "skipped"},
}


def junit(report: Report) -> str:
    """One `testsuites` element."""
    shown = for_students(report)
    name = f"{printable(report.submission)}: {heading(report).partition(chr(10))[0]}"
    whole = tree.Element("testsuites", {"name": name, **_counts(shown.checks, skipped=False)})
    for exercise in shown.exercises:
        whole.append(_suite(exercise))
    tree.indent(whole)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tree.tostring(whole, encoding="unicode")}\n'


def _suite(exercise: Exercise) -> tree.Element:
    suite = tree.Element("testsuite", {"name": exercise.name, **_counts(exercise.checks)})
    properties = tree.SubElement(suite, "properties")
    for name, value in (("score", exercise.score), ("max_score", exercise.max_score)):
        tree.SubElement(properties, "property", name=name, value=str(number(value)))
    for check in exercise.checks:
        case = tree.SubElement(suite, "testcase", classname=exercise.name, name=printable(check.title))
        if check.status in ELEMENTS:
            words = told(check)
            first = words.partition("\n")[0]
            tree.SubElement(case, ELEMENTS[check.status], type=check.status, message=first).text = words
    return suite


def _counts(checks: tuple[Check, ...], skipped: bool = True) -> dict[str, str]:
    kinds = [ELEMENTS.get(check.status) for check in checks]
    counts = {"tests": len(kinds), "failures": kinds.count("failure"), "errors": kinds.count("error")}
    return {name: str(count) for name, count in (counts | ({"skipped": kinds.count("skipped")} if skipped else {})).items()}
