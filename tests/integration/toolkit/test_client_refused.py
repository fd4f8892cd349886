"""What cannot be sent is refused at once, by the name of the argument; the connection goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import pytest

from broker.client import (
    NO_RETRY,
    Client,
    Envelope,
    Fixed,
    InvalidName,
    InvalidValue,
    MessageTooLarge,
    Options,
    QueueSpec,
    Retry,
    ToolkitError,
    connect,
    wire,
)
from broker.embedded import Broker
from tests.helpers.toolkit import Heard, needs_leveret

Name = Callable[[str], str]

AT_ONCE_S: Final = 5.0
"""Far less than a client goes on sending."""

SMALL_FRAMES: Final = {"version": 1, "limits": {"frame_max": 4096}}


async def refused(work: Awaitable[object], text: str) -> InvalidValue:
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(InvalidValue, match=text) as caught:
            await work

    return caught.value


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param({"headers": {"a": "x" * 200_000}}, "frame_max", id="headers-of-two-frames"),
        pytest.param({"headers": {"a" * 300: 1}}, "name of the header", id="long-header-name"),
        pytest.param({"headers": {"a": float("nan")}}, "header 'a'", id="no-number"),
        pytest.param({"headers": {"a": 2**70}}, "header 'a'", id="many-bits"),
        pytest.param({"headers": [1]}, "headers", id="headers-without-names"),
        pytest.param({"id": "x" * 300}, "^id .*300", id="long-id"),
        pytest.param({"id": 7}, "^id ", id="id-that-is-no-text"),
        pytest.param({"id": ""}, "^id .*empty", id="empty-id"),
    ],
)
async def test_a_message_that_cannot_be_sent(
    client: Client, name: Name, said: dict[str, Any], text: str
) -> None:
    heard = Heard(client)
    orders = name("orders")
    await client.declare(orders)
    await refused(client.send(orders, 1, **said), text)
    await refused(client.publish("a", 1, **said), text)
    await asyncio.wait_for(client.send(orders, 2), AT_ONCE_S)

    assert (await client.stats(orders)).ready == 1
    assert "disconnected" not in heard.kinds


@pytest.mark.parametrize("argument", ["id", "type", "correlation_id", "reply_to", "content_type"])
def test_an_envelope_with_a_text_that_is_too_long(argument: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{argument} .* 300"):
        Envelope(body=b"", **cast("Any", {argument: "\u00e9" * 150}))

    with pytest.raises(InvalidValue, match=f"^{argument} .* not 5"):
        Envelope(body=b"", **cast("Any", {argument: 5}))


@pytest.mark.parametrize("ttl", ["1", -1, float("nan"), 5e6, True], ids=str)
def test_an_envelope_with_a_time_that_is_none(ttl: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^ttl "):
        Envelope(body=b"", ttl=ttl)


async def use_name(client: Client, name: str) -> list[Awaitable[object]]:
    return [
        client.declare(name),
        client.delete(name),
        client.purge(name),
        client.exists(name),
        client.stats(name),
        client.send(name, 1),
        client.send(name, 1, when=60),
        client.get(name),
        client.get(name, wait=1),
        client.consume(name, print),
        client.bind(name, "a"),
        client.unbind(name, "a"),
    ]


@pytest.mark.parametrize(
    "queue", ["", "q" * 256, "\ud800", "a+b", 5, None], ids=lambda one: f"{one!a:.8}"
)
async def test_a_name_that_no_queue_has(client: Client, name: Name, queue: Any) -> None:
    """The empty name is the broker's for the queue that was declared last: it was deleted."""
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, 1)
    for work in await use_name(client, queue):
        problem = await refused(work, r"^(name|queue) ")
        assert isinstance(problem, InvalidName)

    for function in (client.dead, client.queue, client.receive):
        with pytest.raises(InvalidName, match=r"^(name|queue) "):
            cast("Any", function)(queue)

    assert (await client.stats(orders)).ready == 1


