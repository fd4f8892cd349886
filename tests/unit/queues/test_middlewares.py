"""What goes around a handler."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client.errors import InvalidValue
from broker.client.retry import Exponential, Fixed, Retry
from broker.queues import (
    AsyncContextManagerMiddleware,
    CaptureExceptionMiddleware,
    ContextManagerMiddleware,
    MemoryQueue,
    MiddlewareError,
    Pump,
    RetryMiddleware,
    with_middlewares,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from broker.queues import Middleware
    from broker.queues.middlewares import Handler


def noting(name: str, notes: list[str]) -> Middleware:
    async def note(call_next: Handler[int], message: int) -> object:
        notes.append(name)
        return await call_next(message)

    return note


def noting_generator(name: str, notes: list[str]) -> Middleware:
    async def note(message: int) -> AsyncGenerator[None, object]:
        notes.append(name)
        result = yield
        notes.append(f"{name}={result}")

    return note


class Flaky:
    """Fails so many times, and then gives back what it got."""

    def __init__(self, failures: int, error: type[Exception] = ValueError) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    async def __call__(self, message: int) -> int:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error(self.calls)

        return message


async def test_the_first_is_outermost_and_what_is_added_later_goes_around_it() -> None:
    notes: list[str] = []
    queue = MemoryQueue[int]()
    pump = Pump(queue, Flaky(0), middlewares=(noting("b", notes), noting("c", notes)))
    assert pump.add_middlewares(noting("a1", notes), noting("a2", notes)) is pump
    await queue.send(1)
    await queue.close()
    await pump.drain()

    assert notes == ["a1", "a2", "b", "c"]


async def test_a_generator_runs_the_handler_where_it_yields() -> None:
    notes: list[str] = []
    handler = with_middlewares(Flaky(0), noting_generator("x", notes))

    assert await handler(5) == 5
    assert notes == ["x", "x=5"]


async def test_a_generator_that_does_not_yield_keeps_the_message_to_itself() -> None:
    async def skip(message: int) -> AsyncGenerator[None, object]:
        if message > 3:
            yield

    flaky = Flaky(0)
    handler = with_middlewares(flaky, skip)

    assert [await handler(3), await handler(4)] == [None, 4]
    assert flaky.calls == 1


async def test_a_generator_sees_the_error_and_may_try_again() -> None:
    async def again(message: int) -> AsyncGenerator[None, object]:
        try:
            yield
        except ValueError:
            yield

    assert await with_middlewares(Flaky(1), again)(5) == 5
    with pytest.raises(ValueError, match="2"):
        await with_middlewares(Flaky(2), again)(5)


async def test_a_generator_that_runs_it_again_after_success_is_wrong() -> None:
    async def twice(message: int) -> AsyncGenerator[None, object]:
        yield
        yield

    with pytest.raises(MiddlewareError):
        await with_middlewares(Flaky(0), twice)(5)


async def test_both_kinds_can_change_the_message() -> None:
    async def classic(call_next: Handler[int], message: int) -> object:
        return await call_next(message + 1)

    async def generator(message: int) -> AsyncGenerator[int, object]:
        yield message * 10

    assert await with_middlewares(Flaky(0), classic, generator)(1) == 20


@pytest.mark.parametrize(
    ("middleware", "calls"),
    [
        pytest.param(RetryMiddleware(3), 3, id="attempts"),
        pytest.param(RetryMiddleware(Retry(2, Fixed(0))), 2, id="policy"),
        pytest.param(RetryMiddleware(3, exceptions=(OSError,)), 1, id="other-exceptions"),
        pytest.param(RetryMiddleware(3, exceptions=ValueError), 3, id="one-class"),
    ],
)
async def test_retries_run_the_handler_again(middleware: RetryMiddleware, calls: int) -> None:
    flaky = Flaky(99)
    with pytest.raises(ValueError, match=str(calls)):
        await with_middlewares(flaky, middleware)(5)

    assert flaky.calls == calls


async def test_retries_end_with_success() -> None:
    assert await with_middlewares(Flaky(2), RetryMiddleware(3))(5) == 5


async def test_retries_wait_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    policy = Retry(4, Exponential(1, jitter=0))
    with pytest.raises(ValueError, match="4"):
        await with_middlewares(Flaky(9), RetryMiddleware(policy))(5)

    assert waits == [1, 2, 4]


def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(InvalidValue):
        RetryMiddleware(0)


@pytest.mark.parametrize("reraise", [False, True])
async def test_errors_can_be_captured(reraise: bool) -> None:
    caught: list[BaseException] = []
    middleware = CaptureExceptionMiddleware(caught.append, (ValueError,), reraise=reraise)
    handler = with_middlewares(Flaky(1), middleware)
    with pytest.raises(ValueError, match="1") if reraise else contextlib.nullcontext():
        await handler(5)

    assert [str(error) for error in caught] == ["1"]


async def test_errors_can_be_captured_by_a_coroutine_function() -> None:
    caught: list[BaseException] = []

    async def tell(error: BaseException) -> None:
        caught.append(error)

    await with_middlewares(Flaky(1), CaptureExceptionMiddleware(tell))(5)
    with pytest.raises(ValueError, match="1"):
        await with_middlewares(Flaky(1), CaptureExceptionMiddleware(tell, (OSError,)))(5)

    assert len(caught) == 1


async def test_a_context_is_made_for_each_message() -> None:
    notes: list[str] = []

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        notes.append("in")
        yield
        notes.append("out")

    @contextlib.asynccontextmanager
    async def async_context() -> AsyncIterator[None]:
        notes.append("async in")
        yield
        notes.append("async out")

    handler = with_middlewares(
        Flaky(0),
        ContextManagerMiddleware(context),
        AsyncContextManagerMiddleware(async_context),
    )
    for _ in range(2):
        await handler(1)

    assert notes == ["in", "async in", "async out", "out"] * 2


async def test_a_context_may_be_one_for_all() -> None:
    lock = asyncio.Lock()
    ignoring = contextlib.suppress(ValueError)
    flaky = Flaky(1)
    handler = with_middlewares(
        flaky, ContextManagerMiddleware(ignoring), AsyncContextManagerMiddleware(lock)
    )

    assert [await handler(1), await handler(2)] == [None, 2]


def test_what_is_no_context_is_refused() -> None:
    with pytest.raises(InvalidValue):
        ContextManagerMiddleware(cast("Any", 3))

    with pytest.raises(InvalidValue):
        AsyncContextManagerMiddleware(cast("Any", 3))
