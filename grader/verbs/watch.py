"""`grader watch`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import click

from .. import options
from ..course import Course
from ..status import BROKEN, GRADED, INTERRUPTED, UNREADABLE, stop


@click.command()
@click.argument("submission", type=click.Path(path_type=Path), required=False)
@click.option("--format", "format_name", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
@options.select
@click.option(
    "--poll", is_flag=True, help="Look for changes, where the system tells of none (it does so by itself every second)."
)
@click.pass_obj
def watch(course: Course, submission: Path | None, format_name: str, select: str, poll: bool) -> None:
    """Grade now and on each save.

    Shows what is next in SUBMISSION (default: the course's own). In a pipe: a summary a save.
    """
    from ..submission import SubmissionError, read_submission

    path = submission or course.submission
    try:
        read_submission(path, course.modules)
    except SubmissionError as error:
        stop(UNREADABLE, str(error))
    from ..watch import events

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # a shell may have had it ignored
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    queue: SimpleQueue[Any] = SimpleQueue()
    try:
        with contextlib.closing(events(path, course, queue, poll=poll, select=select)) as happening:  # type: ignore[type-var]
            if format_name == "text" and _is_terminal():
                _draw(happening, course, queue)
            else:
                _print(happening, format_name)
    except KeyboardInterrupt:
        stop(INTERRUPTED, "stopped")
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(GRADED)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _draw(happening: Iterable[Any], course: Course, queue: SimpleQueue[Any]) -> None:
    from ..terminal import Screen
    from ..watch import Ended

    with Screen(course, queue.put) as screen:
        for event in happening:
            if event == "q":
                break
            screen.show(event)
    if isinstance(event, Ended):
        _give_up(event.error)
    report = screen.seen.report
    if report is not None:
        click.echo(
            f"{float(report.score):g} of {float(report.max_score):g} points"
            + (f". Next: {report.next.name}" if report.next else "")
        )


def _print(happening: Iterable[Any], format_name: str) -> None:
    """A report a save: one line of JSON, or a summary."""
    from ..formats.json import as_data
    from ..formats.text import text
    from ..watch import Ended, Graded, Saved

    for event in happening:
        if isinstance(event, Graded) and event.final:
            words = (
                text(event.report, brief=True) if format_name == "text" else json.dumps(as_data(event.report), ensure_ascii=False)
            )
            sys.stdout.buffer.write(words.encode() + b"\n")
            sys.stdout.buffer.flush()
        elif isinstance(event, Saved) and event.why:
            click.echo(f"grader: {event.why}", err=True)
        elif isinstance(event, Ended):
            _give_up(event.error)
        elif event is None and _nobody_reads():
            raise BrokenPipeError


def _nobody_reads() -> bool:
    """Whether the other end of the pipe was closed; a system that can't tell says so at the next line."""
    import select

    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0))


def _give_up(error: BaseException | None) -> NoReturn:
    from ..grade import NothingMatches

    if isinstance(error, NothingMatches):
        stop(UNREADABLE, str(error))
    stop(BROKEN, f"the grader broke, not the submission: {error or 'its session ended'}")
