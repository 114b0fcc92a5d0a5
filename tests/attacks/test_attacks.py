"""No hostile submission wins, and the next student's is graded as if nothing had been: see `harness`.

An attack has won when it passes a check, when the next submission loses points, when the grader breaks, or when the bait
is touched. The same attacks are graded with parts of the wall switched off: a suite in which nothing wins then proves nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from attacks.harness import ATTACKS, HERE, ROOT, two_at_once
from grader.confined import lockdown

pytestmark = pytest.mark.skipif(bool(lockdown.missing()), reason=lockdown.missing() or "-")
SECONDS = float(os.environ.get("HONEST_SECONDS", "15"))  # a minute: HONEST_SECONDS=60 pytest -k beside


@pytest.fixture(scope="module")
def won() -> dict[str, list[str]]:
    return two_at_once(list(ATTACKS))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_wins_nothing(won: dict[str, list[str]], name: str) -> None:
    assert won[name] == []


def kinds(*wanted: str) -> list[str]:
    return [name for name in ATTACKS if name.partition("/")[0] in wanted]


FILES = kinds("files", "reading")
REACH = [*FILES, *kinds("calls", "network", "signals", "survivors")]
SECCOMP_ALONE = [  # neither other users' rights nor Landlock stop these
    *("calls/utime", "calls/xattr", "calls/segment", "calls/queue", "calls/semaphore", "calls/datagram", "calls/message"),
    *("calls/mapped_udp", "calls/old_gate", "calls/keyring", "network/udp_libc", "network/unix"),
]
SLOW = "the next submission lost points"  # a busy machine may do that too: no proof that an attack has won
WEAKER: dict[str, tuple[set[str], list[str], int]] = {  # what is off, what is tried, and how many must win then
    "Landlock and seccomp": ({"landlock", "seccomp"}, REACH, 28),
    "Landlock": ({"landlock"}, FILES, 8),
    "seccomp": ({"seccomp"}, SECCOMP_ALONE, 10),
}


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="without the wall, only another user's rights protect this one"
)
@pytest.mark.parametrize(("off", "tried", "least"), WEAKER.values(), ids=WEAKER.keys())
def test_without_a_part_of_the_wall_attacks_win(off: set[str], tried: list[str], least: int) -> None:
    found = two_at_once(tried, switches=sorted(lockdown.ALL - off))
    assert len([name for name, what in found.items() if set(what) - {SLOW}]) >= least, found


def test_looking_for_the_mistake_in_an_attack_breaks_nothing() -> None:
    """What came over the wall is replayed and measured beside the answers: all that lie, grow or have odd forms."""
    odd = [
        "bombs/answer",
        "bombs/text",
        "frames/deep",
        "frames/objects",
        "frames/lying_shape",
        "torch/odd_layouts",
        "torch/copies",
    ]
    odd += ["torch/many_booleans", "torch/endless_meta", "torch/default_dtype", "torch/module_state", "torch/lying_backward"]
    assert not {name: what for name, what in two_at_once([*odd, *kinds("liars", "grouped")], causes=True).items() if what}


@pytest.mark.parametrize("abi", [1, 2, 3])
def test_an_older_landlock_stops_files_too(abi: int) -> None:
    """What it does not know (moving between folders, truncation, networks), the filter of system calls closes."""
    assert not {name: what for name, what in two_at_once(FILES[abi % 2 :: 2], abi=abi).items() if what}


def test_honest_submissions_pass_beside_attacks() -> None:
    command = [sys.executable, str(HERE / "harness.py")]
    run = {"cwd": ROOT, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, json.dumps({"honest_seconds": SECONDS})], **run) as honest:  # type: ignore[call-overload]
        hostile = kinds("bombs", "hangs", "signals", "survivors", "frames")
        while honest.poll() is None:
            order = {"names": [hostile.pop(0) for _ in range(5)], "number": 5}
            assert subprocess.run([*command, json.dumps(order)], **run, check=True).stdout  # type: ignore[call-overload]
            hostile += order["names"]
        assert honest.stdout is not None
        assert "WON []" in honest.stdout.read()
