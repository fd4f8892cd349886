"""From a queue to a function, message by message."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client.errors import InvalidValue
from broker.client.retry import Fixed, Retry
from broker.queues import MemoryQueue, Pump, RetryMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from broker.queues import Middleware


def filled(count: int, **options: Any) -> MemoryQueue[int]:
    queue = MemoryQueue[int](**options)
    for number in range(count):
        queue.send_nowait(number)

    return queue


class Handler:
    """Notes what it handles; waits when it is told to, and fails at some numbers."""

    def __init__(self, *fails_at: int) -> None:
        self.handled: list[int] = []
        self.running = 0
        self.running_max = 0
        self.is_full = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self._fails_at = fails_at

    async def __call__(self, number: int) -> None:
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        self.is_full.set()
        try:
            await self.go.wait()
            await asyncio.sleep(0)
            if number in self._fails_at:
                raise ValueError(number)

            self.handled.append(number)
        finally:
            self.running -= 1


async def test_one_at_a_time_keeps_the_order() -> None:
    queue, handle = filled(20), Handler()
    await queue.close()
    await Pump(queue, handle).drain()

    assert handle.handled == list(range(20))
    assert handle.running_max == 1


async def test_several_at_a_time_are_not_more_than_that() -> None:
    queue, handle = filled(20), Handler()
    await queue.close()
    await Pump(queue, handle).drain(concurrency=4)

    assert sorted(handle.handled) == list(range(20))
    assert handle.running_max == 4


class TooLate(BaseException):
    """No Exception, as the time limits of some libraries are not."""


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, GeneratorExit, TooLate])
async def test_a_dispatcher_that_nobody_cancels_does_not_end_the_pump(
    error: type[BaseException],
) -> None:
    """What it raises is its failure, whatever it is: sys.exit() is, and what is no Exception."""
    queue, handled = filled(3), []
    told: list[BaseException] = []

    async def handle(number: int) -> None:
        if number == 1:
            raise error

        handled.append(number)

    await queue.close()
    await Pump(queue, handle, on_error=told.append).drain()

    assert handled == [0, 2]
    assert [type(error) for error in told] == [RuntimeError]
    assert [letter.body for letter in queue.dead] == [1]


async def test_by_default_a_failure_is_logged_and_the_pump_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In python-cq one poison message ends it."""
    queue, handle = filled(3), Handler(1)
    await queue.close()
    await Pump(queue, handle).drain()

    assert handle.handled == [0, 2]
    assert [letter.body for letter in queue.dead] == [1]
    assert "could not be handled" in caplog.text


async def test_a_failure_can_be_told_to_somebody() -> None:
    told: list[BaseException] = []

    async def tell(error: BaseException) -> None:
        told.append(error)

    for on_error in (told.append, tell):
        queue = filled(3)
        await queue.close()
        await Pump(queue, Handler(1), on_error=on_error).drain()

    assert [str(error) for error in told] == ["1", "1"]


async def test_or_end_the_pump() -> None:
    queue, handle = filled(3), Handler(1)
    await queue.close()
    pump = Pump(queue, handle, on_error="raise")
    with pytest.raises(ValueError, match="1"):
        await pump.drain()

    assert (handle.handled, queue.size) == ([0], 1)


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("is_raised_by_on_error", [True, False], ids=["by on_error", "by itself"])
async def test_a_failure_that_ends_the_pump_cancels_the_block_and_is_raised_as_it_is(
    concurrency: int, is_raised_by_on_error: bool
) -> None:
    def fail(error: BaseException) -> None:
        raise KeyError(5) from error

    error = KeyError if is_raised_by_on_error else ValueError
    pump = Pump(filled(1), Handler(0), on_error=fail if is_raised_by_on_error else "raise")
    with pytest.raises(error):
        async with pump.draining(concurrency):
            await asyncio.Event().wait()

    pump = Pump(filled(1), Handler(0), on_error=fail if is_raised_by_on_error else "raise")
    with pytest.raises(error):
        await pump.drain(concurrency)


@pytest.mark.parametrize("is_a_block", [True, False], ids=["draining", "drain"])
async def test_several_failures_at_the_same_time_are_raised_in_a_group(is_a_block: bool) -> None:
    both = asyncio.Event()
    begun: list[int] = []

    async def fail(number: int) -> None:
        begun.append(number)
        if len(begun) == 2:
            both.set()

        await both.wait()
        raise ValueError(number)

    async def drain() -> None:
        async with pump.draining(2):
            await asyncio.Event().wait()

    pump = Pump(filled(2), fail, on_error="raise")
    with pytest.raises(ExceptionGroup) as caught:
        await (drain() if is_a_block else pump.drain(2))

    assert sorted(str(error) for error in caught.value.exceptions) == ["0", "1"]


async def test_a_group_that_a_handler_raises_stays_one() -> None:
    async def fail(number: int) -> None:
        raise ExceptionGroup("mine", [ValueError(number)])

    with pytest.raises(ExceptionGroup, match="mine"):
        async with Pump(filled(1), fail, on_error="raise").draining():
            await asyncio.Event().wait()


