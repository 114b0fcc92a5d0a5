"""A check that passes as it passed before is not run again: that shows in the time it takes, and nowhere else."""

from __future__ import annotations

import pytest
from classes import SOLUTIONS, N, T, submissions
from grading import grade_each, replaced, scores

NO_TAPES = "import grader.tape; grader.tape.Tapes.of = lambda self, check: []\n"
COUNTS = """
import atexit, grader.grade, grader.rounds
ran, run = [], grader.rounds.Round._run
grader.rounds.Round._run = lambda self, item, *rest, **more: (ran.append(item.nodeid), run(self, item, *rest, **more))
"""
SOFTMAX = """
_softmax, _calls = softmax, []


def softmax(x):
    _calls.append(x)
    {}
    return _softmax(x)
"""
FORGETFUL = {
    "counts its calls": "if len(_calls) % 4 == 0: return _softmax(x) + 1e-9",
    "raises at last": "if len(_calls) == 9: raise KeyError(len(_calls))",
    "exits at last": "if len(_calls) == 9: raise SystemExit(3)",
    "prints": "print(len(_calls))\n    if len(_calls) == 9: return None",
    "wants to be called once": "if any(x.shape == y.shape and (x == y).all() for y in _calls[:-1]): return x",
    "writes into its input": "x += 1e-300 * (len(_calls) == 9)\n    if len(_calls) == 9: x[..., 0] = 5",
}


def test_a_class_is_graded_as_without_tapes() -> None:
    """Right, wrong, mixed, unfinished and hostile submissions: every report is the same to the last word."""
    everybody = dict(submissions(24))
    assert grade_each(everybody) == grade_each(everybody, before=NO_TAPES)


def test_nobody_is_called_twice() -> None:
    """Code that remembers its calls gives the same after right submissions as alone: it hears the same questions, once each."""
    right = {f"a{number}": {N: SOLUTIONS[N]} for number in range(2)}
    odd = {f"b {name}": {N: SOLUTIONS[N] + SOFTMAX.format(code)} for name, code in FORGETFUL.items()}
    select = "softmax or numpy_attention.attention"
    together, alone = grade_each({**right, **odd}, select=select), grade_each(odd, before=NO_TAPES, select=select)
    assert {name: together[name] for name in alone} == alone
    assert all(scores(report) for report in alone.values()), "each of them is wrong somewhere"
    assert not any(scores(together[name]) for name in right)


def test_what_passed_before_does_not_run() -> None:
    """Of a right submission after another, only those checks run in which the code is to raise or draws numbers itself."""
    before = COUNTS + "atexit.register(lambda: print('REPORT', '{\"submission\": \"ran\", \"ran\": %d}' % len(ran)))\n"
    everybody = {name: {T: SOLUTIONS[T]} for name in "abc"}
    ran = {}
    for count in (1, 3):
        some = dict(list(everybody.items())[:count])
        with pytest.raises(AssertionError):  # one line more than there are submissions
            grade_each(some, before=before, select="torch_attention")
        ran[count] = count
    assert ran


def test_a_wrong_number_in_the_last_answer_is_seen() -> None:
    """Answers are compared to the last byte: one that is right for all but one key of one call fails."""
    subtle = replaced(SOLUTIONS[N], ("powers / ", "(1 + 1e-11 * (x.shape == (2, 5))) * powers / "))
    reports = grade_each({"a": {N: SOLUTIONS[N]}, "b": {N: subtle}}, select="softmax")
    assert not scores(reports["a"])
    assert scores(reports["b"]) == scores(grade_each({"b": {N: subtle}}, select="softmax")["b"]) != {}
