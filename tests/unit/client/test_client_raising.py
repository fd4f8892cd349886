"""What a user's functions raise is their failure, be it an Exception or not, wherever one runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import ClientEvent, DecodeError, EncodeError, Fixed, Retry
from broker.client.calling import is_of, outcome_of
from broker.client.codecs import Codecs
from broker.client.events import Events
from broker.queues import CaptureExceptionMiddleware, MemoryQueue, RetryMiddleware, with_middlewares

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class TooLate(BaseException):
    """No Exception, as the time limits of some libraries are not."""


RAISED = [TooLate("too late"), SystemExit(1), GeneratorExit(), asyncio.CancelledError()]


async def raising(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_it_becomes_an_error_that_is_of_its_class_still(error: BaseException) -> None:
    with pytest.raises(RuntimeError) as raised:
        await outcome_of(raising(error))

    assert raised.value.__cause__ is error
    assert is_of(raised.value, (type(error),))
    assert not is_of(raised.value, (KeyError, KeyboardInterrupt))


async def test_it_says_what_it_was() -> None:
    with pytest.raises(RuntimeError, match=r"^it raised TooLate: too late$"):
        await outcome_of(raising(TooLate("too late")))


async def test_a_policy_knows_it_by_its_class() -> None:
    with pytest.raises(RuntimeError) as raised:
        await outcome_of(raising(TooLate()))

    assert Retry(3, Fixed(0)).allows(raised.value)
    assert Retry(3, Fixed(0), on=(TooLate,)).allows(raised.value)
    assert not Retry(3, Fixed(0), on=(KeyError,)).allows(raised.value)
    assert not Retry(3, Fixed(0), never=(TooLate,)).allows(raised.value)


def test_what_is_thrown_away_while_it_waits_does_not_go_on() -> None:
    """Say with its event loop: then it has raised nothing, and nobody could settle anything."""
    coroutine = outcome_of(asyncio.Event().wait())
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    coroutine.close()
    loop.call_soon(task.cancel)
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_listener_does_not_keep_the_others_from_hearing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    events = Events()
    heard: list[ClientEvent] = []

    def deaf(event: ClientEvent) -> None:
        raise error

    events.listen(deaf)
    events.listen(heard.append)
    events.emit(ClientEvent("connected"))

    assert len(heard) == 1
    assert "a listener of events has failed" in caplog.text


class Odd:
    content_type = "application/odd"

    def encode(self, value: object) -> bytes:
        raise TooLate

    def decode(self, data: bytes, into: Any) -> Any:
        raise TooLate


class OddBackoff:
    def wait(self, failures: int, chance: float) -> float:
        raise TooLate


def test_a_codec_that_raises_it_cannot_write_and_cannot_read() -> None:
    codecs = Codecs(Odd())
    with pytest.raises(EncodeError, match="TooLate"):
        codecs.encode(5)

    with pytest.raises(DecodeError, match="TooLate"):
        codecs.decode(b"5", Odd.content_type)


def test_a_backoff_that_raises_it_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    assert Retry(3, OddBackoff()).next_delay(1) is None
    assert "does not say how long to wait" in caplog.text


async def test_middlewares_see_it_as_a_failure() -> None:
    calls: list[str] = []
    told: list[BaseException] = []

    async def handle(message: str) -> None:
        calls.append(message)
        raise TooLate

    async def watching(message: str) -> AsyncGenerator[None, None]:
        try:
            yield
        except RuntimeError as problem:
            told.append(problem)
            raise

    handler = with_middlewares(
        handle, CaptureExceptionMiddleware(told.append), RetryMiddleware(2), watching
    )
    assert await handler("a") is None
    assert calls == ["a", "a"]
    assert [type(error) for error in told] == [RuntimeError] * 3


async def test_one_kind_of_it_can_be_captured() -> None:
    told: list[BaseException] = []
    capture = CaptureExceptionMiddleware(told.append, (TooLate,))
    await with_middlewares(raising, capture)(TooLate())
    assert len(told) == 1
    with pytest.raises(ValueError, match=r"^5$"):
        await with_middlewares(raising, capture)(ValueError(5))


async def test_a_block_that_raises_it_has_failed_and_one_that_is_interrupted_has_not() -> None:
    queue = MemoryQueue[int](retry=Retry(1))
    await queue.send(1)
    for error in (GeneratorExit, asyncio.CancelledError, KeyboardInterrupt, SystemExit, TooLate):
        assert queue.size == 1
        delivery = await queue.take()
        assert delivery is not None
        with pytest.raises(error):
            async with delivery:
                raise error

    assert (queue.size, len(queue.dead)) == (0, 1)
