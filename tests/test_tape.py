"""A check that passes as it passed before is not run again: that shows in the time it takes, and nowhere else."""

from __future__ import annotations

from classes import SOLUTIONS, N, T, submissions
from grading import grade_each, replaced, scores

NO_TAPES = "import grader.tape; grader.tape.Tapes.of = lambda self, check: []\n"
NEVER_ASTRAY = "import grader.tape; grader.tape.Taped.astray = None  # a check that hangs on more than its answers breaks\n"
COUNTS = """
import grader.rounds
run = grader.rounds.Round.run

def counted(self, stopped):
    whole = run(self, stopped)
    self.checks.notes.append(f"{len(self.calls)} checks ran")
    return whole

grader.rounds.Round.run = counted
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
    "writes into its input": "if len(_calls) == 9: x[..., 0] = 5",
}


def test_a_class_is_graded_as_without_tapes() -> None:
    """Right, wrong, mixed, unfinished and hostile submissions: every report is the same to the last word."""
    everybody, select = dict(submissions(13)), "softmax or split_heads or repeat_kv"
    with_tapes = grade_each(everybody, before=NEVER_ASTRAY, select=select)
    assert with_tapes == grade_each(everybody, before=NO_TAPES, select=select)


def test_nobody_is_called_twice() -> None:
    """Code that remembers its calls gives the same after right submissions as alone: it hears the same questions, once each."""
    right = {f"a{number}": {N: SOLUTIONS[N]} for number in range(2)}
    odd = {f"b {name}": {N: SOLUTIONS[N] + SOFTMAX.format(code)} for name, code in FORGETFUL.items()}
    select = "softmax or numpy_attention.attention"
    together, alone = grade_each({**right, **odd}, select=select), grade_each(odd, before=NO_TAPES, select=select)
    assert {name: together[name] for name in alone} == alone
    assert all(scores(alone[f"b {name}"]) for name in FORGETFUL if name != "wants to be called once")
    assert not any(scores(together[name]) for name in right)


def test_what_passed_before_does_not_run() -> None:
    """Of the checks that a submission passes like another one, only those run in which its code is to raise."""
    reports = grade_each({name: {T: SOLUTIONS[T]} for name in "ab"}, before=NEVER_ASTRAY + COUNTS, select="torch_attention")
    first, second = (int(reports[name]["notes"][-1].split()[0]) for name in "ab")
    assert first > 40
    assert second < first / 4
    assert reports["a"]["exercises"] == reports["b"]["exercises"]


def test_a_wrong_number_in_one_answer_is_seen() -> None:
    """Answers are compared to the last bit that a check looks at."""
    subtle = replaced(SOLUTIONS[N], ("return powers / ", "return (1 + 1e-11 * (x.shape == (5, 2, 4))) * powers / "))
    reports = grade_each({"a": {N: SOLUTIONS[N]}, "b": {N: subtle}}, select="softmax")
    assert not scores(reports["a"])
    assert scores(reports["b"])
