"""What `grader watch` draws on a terminal, as a pure function of what is known and which keys were pressed; and reading keys."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from math import inf

from rich.console import Console, Group
from rich.text import Text

from .course import Course
from .formats.escape import printable
from .formats.text import COLOUR, bar, points_of, told
from .report import Exercise, Report, number
from .watch import STOPPED, Event, Graded, Saved

INDENT = 2
MARKS = {"passed": "+", "failed": "x", "crashed": "x", "todo": ".", "blocked": ".", "skipped": "-", "broken": "!"}
DOWN, UP = ("down", "page down", " ", "j"), ("up", "page up", "b", "k")
_SEQUENCES = {
    **{b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"},
    **{b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1a": STOPPED},
}
_WINDOWS = {"H": "up", "P": "down", "I": "page up", "Q": "page down"}


@dataclass(frozen=True)
class Seen:
    """What the screen shows: the newest report, how things stand, and where the student looks."""

    course: Course
    report: Report | None = None
    why: str = ""  # nothing can be graded
    status: str = ""
    steps: int = 0  # hints of the next exercise that are shown
    listing: bool = False
    top: int = 0  # the first line of the list on the screen

    @property
    def ladder(self) -> tuple[str, ...]:
        """The hints for what is next: of its mistake, then the exercise's own."""
        exercise = self.report.next if self.report else None
        check = exercise.trouble if exercise else None
        if exercise is None or check is None or check.status == "blocked" or check.follows or imports_badly(exercise):
            return ()
        return (*((check.mistake.hint,) if check.mistake else ()), *exercise.hints)


def imports_badly(exercise: Exercise) -> bool:
    """Whether its file can't be imported: no hint on the lesson helps there."""
    check = exercise.trouble
    return check is not None and check.trouble is not None and check.trouble.kind == "import"


def after(seen: Seen, event: Event | str, page: int) -> Seen:
    """What is seen after an event or a key. Hints stay while the same exercise is next for the same cause."""
    if isinstance(event, str):
        return pressed(seen, event, page)
    if isinstance(event, Saved):
        return replace(seen, why=event.why)
    if isinstance(event, Graded):
        status = f"graded in {event.seconds:.2f} s" if event.final else "checking the rest ..."
        new = replace(seen, report=event.report, status=status)
        return new if new.ladder == seen.ladder else replace(new, steps=0)
    return seen


def pressed(seen: Seen, key: str, page: int) -> Seen:
    """After a key: `h` climbs the ladder, `l` opens and closes the list, arrows move it by `page` lines or by one."""
    if key == "h":
        return replace(seen, listing=False, steps=min(seen.steps + 1, len(seen.ladder)))
    if key == "l":
        return replace(seen, listing=not seen.listing, top=0)
    if seen.listing and key in (*DOWN, *UP):
        step = 1 if key in ("up", "down") else page
        last = len(seen.report.exercises) + len(seen.report.checks) - page if seen.report else 0
        return replace(seen, top=max(0, min(last, seen.top + (step if key in DOWN else -step))))
    return seen


def screen(seen: Seen, width: int, height: int) -> Group:
    """The whole screen, `height` lines of `width` columns."""
    room = max(1, height - 2)
    body = _listed(seen, room) if seen.listing else _lesson(seen, width, room)
    keys, status = _keys(seen), Text(seen.status, style="dim")
    foot = _between(keys, status if keys.cell_len + status.cell_len < width - 1 else Text(), width)
    head = _between(Text(seen.course.title, style="bold"), _score(seen), width)
    lines = [*[head, *body[:room], *[Text()] * height][: height - 1], foot]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def _score(seen: Seen) -> Text:
    return Text(f"{points_of(seen.report.score, seen.report.max_score)} points" if seen.report else "", style="bold")


def _keys(seen: Seen) -> Text:
    keys = {"l": "lesson", "space": "on", "b": "back"} if seen.listing else {"h": "hint", "l": "list"}
    return Text("  ").join(Text(key, style="bold").append(f" {what}", style="dim") for key, what in {**keys, "q": "quit"}.items())


def _between(left: Text, right: Text, width: int) -> Text:
    """Both on one line; the left one is cut where it must be."""
    left.truncate(max(0, width - right.cell_len - 2), overflow="ellipsis")
    return left + Text(" " * (width - left.cell_len - right.cell_len)) + right


def _lesson(seen: Seen, width: int, room: int) -> list[Text]:
    """The exercises in order, folded to modules where there is no room for all, and below them the one next thing."""
    if seen.report is None:
        return [Text(), *_wrapped(Text(seen.why or "warming up ..."), width)]
    below = [Text(), *_next(seen, seen.report, width)]
    if seen.why:
        below = [Text(), *_wrapped(Text(printable(seen.why), style="cyan"), width)]
    rows = _rows(seen.report, width, folded=False)
    if len(rows) + len(below) > room:
        rows = _rows(seen.report, width, folded=True)
    lines = [*rows, *below]
    return lines if len(lines) <= room else [*lines[: room - 1], Text("... (a taller window shows more)", style="dim")]


def _rows(report: Report, width: int, folded: bool) -> list[Text]:
    """A line a module and, but for those that are folded, a line an exercise. The module of what is next stays open."""
    modules: dict[str, list[Exercise]] = {}
    for exercise in report.exercises:
        modules.setdefault(exercise.name.rpartition(".")[0], []).append(exercise)
    here = report.next.name.rpartition(".")[0] if report.next else ""
    lines = []
    for module, exercises in modules.items():
        whole = Exercise(module, (), tuple(check for exercise in exercises for check in exercise.checks))
        lines.append(_row(module, whole, width, "bold"))
        if not folded or module == here:
            lines += [_row(f"  {exercise.name.rpartition('.')[2]}", exercise, width) for exercise in exercises]
    return lines


