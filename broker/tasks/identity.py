"""Toolkit, tasks: names of tasks and of workers that nobody else has.

Invariant: whatever is kept of a task, its result, its having been done, its being cancelled, is
kept under one key, of which the name of the task is a part: one id of two tasks is two things.
"""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, datetime

__all__ = ["key_of", "new_id", "new_owner", "parts_of", "sent_at"]


def new_id() -> str:
    """Return 32 hexadecimal digits that sort by the time they were made."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def sent_at(task_id: str) -> datetime | None:
    """Return when :func:`new_id` made an id; None if somebody else did."""
    try:
        moment = int(task_id[:12], 16) / 1000
        return datetime.fromtimestamp(moment, UTC) if len(task_id) == 32 else None
    except (ValueError, OverflowError, OSError):
        return None


def key_of(name: str, task_id: str) -> str:
    """Return what a task is known by wherever something is kept of it. Names are of one line."""
    return f"{name}\n{task_id}"


def parts_of(key: str) -> tuple[str, str]:
    """Return the name and the id that :func:`key_of` has put together; no name if there is none."""
    name, mark, task_id = key.partition("\n")
    return (name, task_id) if mark else ("", key)


def new_owner() -> str:
    """Return the name of one run of one worker."""
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
