"""Tasks of the Celery suite. What they did is written to files, which outlive a killed worker."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Task, shared_task
from celery.exceptions import Reject

from interop.support.deadline import eventually

__all__ = ["add", "fail", "flaky", "hold", "now", "record", "reject_once", "total"]


def _note(path: str, **facts: Any) -> None:
    # One write of one line: appends of several processes do not mix.
    with Path(path).open("ab", buffering=0) as file:
        file.write(json.dumps(facts).encode() + b"\n")


@shared_task(name="interop.add")
def add(x: int, y: int) -> int:
    """Return the sum."""
    return x + y


@shared_task(name="interop.total")
def total(numbers: list[int]) -> int:
    """Return the sum of a list, as the end of a chord does."""
    return sum(numbers)


@shared_task(name="interop.now")
def now() -> float:
    """Return when it ran."""
    return time.time()


@shared_task(name="interop.fail")
def fail(text: str) -> None:
    """Raise."""
    raise ValueError(text)


@shared_task(name="interop.flaky", bind=True, max_retries=5)
def flaky(self: Task, failures: int) -> int:
    """Fail and retry so many times, then return the number of retries."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.02)

    retries: int = self.request.retries
    return retries


@shared_task(name="interop.record", bind=True)
def record(self: Task, path: str, value: Any) -> None:
    """Note a value and which worker got it."""
    _note(path, value=value, worker=self.request.hostname)


@shared_task(name="interop.hold", bind=True, acks_late=True)
def hold(self: Task, path: str, release: str) -> str:
    """Note the start, then work until a file appears."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    _note(path, pid=os.getpid(), redelivered=redelivered, worker=self.request.hostname)
    eventually(Path(release).exists, within=60)
    return "released"


@shared_task(name="interop.reject_once", bind=True, acks_late=True)
def reject_once(self: Task, path: str) -> None:
    """Give the first delivery back to the queue."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    _note(path, redelivered=redelivered)
    if not redelivered:
        raise Reject("not yet", requeue=True)