def _row(name: str, exercise: Exercise, width: int, style: str = "") -> Text:
    line = Text(f"{name:<29}", style=style) if width >= 39 else Text(f"{name[: width - 11]:<{max(0, width - 10)}}", style=style)
    line.append(bar(exercise), style=COLOUR[exercise.status])
    if width >= 64:
        line.append(f"{points_of(exercise.score, exercise.max_score):>14}  ").append(
            exercise.status, style=COLOUR[exercise.status]
        )
    return line


def _next(seen: Seen, report: Report, width: int) -> list[Text]:
    left_out = (f"left out: {number(round(points, 2))} points, {why}" for why, points in report.left_out.items())
    notes = [line for note in (*report.notes, *left_out) for line in _wrapped(Text(printable(note), style="cyan"), width)]
    broken = next((exercise for exercise in report.exercises if exercise.status == "broken"), None)
    exercise = broken or report.next
    if exercise is None:
        whole = len([exercise for exercise in report.exercises if exercise.max_score]) == len(seen.course.exercises)
        words = Text("Every check passes.", style="bold green").append(
            f"\n\n{seen.course.celebration}" if whole else "", style="not bold"
        )
        return [*notes, *_wrapped(words, width)]
    checks = [check for check in exercise.checks if check.status not in ("passed", "skipped")]
    check = next((check for check in checks if check.status == "broken"), checks[0])
    lines = [*notes, *_wrapped(Text("Next: ", style="bold").append(exercise.name), width), *_wrapped(told(check), width, INDENT)]
    if seen.steps:
        hint = Text(f"Hint {seen.steps} of {len(seen.ladder)}: ", style="bold").append(
            seen.ladder[seen.steps - 1], style="not bold"
        )
        lines += _wrapped(hint, width, INDENT)
    return lines


def _listed(seen: Seen, room: int) -> list[Text]:
    """Every check under its exercise, from line `top` on; the last page stays full."""
    lines: list[Text] = []
    for exercise in seen.report.exercises if seen.report else ():
        lines.append(Text(exercise.name, style="bold"))
        for check in exercise.checks:
            mark = Text(f"  {MARKS[check.status]} ", style=COLOUR[check.status])
            lines.append(mark.append(printable(check.title), style="default"))
    return lines[min(seen.top, max(0, len(lines) - room)) :]


def _wrapped(text: Text, width: int, indent: int = 0) -> list[Text]:
    """The lines of a text in `width` columns, each moved right by `indent`."""
    console = Console(width=width, file=StringIO())
    return [Text(" " * indent) + line for line in text.wrap(console, max(8, width - indent))]


class Screen:
    """Draws on the terminal what has happened so far. Use it in a `with` block: the terminal is then as it was."""

    def __init__(self, course: Course, tell: Callable[[str], None]) -> None:
        """Each key that is pressed is told."""
        self.console, self.seen, self.running = Console(), Seen(course), time.monotonic()
        self.drawn: object = None
        self.stack = ExitStack()
        self.tell = tell

    def __enter__(self) -> Screen:
        with ExitStack() as stack:
            stack.enter_context(keys(self.tell))
            self.shown = stack.enter_context(self.console.screen())
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def show(self, event: Event | str | None) -> None:
        """Draw anew after an event or a key, or None when some time has passed. After Ctrl-Z, once it goes on."""
        if event == STOPPED:
            self.__exit__()
            os.kill(0, signal.SIGTSTP)  # as the key would, to who started us too
            self.__enter__()
            self.drawn = None
        width, height = self.console.size
        if event is not None:
            self.seen = after(self.seen, event, page=height - 2)
        if isinstance(event, Saved):
            self.running = time.monotonic()
            return  # most often the report comes at once
        if isinstance(event, Graded):
            self.running = inf if event.final else self.running
        seconds = time.monotonic() - self.running
        seen = replace(self.seen, status=f"running {seconds:.0f} s ...") if seconds > 0.5 else self.seen
        if (seen, width, height) != self.drawn:
            self.shown.update(screen(seen, width, height))
            self.drawn = seen, width, height


@contextmanager
def keys(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell of each key that is pressed until the block ends; the terminal is then as it was. Without a keyboard, of none."""
    if not sys.stdin.isatty():
        yield
        return
    stop = threading.Event()
    with _raw() as read:

        def listen() -> None:
            while not stop.is_set():
                key = read()
                if key:
                    tell(key)

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(2)


@contextmanager
def _raw() -> Iterator[Callable[[], str]]:
    """A function that waits a moment for a key, Ctrl-Z among them; Ctrl-C stays what it is."""
    if sys.platform == "win32":
        yield _windows_key
        return
    import select
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def key() -> str:
        if not select.select([keyboard], [], [], 0.2)[0]:
            return ""
        data = os.read(keyboard, 16)
        if not data:  # hung up
            time.sleep(0.2)
        return _SEQUENCES.get(data) or data[:1].decode("ascii", "ignore").lower()

    tty.setcbreak(keyboard)
    ours = termios.tcgetattr(keyboard)
    ours[6][termios.VSUSP] = bytes([os.fpathconf(keyboard, "PC_VDISABLE")])  # Ctrl-Z waits until all is given back
    termios.tcsetattr(keyboard, termios.TCSADRAIN, ours)
    try:
        yield key
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _windows_key() -> str:
    import msvcrt

    if not msvcrt.kbhit():  # type: ignore[attr-defined]
        time.sleep(0.05)
        return ""
    key: str = msvcrt.getwch()  # type: ignore[attr-defined]
    return _WINDOWS.get(msvcrt.getwch(), "") if key in ("\0", "\xe0") else key.lower()  # type: ignore[attr-defined]
