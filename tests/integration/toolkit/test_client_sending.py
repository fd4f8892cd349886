"""Sending: confirmed, told where it goes wrong, in the order and at the time that was wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker.client import (
    Client,
    Cron,
    DecodeError,
    EncodeError,
    Envelope,
    InvalidPriority,
    InvalidSchedule,
    InvalidValue,
    MessageTooLarge,
    Options,
    QueueFull,
    QueueSpec,
    Unroutable,
    connect,
)
from broker.client.link import Link
from broker.embedded import Broker
from tests.helpers.toolkit import LIVE_URL, Heard, needs_leveret

Name = Callable[[str], str]


@dataclass
class Order:
    hares: int


async def get(client: Client, queue: str, wait: float = 5) -> Any:
    delivery = await client.get(queue, wait=wait)
    assert delivery is not None
    async with delivery as body:
        return body


async def test_what_is_sent_arrives_with_all_that_was_said(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    before = datetime.now(UTC)
    sent = await client.send(orders, {"hares": 2}, id="o-1", headers={"shop": "north", "n": 3})
    delivery = await client.get(orders)
    assert delivery is not None
    message = delivery.message

    assert (sent.id, sent.resent) == ("o-1", False)
    assert (message.body, message.id, message.attempt) == ({"hares": 2}, "o-1", 1)
    assert message.headers == {"shop": "north", "n": 3}
    assert (message.queue, message.topic, message.redelivered) == (orders, orders, False)
    assert message.timestamp is not None
    assert before <= message.timestamp <= datetime.now(UTC), "not cut to seconds, as AMQP's are"


async def test_an_envelope_says_more(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    envelope = Envelope(
        body=b"<a/>",
        content_type="text/xml",
        type="order",
        correlation_id="c-1",
        reply_to="answers",
        durable=False,
    )
    sent = await client.send_envelope(orders, envelope)
    delivery = await client.get(orders)
    assert delivery is not None

    assert delivery.id == sent.id != ""
    assert (delivery.data, delivery.content_type, delivery.type) == (b"<a/>", "text/xml", "order")
    assert (delivery.correlation_id, delivery.reply_to) == ("c-1", "answers")


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
async def test_every_codec_carries_a_type(url: str, name: Name, codec: str) -> None:
    orders = name("orders")
    async with connect(url, codec=codec) as client:
        await client.declare(orders)
        await client.send(orders, Order(2))
        delivery = await client.get(orders, type=Order)
        assert delivery is not None

        assert delivery.body == Order(2)


async def test_bytes_are_bytes(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, bytes(range(256)) * 1000)

    assert await get(client, orders) == bytes(range(256)) * 1000


async def test_a_queue_that_is_not_there_is_told(client: Client, name: Name) -> None:
    missing = name("missing")
    with pytest.raises(Unroutable, match="there is no queue"):
        await client.send(missing, 1)

    with pytest.raises(Unroutable, match="there is no queue"):
        await client.send(missing, 1, when=60)


async def test_a_full_queue_is_told(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_length=2))
    await client.send(orders, 1)
    await client.send(orders, 2)
    with pytest.raises(QueueFull, match="full"):
        await client.send(orders, 3)

    assert (await client.stats(orders)).ready == 2


async def test_or_lets_its_oldest_go(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_length=2, on_full="drop-oldest"))
    for number in range(4):
        await client.send(orders, number)

    assert [await get(client, orders) for _ in range(2)] == [2, 3]
    assert [letter.reason for letter in await client.dead(orders).list()] == ["maxlen", "maxlen"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param("high", ["b", "d", "a", "c", "none"], id="high-first-as-in-amqp"),
        pytest.param("low", ["none", "c", "a", "b", "d"], id="low-first-as-in-pymq"),
    ],
)
async def test_priorities_go_either_way(
    client: Client, name: Name, order: Any, expected: list[str]
) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_priority=9, priority_order=order))
    for body, priority in (("a", 5), ("b", 9), ("c", 1), ("d", 9), ("none", None)):
        await client.send(orders, body, priority=priority)

    assert [await get(client, orders) for _ in range(5)] == expected


async def test_a_priority_out_of_range_is_refused(client: Client, name: Name, url: str) -> None:
    orders, plain = name("orders"), name("plain")
    await client.declare(orders, QueueSpec(max_priority=9))
    await client.declare(plain)
    for priority in (-1, 10):
        with pytest.raises(InvalidPriority):
            await client.send(orders, 1, priority=priority)

    with pytest.raises(InvalidPriority, match="ignored"):
        await client.send(plain, 1, priority=1)

    async with connect(url) as other:
        await other.send(orders, 1, priority=9)
        with pytest.raises(InvalidPriority):
            await other.send(orders, 1, priority=256)


async def test_what_the_codec_cannot_write_is_refused(client: Client, name: Name) -> None:
    """pymq takes it, saves it, and cannot load it."""
    orders = name("orders")
    await client.declare(orders)
    with pytest.raises(EncodeError):
        await client.send(orders, object())

    with pytest.raises(InvalidValue, match="x-attempt"):
        await client.send(orders, 1, headers={"x-attempt": 3})


async def test_many_are_sent_at_once_and_in_order(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    sent = await asyncio.gather(*(client.send(orders, number) for number in range(200)))

    assert len({one.id for one in sent}) == 200
    assert [await get(client, orders) for _ in range(200)] == list(range(200))


async def test_one_that_cannot_be_sent_does_not_take_others_along(
    client: Client, name: Name, url: str
) -> None:
    """An exchange that is not there closes the channel that all of them share.

    The library goes on writing on it for a while, for which a broker closes the connection.
    """
    orders = name("orders")
    await client.declare(orders)
    options = Options(topics="toolkit-test.no-exchange")
    async with connect(url, options=options) as wrong:
        heard = Heard(wrong)
        await wrong.declare(orders)
        results = await asyncio.gather(
            *(wrong.send(orders, number) for number in range(20)),
            wrong.publish("a.b", 1),
            *(wrong.send(orders, number) for number in range(20, 40)),
            return_exceptions=True,
        )

    failed = [one for one in results if isinstance(one, BaseException)]
    assert len(failed) == 1
    assert isinstance(failed[0], LookupError)
    assert heard.kinds.count("disconnected") <= 1
    assert (await client.stats(orders)).ready >= 40


# -- later

MODES = ["auto", "ladder"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_delayed_message_arrives_later_and_not_before(
    url: str, name: Name, mode: Any
) -> None:
    orders = name("orders")
    async with connect(url, options=Options(delays=mode)) as client:
        await client.declare(orders)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await client.send(orders, "later", id="l", when=0.3, headers={"k": "v"})
        await client.send(orders, "now")
        assert await get(client, orders) == "now"
        delivery = await client.get(orders, wait=10)
        assert delivery is not None

        assert 0.3 <= loop.time() - started < 5
        assert (delivery.body, delivery.id, delivery.headers) == ("later", "l", {"k": "v"})
        assert (delivery.topic, delivery.attempt) == (orders, 1)


@pytest.mark.parametrize("mode", MODES)
async def test_delayed_messages_come_in_the_order_of_their_times(
    url: str, name: Name, mode: Any
) -> None:
    """A short delay does not wait behind a long one."""
    orders = name("orders")
    async with connect(url, options=Options(delays=mode)) as client:
        await client.declare(orders)
        for seconds in (0.6, 0.1, 0.35):
            await client.send(orders, seconds, when=seconds)

        assert [await get(client, orders) for _ in range(3)] == [0.1, 0.35, 0.6]


@pytest.mark.parametrize("mode", MODES)
async def test_a_queue_that_was_made_anew_gets_what_is_delayed(
    url: str, name: Name, mode: Any
) -> None:
    orders = name("orders")
    async with connect(url, options=Options(delays=mode)) as client:
        await client.declare(orders)
        await client.send(orders, 1, when=0.05)
        assert await get(client, orders) == 1
        await client.delete(orders)
        with pytest.raises(Unroutable):
            await client.send(orders, 2, when=0.05)

        await client.declare(orders)
        await client.send(orders, 3, when=0.05)
        assert await get(client, orders) == 3


@pytest.mark.parametrize(
    "when",
    [
        pytest.param(datetime.now(UTC) - timedelta(days=1), id="a-moment-that-has-passed"),
        pytest.param(timedelta(milliseconds=20), id="timedelta"),
        pytest.param(Cron("* * * * * *"), id="every-second"),
    ],
)
async def test_a_time_is_said_in_many_ways(client: Client, name: Name, when: Any) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, "due", when=when)

    assert await get(client, orders) == "due"


async def test_times_that_cannot_be_are_refused(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    for when in (-1, float("nan"), timedelta(days=60), datetime(2099, 1, 1, tzinfo=UTC)):
        with pytest.raises(InvalidSchedule):
            await client.send(orders, 1, when=when)

    with pytest.raises(InvalidValue, match="ttl"):
        await client.send_envelope(orders, Envelope(body=1, when=1, ttl=1))


# -- once


async def test_a_message_that_was_handled_is_skipped_for_a_while(
    client: Client, name: Name
) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(dedupe_window=60))
    for body in ("first", "again"):
        await client.send(orders, body, id="same")

    await client.send(orders, "other", id="another")
    assert await get(client, orders) == "first"
    assert await get(client, orders) == "other"
    assert (await client.stats(orders)).ready == 0


async def test_what_was_purged_or_has_died_is_no_duplicate(client: Client, name: Name) -> None:
    """pymq swallows it: a silent loss."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(dedupe_window=60))
    await client.send(orders, 1, id="same")
    await client.purge(orders)
    await client.send(orders, 2, id="same")
    delivery = await client.get(orders)
    assert delivery is not None
    await delivery.dead()
    assert await client.dead(orders).replay() == 1

    assert await get(client, orders) == 2