@pytest.mark.parametrize("topic", ["t" * 256, "\ud800", 5], ids=lambda one: f"{one!a:.8}")
async def test_a_topic_that_is_none(client: Client, name: Name, topic: Any) -> None:
    orders = name("orders")
    await client.declare(orders)
    for work in (
        client.publish(topic, 1),
        client.subscribe(topic, print),
        client.bind(orders, topic),
        client.unbind(orders, topic),
    ):
        assert isinstance(await refused(work, "^topic "), InvalidName)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda client, queue: client.consume(queue, 5), "handler"),
        (lambda client, queue: client.consume(queue, print, retry=3), "retry is a Retry"),
        (lambda client, queue: client.consume(queue, print, prefetch="1"), "prefetch"),
        (lambda client, queue: client.consume(queue, print, ack="auto"), "ack is one of"),
        (lambda client, queue: client.subscribe("a", 5), "handler"),
        (lambda client, queue: client.subscribe("a", print, max_pending="1"), "max_pending"),
        (lambda client, queue: client.subscribe_dead("#", 5), "handler"),
        (lambda client, queue: client.get(queue, wait="1"), "wait"),
        (lambda client, queue: client.declare(queue, {"max_length": 1}), "spec is a QueueSpec"),
        (lambda client, queue: client.dead(queue).list("1"), "limit"),
        (lambda client, queue: client.dead(queue).replay(to=""), "^to "),
        (lambda client, queue: client.dead(queue).replay(5), "^ids "),
        (lambda client, queue: client.dead(queue).replay([5]), "ids"),
        (lambda client, queue: client.send(queue, 1, when="soon"), "delay"),
        (lambda client, queue: client.send_envelope(queue, 5), "envelope is an Envelope"),
        (lambda client, queue: client.publish_envelope("a", {}), "envelope is an Envelope"),
        (lambda client, queue: client.wait_connected("1"), "^timeout "),
        (lambda client, queue: client.wait_connected(float("nan")), "^timeout "),
        (lambda client, queue: client.close(grace=-1), "^grace "),
        (lambda client, queue: client.close(grace="1"), "^grace "),
        (lambda client, queue: client.send(queue, 1, priority="high"), "priority"),
    ],
    ids=str,
)
async def test_an_argument_of_another_type(
    client: Client, name: Name, call: Callable[..., Awaitable[object]], text: str
) -> None:
    orders = name("orders")
    await client.declare(orders)
    await refused(call(client, orders), text)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("of its own")


async def test_what_cannot_be_printed_is_refused_as_well(client: Client, name: Name) -> None:
    """A check that fails itself raises what nobody expects."""
    odd: Any = Unprintable()
    orders = name("orders")
    await client.declare(orders)
    for work in [
        *await use_name(client, odd),
        client.declare(orders, odd),
        client.send(orders, 1, id=odd),
        client.send(orders, 1, priority=odd),
        client.send(orders, 1, headers=odd),
        client.send(orders, 1, headers={odd: 1}),
        client.send(orders, 1, headers={"a": odd}),
        client.send(orders, 1, when=odd),
        client.send_envelope(orders, odd),
        client.get(orders, wait=odd),
        client.consume(orders, odd),
        client.consume(orders, print, prefetch=odd),
        client.consume(orders, print, ack=odd),
        client.consume(orders, print, retry=odd),
        client.publish(odd, 1),
        client.subscribe(odd, print),
        client.subscribe("a", print, max_pending=odd),
        client.bind(orders, odd),
        client.dead(orders).list(odd),
        client.dead(orders).replay(odd),
        client.wait_connected(odd),
    ]:
        await refused(work, "Unprintable")


@pytest.mark.parametrize("callback", [None, 5, "print"], ids=str)
async def test_who_listens_to_events_can_be_called(client: Client, callback: Any) -> None:
    with pytest.raises(InvalidValue, match="callback is to be a function"):
        client.on_event(callback)


