"""The grader's side of the wall: it starts students' processes, keeps their time, and believes nothing that they say."""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import wire
from .course import Limits
from .link import Gone, IsolationUnavailable, Link, Malformed, RunnerFailed, TimedOut, Warm, strongest
from .lockdown import ALL
from .remote import RemoteModule
from .trouble import Frame, Stopped, Trouble, raise_as

__all__ = ["Confined", "IsolationUnavailable", "Runner", "RunnerFailed"]