async def test_by_default_nothing_is_skipped(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    for _ in range(2):
        await client.send(orders, 1, id="same")

    assert [await get(client, orders) for _ in range(2)] == [1, 1]


async def test_a_body_of_another_type_is_told(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, {"hares": "two"})
    delivery = await client.get(orders, type=Order)
    assert delivery is not None
    with pytest.raises(DecodeError):
        _ = delivery.body


async def test_the_plugin_of_rabbitmq_is_used_where_that_was_said(
    url: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It returns what is mandatory and delivers it all the same, so nothing is, to it."""
    if LIVE_URL is not None:
        pytest.skip("needs exchanges of type x-delayed-message")

    monkeypatch.setattr(Link, "product", "RabbitMQ")
    orders = name("orders")
    async with connect(url, options=Options(delays="exchange")) as client:
        with pytest.raises(Unroutable):
            await client.send(orders, 1, when=0.05)

        await client.declare(orders)
        await client.send(orders, 2, when=0.05)
        assert await get(client, orders) == 2
        assert not await client.exists("leveret.delay.0")


async def test_of_two_with_the_same_id_both_are_told_that_there_is_no_queue(
    client: Client, name: Name
) -> None:
    """The library takes the second one for confirmed."""
    missing = name("missing")
    results = await asyncio.gather(
        *(client.send(missing, number, id="same") for number in range(5)), return_exceptions=True
    )

    assert [type(one) for one in results] == [Unroutable] * 5


@needs_leveret
async def test_what_is_too_large_is_told(name: Name) -> None:
    limits = {"version": 1, "limits": {"max_message_size": 100_000}}
    async with Broker(limits, log_level="error") as broker, connect(broker.url) as client:
        orders = name("orders")
        await client.declare(orders)
        with pytest.raises(MessageTooLarge, match="100000"):
            await client.send(orders, b"a" * 100_001)

        await client.send(orders, b"a" * 100_000)
        assert (await client.stats(orders)).ready == 1
