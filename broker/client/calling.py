"""Toolkit: calls the functions of a user, and takes what they raise for what it is: their failure.

Invariant: a function that nobody cancels does not end as if it was cancelled, and one that runs in
a thread comes to an end for whoever waits for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["outcome_of", "without_stop_iteration"]

P = ParamSpec("P")
R = TypeVar("R")


async def outcome_of(running: Awaitable[R]) -> R:
    """Await what a user's function has given.

    Raises:
        RuntimeError: it was CancelledError that it raised, of something that it waited for perhaps.
            Taken for a cancellation, its message would be handed back, to fail again at once.

    """
    try:
        return await running
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise

        raise RuntimeError("it raised CancelledError, and was not cancelled") from problem


def without_stop_iteration(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function for a thread: a future takes no StopIteration, and would never be done.

    A coroutine that raises one raises RuntimeError, and so does this.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StopIteration as problem:
            raise RuntimeError("it raised StopIteration") from problem

    return call
