"""Toolkit: calls the functions of a user, and takes what they raise for what it is: their failure.

So is sys.exit(): the program would end, and its message come again to end the next one. So is
whatever else is no :class:`Exception`, such as the time limits of some libraries. Ctrl-C is not
theirs.

Invariant: a function that nobody cancels does not end as if it was cancelled, and one that runs in
a thread comes to an end for whoever waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from broker.client.texts import text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = [
    "INTERRUPTIONS",
    "call",
    "failure_of",
    "for_thread",
    "handler_of",
    "is_of",
    "note_handler",
    "outcome_of",
]

INTERRUPTIONS: Final = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a program, a task or a generator from outside. A function that is called here raises
none of them, see :func:`outcome_of`; of a block of a program's own nobody knows."""

AT_WORK: Final[ContextVar[tuple[object, asyncio.Task[Any]] | None]] = ContextVar(
    "AT_WORK", default=None
)
"""Whose handler runs here, and the task that sees to it; the threads of handlers have it as well,
and so has what they begin in the event loop."""

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")


async def call(handler: Callable[[A], Awaitable[object] | object], argument: A) -> object:
    """Call a handler: a coroutine function here, any other function in a thread."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - is it async, not: is it there
    ):
        return await outcome_of(cast("Callable[[A], Awaitable[object]]", handler)(argument))

    result = await outcome_of(asyncio.to_thread(for_thread(handler), argument))
    return await outcome_of(result) if inspect.isawaitable(result) else result


def note_handler(owner: object) -> None:
    """What this task does from now on is to handle messages of that owner."""
    task = asyncio.current_task()
    assert task is not None
    AT_WORK.set((owner, task))


def handler_of(owner: object) -> asyncio.Task[Any] | None:
    """Return the task of the owner's handler that calls this, if one does: to wait for it here
    would be to wait for oneself."""
    at_work = AT_WORK.get()
    if at_work is None or at_work[0] is not owner or at_work[1].done():
        return None

    return at_work[1]


async def outcome_of(running: Awaitable[R]) -> R:
    """Await what a user's function has given.

    Raises:
        RuntimeError: it raised what is no :class:`Exception`; see :func:`failure_of`. Or it was
            CancelledError that it raised, of something that it waited for perhaps. Taken for a
            cancellation, its message would be handed back, to fail again at once.

    """
    task = asyncio.current_task()
    try:
        return await running
    except asyncio.CancelledError as problem:
        if task is None or task.cancelling():
            raise

        raise RuntimeError("it raised CancelledError, and was not cancelled") from problem
    except Exception:
        raise
    except BaseException as problem:
        if isinstance(problem, GeneratorExit) and not _is_current(task):
            # It did not raise that: what waits here is thrown away, with its event loop perhaps.
            raise

        raise failure_of(problem) from problem


def failure_of(problem: BaseException) -> Exception:
    """Return what a user's function has raised as an Exception: it would end what calls it, and be
    counted by nobody. A KeyboardInterrupt that somebody at the keyboard may have caused goes on."""
    if isinstance(problem, Exception):
        return problem

    if isinstance(problem, SystemExit):
        return _caused(f"it called sys.exit({problem.code!r})", problem)

    if isinstance(problem, KeyboardInterrupt):
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise problem

    text = text_of(problem)
    return _caused(f"it raised {type(problem).__qualname__}{text and f': {text}'}", problem)


def is_of(error: BaseException, classes: tuple[type[BaseException], ...]) -> bool:
    """Say whether an error is of these classes, or was before :func:`failure_of`."""
    if isinstance(error, classes):
        return True

    cause = error.__cause__ if type(error) is RuntimeError else None
    return isinstance(cause, classes) and not isinstance(cause, Exception)


def _caused(text: str, problem: BaseException) -> Exception:
    failure = RuntimeError(text)
    failure.__cause__ = problem
    return failure


def _is_current(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def for_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function for a thread: not all that it raises can be had from a future.

    With StopIteration that would never be done; a coroutine that raises one raises RuntimeError,
    and so does this. And of GeneratorExit a coroutine that waits would think that it was closed.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StopIteration as problem:
            raise RuntimeError("it raised StopIteration") from problem
        except Exception:
            raise
        except BaseException as problem:
            raise failure_of(problem) from problem

    return call
