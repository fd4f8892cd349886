"""Toolkit: what goes around a handler: another attempt, a context, an eye on its errors.

A middleware is one of two things. A function of the next handler and the message::

    async def timed(call_next, message):
        with timer():
            return await call_next(message)

or an asynchronous generator of the message, in which each ``yield`` runs the handler::

    async def timed(message):
        with timer():
            yield

What the handler raises is raised at the ``yield``, what it returns is the value of it, and what is
yielded, if anything, takes the place of the message.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Generic, TypeVar, cast

from broker.client.calling import call, is_of, outcome_of
from broker.client.checks import check_callable, check_count, shown
from broker.client.errors import InvalidValue, ToolkitError
from broker.client.retry import Fixed, Retry

__all__ = [
    "AsyncContextManagerMiddleware",
    "CaptureExceptionMiddleware",
    "ContextManagerMiddleware",
    "Dispatcher",
    "Handler",
    "Middleware",
    "MiddlewareError",
    "RetryMiddleware",
    "with_middlewares",
]

T = TypeVar("T")

Handler = Callable[[T], Awaitable[object]]
Dispatcher = Callable[[T], Awaitable[object] | object]
Middleware = (
    Callable[[Handler[Any], Any], Awaitable[object]] | Callable[[Any], AsyncGenerator[Any, Any]]
)


class MiddlewareError(ToolkitError):
    """A middleware that runs the handler once more after it has succeeded."""


def with_middlewares(dispatcher: Dispatcher[T], *middlewares: Middleware) -> Handler[T]:
    """Return a handler with these around it, the first one outermost.

    What is no coroutine function is called in a thread, as by :meth:`Client.consume`.
    """
    check_callable("a handler", dispatcher)
    handler: Handler[T] = partial(call, dispatcher)
    for middleware in reversed(middlewares):
        if not callable(middleware):
            raise InvalidValue(f"a middleware is a function, not {shown(middleware)}")

        handler = _around(middleware, handler)

    return handler


def _around(middleware: Middleware, handler: Handler[T]) -> Handler[T]:
    if not _is_generator(middleware):
        classic = cast("Callable[[Handler[T], T], Awaitable[object]]", middleware)

        async def call_classic(message: T) -> object:
            return await classic(handler, message)

        return call_classic

    generate = cast("Callable[[T], AsyncGenerator[T | None, object]]", middleware)

    async def call_generator(message: T) -> object:
        return await _drive(generate(message), handler, message)

    return call_generator


def _is_generator(middleware: Middleware) -> bool:
    call: object = getattr(middleware, "__call__", None)  # noqa: B004 - is it a generator
    return inspect.isasyncgenfunction(middleware) or inspect.isasyncgenfunction(call)


async def _drive(
    generator: AsyncGenerator[T | None, object], handler: Handler[T], message: T
) -> object:
    """Run the handler at each ``yield``; the last result is the result."""
    result: object = None
    has_succeeded = False
    try:
        yielded = await anext(generator)
        while True:
            if has_succeeded:
                raise MiddlewareError("a middleware has run the handler again after it succeeded")

            try:
                result = await outcome_of(handler(message if yielded is None else yielded))
                has_succeeded = True
            except Exception as problem:
                yielded = await generator.athrow(problem)
            else:
                yielded = await generator.asend(result)
    except StopAsyncIteration:
        return result
    finally:
        await generator.aclose()


class RetryMiddleware:
    """Runs the handler again, at once or a little later, while the message is held.

    For what takes moments. What takes longer is for the queue's own :class:`Retry`, which does not
    keep others from being handled meanwhile.

    Args:
        retry: a policy, or a number of attempts.
        delay: seconds between them, where ``retry`` is a number; none by default.
        exceptions: what is worth another attempt, likewise; any by default.

    """

    def __init__(
        self,
        retry: Retry | int,
        delay: float | None = None,
        exceptions: tuple[type[BaseException], ...] | type[BaseException] | None = None,
    ) -> None:
        if not isinstance(retry, Retry):
            check_count("retry", retry)
            given = (Exception,) if exceptions is None else exceptions
            classes = given if isinstance(given, tuple) else (given,)
            retry = Retry(retry, Fixed(0.0 if delay is None else delay), on=classes)
        elif delay is not None or exceptions is not None:
            raise InvalidValue(
                "a Retry says itself how long to wait, and on what: Retry(3, on=...)"
            )

        self.retry = retry

    async def __call__(self, call_next: Handler[Any], message: Any) -> object:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await outcome_of(call_next(message))
            except Exception as problem:
                wait = self.retry.next_delay(attempt, problem)
                if wait is None:
                    raise

            await asyncio.sleep(wait)


class CaptureExceptionMiddleware:
    """Tells somebody what the handler raises, and lets it go on, or not.

    Args:
        on_error: gets the exception; a function or a coroutine function.
        exceptions: which ones; None for every :class:`Exception`.
        reraise: whether handling has failed all the same.

    """

    def __init__(
        self,
        on_error: Callable[[BaseException], Awaitable[object] | object],
        exceptions: tuple[type[BaseException], ...] | None = None,
        *,
        reraise: bool = False,
    ) -> None:
        self._on_error = on_error
        self._exceptions: tuple[type[BaseException], ...] = (
            (Exception,) if exceptions is None else exceptions
        )
        self._reraise = reraise

    async def __call__(self, call_next: Handler[Any], message: Any) -> object:
        try:
            return await outcome_of(call_next(message))
        except BaseException as problem:
            if not is_of(problem, self._exceptions):
                raise

            told = self._on_error(problem)
            if inspect.isawaitable(told):
                await told

            if self._reraise:
                raise

            return None


C = TypeVar("C")


class ContextManagerMiddleware(Generic[C]):
    """Runs the handler inside a context manager.

    Args:
        manager: a function that makes one for each message; or one that can be entered again and
            again, by several at a time.

    """

    def __init__(
        self, manager: AbstractContextManager[C] | Callable[[], AbstractContextManager[C]]
    ) -> None:
        if not isinstance(manager, AbstractContextManager) and not callable(manager):
            raise InvalidValue(f"{shown(manager)} is no context manager, and makes none")

        self._manager = manager

    async def __call__(self, call_next: Handler[Any], message: Any) -> object:
        manager = self._manager
        entered = manager if isinstance(manager, AbstractContextManager) else manager()
        with entered:
            return await call_next(message)


class AsyncContextManagerMiddleware(Generic[C]):
    """Runs the handler inside an asynchronous context manager; see the other one."""

    def __init__(
        self,
        manager: AbstractAsyncContextManager[C] | Callable[[], AbstractAsyncContextManager[C]],
    ) -> None:
        if not isinstance(manager, AbstractAsyncContextManager) and not callable(manager):
            raise InvalidValue(
                f"{shown(manager)} is no asynchronous context manager, and makes none"
            )

        self._manager = manager

    async def __call__(self, call_next: Handler[Any], message: Any) -> object:
        manager = self._manager
        entered = manager if isinstance(manager, AbstractAsyncContextManager) else manager()
        async with entered:
            return await call_next(message)
