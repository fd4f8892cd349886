"""A file with an octet for each task, in which workers count how often they ran it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

__all__ = ["URL", "mark"]

URL = os.environ["TASK_BENCH_URL"]
_FILE = Path(os.environ["TASK_BENCH_MARKS"]).open("r+b")  # noqa: SIM115 - as long as the process
_MARKS = mmap.mmap(_FILE.fileno(), 0)


def mark(number: int) -> int:
    """Say that task ``number`` has run."""
    _MARKS[number] = min(_MARKS[number] + 1, 255)
    return number
