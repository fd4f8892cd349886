"""Time that passes when a test wants it to: everything that a broker does by the clock."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest

from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aio_pika.abc import AbstractIncomingMessage

    from broker.testing import Broker

HOUR_S = 3_600


@pytest.fixture
def channel(leveret: Broker) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def in_thread(url: str, queue: str, on_message: Callable[..., None]) -> threading.Thread:
    """A consumer of a blocking client; it ends with the broker, or when it stops consuming."""

    def consume() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.basic_consume(queue, on_message)
        try:
            channel.start_consuming()
            connection.close()
        except pika.exceptions.AMQPError:
            pass

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    return thread


def declare_retries(channel: Any) -> None:
    """What is nacked in ``work`` comes back after a minute in ``wait``."""
    letters = {"x-dead-letter-exchange": ""}
    channel.queue_declare("work", arguments={**letters, "x-dead-letter-routing-key": "wait"})
    waiting = {"x-message-ttl": 60_000, "x-dead-letter-routing-key": "work", **letters}
    channel.queue_declare("wait", arguments=waiting)


def test_an_hour_of_retries_passes_at_once_and_in_order(leveret: Broker, channel: Any) -> None:
    declare_retries(channel)
    tries: list[float] = []

    def on_message(ch: Any, method: Any, *_: object) -> None:
        tries.append(leveret.clock.now)
        if len(tries) < 61:
            ch.basic_nack(method.delivery_tag, requeue=False)
        else:
            ch.basic_ack(method.delivery_tag)
            ch.stop_consuming()

    leveret.clock.freeze()
    thread = in_thread(leveret.url, "work", on_message)
    channel.basic_publish("", "work", b"hare")
    leveret.wait_for(lambda: leveret.history.nacked())

    leveret.clock.advance(HOUR_S)

    thread.join(5)
    assert not thread.is_alive()
    start = tries[0]
    assert [round(one - start) for one in tries] == list(range(0, HOUR_S + 60, 60))
    leveret.queue("work").assert_nacked(60).assert_acked(1).assert_empty()
    leveret.queue("wait").assert_expired(60).assert_empty()


async def test_a_coroutine_awaits_the_clock(leveret: Broker) -> None:
    leveret.clock.freeze()
    connection = await aio_pika.connect(leveret.url)
    tries: list[float] = []

    async def on_message(message: AbstractIncomingMessage) -> None:
        tries.append(leveret.clock.now)
        if len(tries) < 4:
            await message.reject()
        else:
            await message.ack()

    async with connection, connection.channel() as channel:
        letters = {"x-dead-letter-exchange": ""}
        work = await channel.declare_queue(
            "work", arguments={**letters, "x-dead-letter-routing-key": "wait"}
        )
        await channel.declare_queue(
            "wait",
            arguments={"x-message-ttl": 60_000, "x-dead-letter-routing-key": "work", **letters},
        )
        await work.consume(on_message)
        await channel.default_exchange.publish(aio_pika.Message(b"hare"), "work")
        await leveret.wait_for(lambda: leveret.history.rejected())
        await leveret.clock.advance(200)

    assert [round(one - tries[0]) for one in tries] == [0, 60, 120, 180]
    leveret.queue("work").assert_acked(1)


def test_a_frozen_clock_stands_still_and_runs_on(leveret: Broker) -> None:
    leveret.clock.freeze()
    first = leveret.clock.now
    leveret.clock.advance(5)
    assert leveret.clock.now == pytest.approx(first + 5)
    assert leveret.clock.is_frozen

    leveret.clock.resume()
    assert not leveret.clock.is_frozen
    leveret.wait_for(lambda: leveret.clock.now > first + 5)


def test_time_does_not_go_back(leveret: Broker) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        leveret.clock.advance(-1)


def test_delayed_messages_come_when_it_is_time(leveret: Broker, channel: Any) -> None:
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.queue_declare("q")
    channel.queue_bind("q", "later", "k")
    for delay_s in (7_200, 60, 3_600):
        properties = pika.BasicProperties(headers={"x-delay": delay_s * 1_000})
        channel.basic_publish("later", "k", str(delay_s).encode(), properties)

    leveret.wait_idle()
    leveret.clock.advance(59)
    leveret.queue("q").assert_ready(0)
    leveret.clock.advance(HOUR_S)
    leveret.queue("q").assert_bodies("60", "3600")
    leveret.clock.advance(HOUR_S)
    leveret.queue("q").assert_bodies("60", "3600", "7200")


def test_unused_queues_expire(leveret: Broker, channel: Any) -> None:
    channel.queue_declare("q", arguments={"x-expires": 600_000})
    leveret.clock.advance(599)
    assert leveret.queue("q").exists
    leveret.clock.advance(2)
    assert not leveret.queue("q").exists


def test_a_consumer_that_never_settles_loses_its_channel(leveret: Broker, channel: Any) -> None:
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"hare")
    channel.basic_get("q")

    # It is looked at once a minute.
    leveret.clock.advance(1_800 + 60, patience=0.01)

    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("q")

    assert closed.value.reply_code == 406
    assert "delivery acknowledgement on channel 1 timed out" in closed.value.reply_text
    leveret.queue("q").assert_requeued(1).assert_ready(1)


def test_who_is_alive_stays_connected_however_far_the_clock_is_moved(
    leveret: Broker, channel: Any
) -> None:
    assert leveret.connections[0].heartbeat_s == 60
    leveret.clock.advance(24 * HOUR_S)
    assert len(leveret.connections) == 1
    channel.queue_declare("q")


def test_a_year_of_nothing_is_over_at_once(
    leveret: Broker, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each heartbeat of each client was a stop on the way: a million a year."""
    steps = 0
    step = leveret.stage._step

    async def count() -> None:
        nonlocal steps
        steps += 1
        await step()

    monkeypatch.setattr(leveret.stage, "_step", count)
    leveret.clock.advance(365 * 24 * HOUR_S)
    assert steps < 10
    assert len(leveret.connections) == 1
    channel.queue_declare("q")

    # Its heart beats on.
    leveret.faults.silence()
    leveret.clock.advance(240)
    assert leveret.connections == []
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.queue_declare("q")


def test_who_is_silent_is_given_up(leveret: Broker, channel: Any) -> None:
    assert leveret.faults.silence() == 1
    leveret.clock.advance(240)
    assert leveret.connections == []
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.queue_declare("q")


def test_a_delivery_that_is_held_is_waited_for_but_once(leveret: Broker, channel: Any) -> None:
    channel.queue_declare("q", arguments={"x-expires": 1_000})
    channel.basic_publish("", "q", b"hare")
    channel.basic_get("q")
    started_s = time.monotonic()

    leveret.clock.advance(1_000, patience=0.2)

    assert time.monotonic() - started_s < 2


def test_stamps_follow_the_clock(leveret: Broker, channel: Any) -> None:
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", arguments={"x-message-ttl": 86_400_000, **letters})
    channel.queue_declare("dead")
    channel.basic_publish("", "q", b"hare")
    leveret.wait_idle()
    leveret.clock.advance(86_401)

    _, properties, _ = channel.basic_get("dead", auto_ack=True)
    died = properties.headers["x-death"][0]["time"].replace(tzinfo=UTC).timestamp()
    assert died - time.time() == pytest.approx(86_400, abs=60)


@pytest.mark.asyncio
async def test_time_that_several_let_pass_adds_up(leveret: Broker) -> None:
    leveret.clock.freeze()
    started_s = leveret.clock.now

    await asyncio.gather(*[leveret.clock.advance(10) for _ in range(4)])

    assert leveret.clock.now == pytest.approx(started_s + 40)
