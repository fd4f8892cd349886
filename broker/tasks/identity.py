"""Toolkit, tasks: names of tasks and of workers that nobody else has."""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, datetime

__all__ = ["new_id", "new_owner", "sent_at"]


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


def new_owner() -> str:
    """Return the name of one run of one worker."""
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
