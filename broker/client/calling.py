"""Toolkit: calls the functions of a user, and takes what they raise for what it is: their failure.

So is sys.exit(): the program would end, and its message come again to end the next one. Ctrl-C is
not theirs.

Invariant: a function that nobody cancels does not end as if it was cancelled, and one that runs in
a thread comes to an end for whoever waits for it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["outcome_of", "raise_for_exit", "without_stop_iteration"]

P = ParamSpec("P")
R = TypeVar("R")


async def outcome_of(running: Awaitable[R]) -> R:
    """Await what a user's function has given.

    Raises:
        RuntimeError: it was CancelledError that it raised, of something that it waited for perhaps.
            Taken for a cancellation, its message would be handed back, to fail again at once. Or it
            has called sys.exit().

    """
    try:
        return await running
    except (SystemExit, KeyboardInterrupt) as problem:
        raise_for_exit(problem)
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise

        raise RuntimeError("it raised CancelledError, and was not cancelled") from problem


def raise_for_exit(problem: BaseException) -> NoReturn:
    """Raise what is left of sys.exit(), or of a KeyboardInterrupt that nobody at the keyboard
    has caused, as an error; let go on the one that somebody may have."""
    if isinstance(problem, SystemExit):
        raise RuntimeError(f"it called sys.exit({problem.code!r})") from problem

    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise problem

    raise RuntimeError("it raised KeyboardInterrupt") from problem


def without_stop_iteration(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function for a thread: a future takes no StopIteration, and would never be done.

    A coroutine that raises one raises RuntimeError, and so does this. Nor does anybody interrupt a
    thread from the keyboard.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StopIteration as problem:
            raise RuntimeError("it raised StopIteration") from problem
        except KeyboardInterrupt as problem:
            raise_for_exit(problem)

    return call
