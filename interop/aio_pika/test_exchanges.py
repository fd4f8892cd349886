"""aio-pika: every exchange type, bindings between exchanges, alternate exchanges, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aio_pika import ExchangeType, Message
from aio_pika.exceptions import ChannelClosed, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractQueue, HeadersType

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


async def bodies_of(queue: AbstractQueue) -> list[bytes]:
    """Take all that is ready: what was confirmed is."""
    bodies = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        bodies.append(message.body)

    return bodies


async def publish(
    exchange: AbstractExchange, keys: Sequence[str], headers: HeadersType | None = None
) -> None:
    for key in keys:
        await exchange.publish(Message(key.encode(), headers=headers), key, mandatory=False)


async def test_direct_exchange_compares_the_whole_key(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    exchange = await channel.declare_exchange(make_name("x"), ExchangeType.DIRECT)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, "a.b")
    await publish(exchange, ["a.b", "a", "a.b.c", "a.*", ""])
    assert await bodies_of(queue) == [b"a.b"]


async def test_fanout_exchange_gives_each_queue_one_copy(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    exchange = await channel.declare_exchange(make_name("x"), ExchangeType.FANOUT)
    queues = [await channel.declare_queue(exclusive=True) for _ in range(5)]
    for queue in queues:
        await queue.bind(exchange, "one")
        await queue.bind(exchange, "two")

    await publish(exchange, ["any", ""])
    for queue in queues:
        assert await bodies_of(queue) == [b"any", b""]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("#", ["a", "a.b", "a.b.c", "b.b", "x.a.b", ""]),
        ("*", ["a"]),
        ("a.*", ["a.b"]),
        ("a.#", ["a", "a.b", "a.b.c"]),
        ("*.b", ["a.b", "b.b"]),
        ("#.b", ["a.b", "b.b", "x.a.b"]),
        ("*.*.*", ["a.b.c", "x.a.b"]),
        ("#.a.#", ["a", "a.b", "a.b.c", "x.a.b"]),
        ("a.b", ["a.b"]),
        ("", [""]),
    ],
)
async def test_topic_exchange_matches_words(
    channel: AbstractChannel, make_name: NameMaker, pattern: str, matching: list[str]
) -> None:
    exchange = await channel.declare_exchange(make_name("x"), ExchangeType.TOPIC)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, pattern)
    await publish(exchange, ["a", "a.b", "a.b.c", "b.b", "x.a.b", ""])
    assert await bodies_of(queue) == [key.encode() for key in matching]


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        pytest.param({"x-match": "all", "a": 1, "b": "2"}, {"a": 1, "b": "2"}, True, id="all"),
        pytest.param({"x-match": "all", "a": 1, "b": "2"}, {"a": 1}, False, id="all: one missing"),
        pytest.param({"x-match": "any", "a": 1, "b": "2"}, {"b": "2"}, True, id="any"),
        pytest.param({"x-match": "any", "a": 1, "b": "2"}, {"a": 2}, False, id="any: none equal"),
        pytest.param({"a": 1}, {"a": 1, "other": 2}, True, id="all is the default"),
        pytest.param({"x-match": "all", "a": None}, {"a": "any"}, True, id="presence"),
        pytest.param({"x-match": "all"}, {}, True, id="all of nothing"),
        pytest.param({"x-match": "any"}, {"a": 1}, False, id="any of nothing"),
        pytest.param(
            {"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False, id="x- headers count with x"
        ),
        pytest.param({"x-match": "all", "x-a": 1}, {}, True, id="x- arguments are left out"),
    ],
)
async def test_headers_exchange_matches_arguments(
    channel: AbstractChannel,
    make_name: NameMaker,
    *,
    arguments: HeadersType,
    headers: HeadersType,
    matches: bool,
) -> None:
    exchange = await channel.declare_exchange(make_name("x"), ExchangeType.HEADERS)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, arguments=arguments)
    await publish(exchange, ["key"], headers)
    assert await bodies_of(queue) == [b"key"] * matches


async def test_unknown_x_match_is_refused(channel: AbstractChannel, make_name: NameMaker) -> None:
    exchange = await channel.declare_exchange(make_name("x"), ExchangeType.HEADERS)
    queue = await channel.declare_queue(exclusive=True)
    with pytest.raises(ChannelPreconditionFailed, match="expected all, any"):
        await queue.bind(exchange, arguments={"x-match": "some"})


async def test_exchange_bound_to_exchange_passes_messages_on(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    source = await channel.declare_exchange(make_name("source"), ExchangeType.TOPIC)
    target = await channel.declare_exchange(make_name("target"), ExchangeType.DIRECT)
    queue = await channel.declare_queue(exclusive=True)
    await target.bind(source, "a.#")
    await queue.bind(target, "a.b")
    await publish(source, ["a.b", "a.c", "b"])
    assert await bodies_of(queue) == [b"a.b"]
    await target.unbind(source, "a.#")
    await publish(source, ["a.b"])
    assert await bodies_of(queue) == []


async def test_loop_of_exchanges_gives_one_copy(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    names = [make_name("x") for _ in range(3)]
    ring = [await channel.declare_exchange(name, ExchangeType.FANOUT) for name in names]
    queue = await channel.declare_queue(exclusive=True)
    for left, right in zip(ring, ring[1:] + ring[:1], strict=True):
        await right.bind(left)
        await queue.bind(left)

    await publish(ring[0], ["once"])
    assert await bodies_of(queue) == [b"once"]


async def test_alternate_exchange_takes_what_is_unroutable(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    alternate = await channel.declare_exchange(make_name("alternate"), ExchangeType.FANOUT)
    main = await channel.declare_exchange(
        make_name("main"),
        ExchangeType.DIRECT,
        arguments={"alternate-exchange": alternate.name},
    )
    known, rest = [await channel.declare_queue(exclusive=True) for _ in range(2)]
    await known.bind(main, "known")
    await rest.bind(alternate)
    # Mandatory: what the alternate exchange routes is not returned.
    for key in ("known", "unknown"):
        await main.publish(Message(key.encode()), key, mandatory=True)

    assert await bodies_of(known) == [b"known"]
    assert await bodies_of(rest) == [b"unknown"]


async def test_internal_exchange_refuses_publishes(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    inner = await channel.declare_exchange(make_name("x"), ExchangeType.FANOUT, internal=True)
    # Beneath aio-pika, which would not even try.
    underlay = await channel.get_underlay_channel()
    with pytest.raises((ChannelAccessRefused, ChannelClosed), match="cannot publish to internal"):
        await underlay.basic_publish(b"", exchange=inner.name)


async def test_auto_delete_exchange_goes_with_its_last_binding(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    exchange = await channel.declare_exchange(make_name("x"), auto_delete=True)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, "one")
    await queue.bind(exchange, "two")
    await queue.unbind(exchange, "one")
    await channel.declare_exchange(exchange.name, passive=True)
    await queue.unbind(exchange, "two")
    with pytest.raises(ChannelNotFoundEntity, match=f"no exchange '{exchange.name}'"):
        await channel.declare_exchange(exchange.name, passive=True)


async def test_redeclared_exchange_must_be_the_same(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    name = make_name("x")
    await channel.declare_exchange(name, ExchangeType.DIRECT, durable=True)
    await channel.declare_exchange(name, ExchangeType.DIRECT, durable=True)
    with pytest.raises(
        ChannelPreconditionFailed,
        match=f"inequivalent arg 'type' for exchange '{name}' in vhost '/':"
        " received 'fanout' but current is 'direct'",
    ):
        await channel.declare_exchange(name, ExchangeType.FANOUT, durable=True)


async def test_exchange_in_use_is_not_deleted_if_unused(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    exchange = await channel.declare_exchange(make_name("x"))
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, "key")
    with pytest.raises(ChannelPreconditionFailed, match="in use"):
        await exchange.delete(if_unused=True)

    await channel.reopen()
    await channel.exchange_delete(exchange.name)
    with pytest.raises(ChannelNotFoundEntity):
        await channel.declare_exchange(exchange.name, passive=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", ExchangeType.DIRECT),
        ("amq.fanout", ExchangeType.FANOUT),
        ("amq.topic", ExchangeType.TOPIC),
        ("amq.headers", ExchangeType.HEADERS),
        ("amq.match", ExchangeType.HEADERS),
    ],
)
async def test_built_in_exchange_is_there(
    channel: AbstractChannel, name: str, kind: ExchangeType
) -> None:
    exchange = await channel.declare_exchange(name, kind, durable=True)
    queue = await channel.declare_queue(exclusive=True)
    arguments: HeadersType = {"x-match": "all", "queue": queue.name}
    await queue.bind(exchange, queue.name, arguments=arguments)
    await publish(exchange, [queue.name], {"queue": queue.name})
    assert await bodies_of(queue) == [queue.name.encode()]


@pytest.mark.parametrize("name", ["amq.invented", "amq.gen-x"])
async def test_reserved_prefix_is_refused(channel: AbstractChannel, name: str) -> None:
    with pytest.raises(ChannelAccessRefused, match=r"contains reserved prefix 'amq\.\*'"):
        await channel.declare_exchange(name)


async def test_default_exchange_cannot_be_bound(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    with pytest.raises(ChannelAccessRefused, match="operation not permitted on the default"):
        await queue.bind("", "key")
