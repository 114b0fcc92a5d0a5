"""Reports by hand: every status, and everything that a student's code might say to break a page or a platform."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from grader.report import Check, Mistake, Report, Status, by_exercise
from grader.trouble import Frame, Trouble

INVERTED = Mistake("mask_polarity_inverted", "The mask is read the wrong way round.", "What does True mean here?")
HINTS = (("lesson.first", ("A question?", "A formula", "A near-answer")), ("other.second", ("Another question?",)))

HOSTILE = {
    "script": "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "cdata": "]]> ]]&gt; <![CDATA[ </failure> &lt; --> <!--",
    "workflow": "::error::owned\n::add-mask::a\n  ::stop-commands::x\n##[error]owned\n:::::set-output name=x::y%0A::warning::z",
    "ansi": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "controls": "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029\ufffe\uffff\ud800\udfff",
    "unicode": "naïve 头 🙂 \u202eright to left\u202c e\u0301 ﷽",
    "markdown": "# h\n| a | b |\n```\n````\n~~~\n[x](http://127.0.0.1:9) ![i](http://127.0.0.1:9) @all #1\n</details>\n***",
    "fences": "x\n`````\n\n</details>\n\n# heading <b>b</b>\n",
    "csv": '=1+1,"x"\r\n@SUM(A1)\t',
    "json": '"}],"score":100,"x":[{"\\u0000\\',
    "template": "{{ 7 * 7 }} ${{ secrets.TOKEN }} %s {0}",
    "long": "é" * 1_000_000,
    "long line feeds": "\n" * 300_000 + "`" * 300_000,
}


def check(number: int, exercise: str, points: str, status: Status, said: str = "", hidden: bool = False) -> Check:
    """A check of which a student's code says `said` wherever it can say something."""
    wrong = status in ("failed", "crashed")
    trouble = Trouble("raised", "ValueError", said, (Frame(f"{exercise.split('.')[0]}.py", number, said, said, said),), said)
    return Check(
        id=f"{exercise}/{'hidden' if hidden else 'visible'}/check_{number}",
        exercise=exercise,
        title=f"claim {number}: a row's sum is <1> & {said[:60].partition(chr(10))[0]}".strip(),
        points=Fraction(points),
        status=status,
        message=f"got {said}" if status != "passed" else "",
        mistake=INVERTED if wrong and number % 2 else None,
        trouble=trouble if status == "crashed" else None,
        hidden=hidden,
        symptom=said if wrong and not number % 2 else "",
        follows=("lesson.first",) if status == "failed" and exercise == "other.second" else (),
    )


def report(*statuses: Status, said: str = "a shape (2, 3)", name: str = "jane") -> Report:
    """A report with these statuses: three visible checks in the first exercise, then two hidden ones, then the second's."""
    points = ("1", "1/3", "5/2", "1/3", "1/4", "1", "1/6", "2", "1/6", "1/8")
    checks = [
        check(number, "lesson.first" if number < 5 else "other.second", points[number % 10], status, said, number in (3, 4, 8))
        for number, status in enumerate(statuses)
    ]
    return Report(name, by_exercise(checks, HINTS), "strong", 2017, (f"handed in late: {said[:200]}",))


EVERY: tuple[Status, ...] = ("passed", "failed", "crashed", "failed", "passed", "todo", "blocked", "skipped", "crashed", "passed")

REPORTS: dict[str, Report] = {
    "right": report(*["passed"] * 10),
    "wrong": report(*["failed"] * 10),
    "todo": report(*["todo"] * 9),
    "crashed": report(*["crashed"] * 9),
    "skipped": report(*["skipped"] * 9),
    "partly skipped": report("passed", "skipped", "failed", "skipped", "passed", "skipped", "passed"),
    "broken": report("passed", "broken", "failed", "broken", "passed", "passed"),
    "all broken": report(*["broken"] * 5),
    "empty": Report("nobody", (), "none", 0, ("no exercise file was found in what was handed in",)),
    "every": report(*EVERY),
    **{name: report(*EVERY, said=said, name=said[:300]) for name, said in HOSTILE.items()},
    "many": report(*["crashed"] * 200, said="é" * 5000 + "\x1b"),
}


def showing(shown: str) -> Report:
    """The report with every status, where the course shows `shown` of its hidden checks."""
    return replace(REPORTS["every"], show_hidden=shown)  # type: ignore[arg-type]