async def test_an_error_of_the_consumer_always_ends_it() -> None:
    class Broken:
        async def __aiter__(self) -> AsyncIterator[Any]:
            raise OSError
            yield

    with pytest.raises(OSError, match=r"^$"):
        await Pump(Broken(), Handler()).drain()


async def test_anything_that_has_the_methods_will_do() -> None:
    """A list as a queue, and a dispatcher that is a method of something else."""
    settled: list[object] = []

    class Card:
        def __init__(self, number: int) -> None:
            self.number = number

        async def __aenter__(self) -> int:
            return self.number

        async def __aexit__(
            self,
            exc_type: type[BaseException] | None,
            exc: BaseException | None,
            tb: TracebackType | None,
        ) -> None:
            settled.append(exc_type)

    class Deck:
        async def __aiter__(self) -> AsyncIterator[Card]:
            for number in range(3):
                yield Card(number)

    handle = Handler(1)
    await Pump(Deck(), handle.__call__).drain(concurrency=2)

    assert sorted(handle.handled) == [0, 2]
    assert sorted(map(str, settled)) == ["<class 'ValueError'>", "None", "None"]


async def test_at_the_end_of_the_block_what_is_in_hand_goes_back() -> None:
    queue, handle = filled(5), Handler()
    handle.go.clear()
    async with Pump(queue, handle).draining(concurrency=2):
        await handle.is_full.wait()

    assert handle.handled == []
    assert queue.size == 5
    assert queue.dead == []


async def test_or_comes_to_its_end() -> None:
    queue, handle = filled(5), Handler()
    handle.go.clear()
    async with Pump(queue, handle).draining(concurrency=2, graceful=True):
        await handle.is_full.wait()
        asyncio.get_running_loop().call_soon(handle.go.set)

    assert (handle.handled, queue.size) == ([0, 1], 3)


async def test_for_which_there_is_some_time() -> None:
    """python-cq waits for ever."""
    queue, handle = filled(5), Handler()
    handle.go.clear()
    async with Pump(queue, handle).draining(concurrency=2, graceful=True, timeout=0.01):
        await handle.is_full.wait()

    assert (handle.handled, queue.size) == ([], 5)


async def test_a_graceful_end_lets_idle_workers_go() -> None:
    async with Pump(MemoryQueue[int](), Handler()).draining(3, graceful=True):
        pass


async def test_of_a_closed_queue_a_graceful_end_leaves_nothing() -> None:
    queue, handle = filled(5), Handler()
    async with Pump(queue, handle).draining(concurrency=2, graceful=True):
        await queue.close()

    assert sorted(handle.handled) == list(range(5))


async def test_cancelled_it_hands_back_what_it_had() -> None:
    queue, handle = filled(5), Handler()
    handle.go.clear()
    task = asyncio.create_task(Pump(queue, handle).drain(concurrency=2))
    await handle.is_full.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert queue.size == 5


async def test_the_queue_tries_again_what_the_pump_has_failed() -> None:
    queue, handle = filled(1, retry=Retry(3, Fixed(0))), Handler(0)
    await queue.close()
    await Pump(queue, handle).drain()

    assert [letter.attempt for letter in queue.dead] == [3]


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5])
async def test_a_concurrency_that_makes_no_sense_is_refused(concurrency: int) -> None:
    pump = Pump(MemoryQueue[int](), Handler())
    with pytest.raises(InvalidValue):
        await pump.drain(concurrency)

    with pytest.raises(InvalidValue):
        async with pump.draining(concurrency):
            pass


@pytest.mark.parametrize("middlewares", [(), (RetryMiddleware(1),)], ids=["alone", "within"])
async def test_a_dispatcher_that_is_not_async_is_called_in_a_thread(
    middlewares: tuple[Middleware, ...],
) -> None:
    """As by consume: what it does it does once."""
    queue, threads = filled(3), []
    told: list[BaseException] = []
    handled: list[int] = []

    def handle(number: int) -> None:
        threads.append(threading.current_thread())
        handled.append(number)
        if number == 1:
            raise KeyError(number)

    await queue.close()
    await Pump(queue, handle, on_error=told.append, middlewares=middlewares).drain()

    assert handled == [0, 1, 2]
    assert threading.current_thread() not in threads
    assert [type(error) for error in told] == [KeyError]
    assert [letter.body for letter in queue.dead] == [1]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"consumer": 5}, "consumer"),
        ({"dispatcher": 5}, "handler"),
        ({"middlewares": RetryMiddleware(2)}, "tuple"),
        ({"middlewares": (5,)}, "middleware"),
        ({"on_error": 5}, "on_error"),
    ],
    ids=str,
)
def test_what_no_pump_is_made_of(given: dict[str, Any], text: str) -> None:
    async def handle(number: int) -> None: ...

    parts: dict[str, Any] = {"consumer": MemoryQueue[int](), "dispatcher": handle} | given
    with pytest.raises(InvalidValue, match=text):
        Pump(**parts)


def test_a_way_with_errors_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Pump(MemoryQueue[int](), Handler(), on_error=cast("Any", "ignore"))
