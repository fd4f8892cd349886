"""Toolkit: waits for something for a while, and then goes on without it. Layer: client.

Whatever is stopped with a grace takes that and :data:`GOODBYE_S` at most, whether the broker
answers or not, and whether handlers end when they are cancelled or not.

Invariant: what is not waited for any longer is not cancelled by that: half of an exchange would be
taken for another one by the broker. It ends with its connection, or has a limit of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = [
    "ANSWER_S",
    "CLOSE_S",
    "GOODBYE_S",
    "YIELD_S",
    "at_most",
    "carried",
    "end_all",
    "leave_alone",
]

R = TypeVar("R")

ANSWER_S: Final = 1.0
"""How long a broker may take to answer somebody who wants to go."""
YIELD_S: Final = 0.5
"""How long something that was cancelled may take to end."""
CLOSE_S: Final = 0.5
"""How long a connection may take to be closed, before it is cut."""
GOODBYE_S: Final = 3.0
"""All of that, one after the other, what was cancelled twice."""

_left_alone: set[asyncio.Future[Any]] = set()
"""What nobody waits for any longer, so that it is not lost while it goes on."""


async def at_most(seconds: float | None, work: Awaitable[object]) -> bool:
    """Wait for something so long, None for as long as it takes; say whether it has ended.

    What it raises by then is raised here; if it was cancelled, it has ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=None if seconds is None else max(0.0, seconds))
    finally:
        if not task.done():
            _left_alone.add(task)
            task.add_done_callback(_let_go)

    if not task.done():
        return False

    if not task.cancelled():
        task.result()

    return True


async def carried(work: Awaitable[R], on_left: Callable[[R], object] | None = None) -> R:
    """Wait for something that goes on to its end if whoever waits is cancelled.

    Args:
        work: what to wait for.
        on_left: gets what comes of it if nobody waits any more.

    Raises:
        ConnectionError: it was cancelled, which the library does when it loses a connection.

    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,))
    except BaseException:
        _leave(task, on_left)
        raise

    if task.cancelled():
        raise ConnectionError("the connection was lost")

    return task.result()


def leave_alone(work: Awaitable[object]) -> None:
    """Begin something that has to come to its end, and that nobody waits for."""
    _leave(asyncio.ensure_future(work), None)


async def end_all(tasks: set[asyncio.Task[Any]], seconds: float = YIELD_S) -> bool:
    """Cancel tasks, and wait for them so long; say whether all have ended."""
    for task in tasks:
        task.cancel()

    return not tasks or await at_most(seconds, asyncio.gather(*tasks, return_exceptions=True))


def _leave(task: asyncio.Future[R], on_left: Callable[[R], object] | None) -> None:
    def end(done: asyncio.Future[R]) -> None:
        _let_go(done)
        if on_left is not None and not done.cancelled() and done.exception() is None:
            on_left(done.result())

    _left_alone.add(task)
    task.add_done_callback(end)


def _let_go(task: asyncio.Future[Any]) -> None:
    _left_alone.discard(task)
    if not task.cancelled():
        task.exception()
