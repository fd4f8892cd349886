"""Waiting for facts: ask again until the answer is yes or the deadline has passed.

A suite never sleeps for a guessed time. It asks through these helpers, which return as soon as
the fact holds and fail with the last answer when it never does.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["WITHIN_S", "eventually", "eventually_async"]

T = TypeVar("T")

WITHIN_S = 15.0
"""Long enough for a loaded machine; a test that works never waits for it."""

_PAUSE_S = 0.02


def eventually(check: Callable[[], T], *, within: float = WITHIN_S) -> T:
    """Call ``check`` until it gives something true, and return that.

    Raises:
        AssertionError: it was still false (named in the message) after ``within`` seconds.
    """
    deadline = time.monotonic() + within
    while True:
        answer = check()
        if answer:
            return answer

        if time.monotonic() > deadline:
            raise AssertionError(f"still {answer!r} after {within} s")

        time.sleep(_PAUSE_S)


async def eventually_async(check: Callable[[], Awaitable[T]], *, within: float = WITHIN_S) -> T:
    """Do what `eventually` does, for a check that is awaited."""
    deadline = time.monotonic() + within
    while True:
        answer = await check()
        if answer:
            return answer

        if time.monotonic() > deadline:
            raise AssertionError(f"still {answer!r} after {within} s")

        await asyncio.sleep(_PAUSE_S)
