"""Toolkit, tasks: how many workers, and whether they are processes or threads.

A function that is not async runs in a thread in any case, so it does not keep others from running;
but of all threads of an interpreter with a global lock one at a time computes. To use more than
one core, workers are processes there, and threads where the interpreter is free-threaded.
"""

from __future__ import annotations

import os
import sys
from typing import Final, Literal

from broker.client.checks import shown
from broker.client.errors import InvalidValue

__all__ = ["MODES", "Mode", "chosen_mode", "chosen_workers", "is_free_threaded"]

Mode = Literal["processes", "threads"]
MODES: Final = ("auto", "processes", "threads")
ALIASES: Final = {"async": "processes", "threaded": "threads"}
WORKERS_MAX: Final = 8
"""Of ``auto``. Who has more cores and wants them all says so."""


def is_free_threaded() -> bool:
    """Say whether threads of this interpreter compute at the same time."""
    is_enabled = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is not None and not is_enabled()


def chosen_mode(wanted: str) -> Mode:
    """Return what ``auto`` is here; ``async`` and ``threaded`` are dmq's names."""
    wanted = ALIASES.get(wanted, wanted)
    if wanted == "auto":
        return "threads" if is_free_threaded() else "processes"

    if wanted == "processes":
        return "processes"

    if wanted == "threads":
        return "threads"

    raise InvalidValue(f"a mode is one of {', '.join(MODES)}, not {shown(wanted)}")


def chosen_workers(wanted: str) -> int:
    """Return how many workers ``auto`` is here: as many as there are cores for us."""
    if wanted == "auto":
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        return min(cores, WORKERS_MAX)

    if not wanted.isdecimal() or not 1 <= int(wanted) <= 256:
        raise InvalidValue(f"workers is auto or a number from 1 to 256, not {shown(wanted)}")

    return int(wanted)
