"""A GPU for the checks that ask for one: whether there is one, and what a student's process needs to open it.

Only a process of such a check opens the device, behind the wall and before the student's code: the grader's warm process
never does, since a fork of an open CUDA is dead.
"""

from __future__ import annotations

import os
import sys
from glob import glob
from typing import TYPE_CHECKING, Literal

from .link import RunnerFailed

if TYPE_CHECKING:
    from .runner import Runner

Wish = Literal["auto", "require", "skip"]

DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*")  # to read, write and control
FILES = (  # to read: the driver's state, its libraries, and where the device sits
    *("/proc/driver/nvidia", "/proc/devices", "/proc/meminfo", "/sys/bus/pci/devices", "/sys/devices/pci*"),
    *("/sys/devices/system/node", "/usr/local/cuda*", "/usr/local/nvidia", "/usr/share/nvidia", "/etc/nvidia"),
)
CALLS = """
statfs fstatfs eventfd2 pipe2 epoll_create1 epoll_ctl epoll_wait epoll_pwait sched_getparam sched_getscheduler
sched_get_priority_max sched_get_priority_min get_mempolicy set_mempolicy mbind mlock munlock mincore msync capget
"""  # system calls that CUDA makes besides those of ordinary code
CONTROL = ((0x4600, 0xFF00), (0x0, 0xFFFFFF00), (0x30000000, 0xFFFFFF00))  # ioctl's requests (value, mask): the driver's, UVM's


def found(patterns: tuple[str, ...]) -> list[str]:
    """The paths that are there."""
    return sorted(path for pattern in patterns for path in glob(pattern))


def wanted(wish: str) -> tuple[str, str]:
    """The device to try for `wish`, or "" and why there is none. A wish that is no Wish names a device, for tests."""
    if wish == "skip":
        return "", "it was not to be used (--gpu skip)"
    if wish not in ("auto", "require"):
        return wish, ""
    if not sys.platform.startswith("linux"):
        return "", f"code that is being graded can use one on Linux, and this is {sys.platform}"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "", "CUDA_VISIBLE_DEVICES hides it"
    return ("cuda:0", "") if found(DEVICES) else ("", "this machine has none that CUDA knows")


def tried(runner: Runner, device: str, why: str) -> tuple[str, str]:
    """The same, once a process behind the runner's wall has opened the device."""
    if device:
        try:
            with runner.open({"trial": b"import torch"}) as trial:
                trial.begin("", device)
                trial.start()
        except RunnerFailed as error:
            return "", f"the one that is here can't be opened by code that is being graded ({error})"
    return device, why


def enter(device: str, memory_mb: int, visible: str | None) -> None:
    """Open `device` in a student's process, for good and within `memory_mb` of its memory. Raises what torch raises."""
    import torch

    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # nothing can be written
    if device.startswith("cuda"):
        whole = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, (memory_mb << 20) / whole), device)
    square = torch.eye(16, device=device)
    (square @ square).sum().item()  # the libraries load their kernels now, in the grader's time