async def test_what_the_broker_closes_the_connection_for_is_told(url: str, name: Name) -> None:
    """Of whatever else a broker may not like: it is not sent again for half a minute."""
    orders = name("orders")
    async with connect(url, options=Options(backoff=Fixed(0.01))) as client:
        await client.declare(orders)
        message = wire.outgoing(Envelope(body=b""), client.core.codecs, None)
        cast("Any", message.properties.headers)["bad"] = b"\x03badd\x7f\xf8\0\0\0\0\0\0"
        async with asyncio.timeout(AT_ONCE_S):
            with pytest.raises(ToolkitError, match="closed the connection"):
                await client.core.send("", orders, message)

        await client.send(orders, 2)
        assert (await client.stats(orders)).ready == 1


@pytest.mark.parametrize("into", [set[int] | list[int], "Order", 5], ids=str)
async def test_a_type_that_no_message_can_be_read_as(client: Client, name: Name, into: Any) -> None:
    """Before any message is taken: each of them would be a dead letter."""
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, 1)
    await refused(client.get(orders, type=into), "^type ")
    await refused(client.get(orders, wait=1, type=into), "^type ")
    await refused(client.consume(orders, print, type=into), "^type ")
    await refused(client.subscribe(orders, print, type=into), "^type ")
    with pytest.raises(InvalidValue, match=r"^type "):
        client.receive(orders, type=into)

    with pytest.raises(InvalidValue, match=r"^type "):
        client.queue(orders, into)

    stats = await client.stats(orders)
    assert (stats.ready, stats.dead) == (1, 0)


async def test_headers_arrive_as_they_were_sent(client: Client, name: Name) -> None:
    orders = name("orders")
    headers = {"price": 19.99, "n": 2**40, "small": -1, "yes": True, "none": None, "b": b"\xff"}
    await client.declare(orders, QueueSpec(retry=Retry(2, Fixed(0))))
    await client.send(orders, 1, headers=headers)
    delivery = await client.get(orders, wait=AT_ONCE_S)
    assert delivery is not None
    assert delivery.headers == headers
    await delivery.fail()
    again = await client.get(orders, wait=AT_ONCE_S)
    assert again is not None

    assert again.headers == headers, "another attempt changes nothing of them"


def broken(size: int) -> None:
    raise ValueError("\u00e4" * size + "the end")


@needs_leveret
@pytest.mark.parametrize("retry", [NO_RETRY, Retry(2, Fixed(0)), Retry(2, Fixed(0.01))], ids=str)
async def test_an_error_that_does_not_fit_into_a_frame_is_cut(name: Name, retry: Retry) -> None:
    """Uncut it would close the connection, and the message would come again for ever."""
    async with Broker(SMALL_FRAMES, log_level="error") as broker, connect(broker.url) as client:
        heard = Heard(client)
        orders = name("orders")
        await client.declare(orders, QueueSpec(retry=retry))
        await client.consume(orders, lambda delivery: broken(delivery.body))
        await client.send(orders, 8000, headers={"shop": "n" * 1000})
        await asyncio.wait_for(heard.wait_for("dead"), AT_ONCE_S)
        (letter,) = await client.dead(orders).list()

        assert (letter.attempt, letter.headers) == (retry.attempts, {"shop": "n" * 1000})
        assert letter.error is not None
        assert letter.error.endswith("the end")
        assert "disconnected" not in heard.kinds


@needs_leveret
async def test_a_message_with_no_room_for_anything_more_is_a_dead_letter_of_the_broker(
    name: Name,
) -> None:
    async with Broker(SMALL_FRAMES, log_level="error") as broker, connect(broker.url) as client:
        heard = Heard(client)
        orders = name("orders")
        await client.declare(orders, QueueSpec(retry=Retry(3, Fixed(0))))
        await client.consume(orders, lambda delivery: broken(1))
        low, high = 3000, 4096
        while high - low > 1:
            middle = (low + high) // 2
            try:
                await client.send(orders, 1, headers={"shop": "n" * middle})
                low = middle
            except MessageTooLarge:
                high = middle

        await client.purge(orders)
        count = len([kind for kind in heard.kinds if kind == "dead"])
        await client.send(orders, 1, headers={"shop": "n" * low}, id="fits-just")
        await asyncio.wait_for(heard.wait_for("dead", count + 1), AT_ONCE_S)

        assert "fits-just" in [letter.id for letter in await client.dead(orders).list()]
        assert "disconnected" not in heard.kinds
