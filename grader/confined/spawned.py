"""A student's process where there is no fork to rely on (macOS, Windows): a fresh Python, and what limits there are."""

from __future__ import annotations

import contextlib
import json
import socket
import sys

from ..course import Limits
from . import child, twins
from .lockdown import Policy
from .packing import pack


def main() -> None:
    """Warm up, connect back to the grader three times, then serve. The command line holds one JSON object."""
    settings, why = json.loads(sys.argv[1]), ""
    try:
        child.preload(settings["imports"])
        twins.make_all(settings["twins"])
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    sockets = []
    for _ in range(3):
        sockets.append(socket.create_connection(("127.0.0.1", settings["port"])))
        sockets[-1].sendall(settings["token"].encode())
        sockets[-1].recv(1)  # in this order, one after another
    frames, prints, trace = sockets
    try:
        sys.stdout = sys.stderr = prints.makefile("w", buffering=1, errors="replace")
        with contextlib.suppress(ValueError, OSError):  # Windows has no descriptor for a socket
            child.watch(trace.fileno())
        Policy(Limits(**settings["limits"]), frozenset({"rlimits"})).limit()
        child.prepare()
    except Exception as error:
        why = why or f"{type(error).__name__}: {error}"
    if why:
        frames.sendall(pack({"ready": False, "why": why}).frame)
        return
    with contextlib.suppress(EOFError):
        child.serve(frames.recv, frames.sendall, settings["limits"]["reply_mb"] << 20)
