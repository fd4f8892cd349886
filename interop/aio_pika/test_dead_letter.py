"""aio-pika: dead-letter exchanges and what x-death says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aio_pika import ExchangeType, Message

from interop.support.deadline import eventually_async

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


async def next_of(queue: AbstractQueue, *, no_ack: bool = True) -> AbstractIncomingMessage:
    async def get() -> AbstractIncomingMessage | None:
        return await queue.get(no_ack=no_ack, fail=False)

    message = await eventually_async(get)
    assert message is not None
    return message


def deaths(message: AbstractIncomingMessage) -> list[dict[str, Any]]:
    entries = message.headers["x-death"]
    assert isinstance(entries, list)
    return [dict(entry) for entry in entries if isinstance(entry, dict)]


async def test_rejected_message_goes_to_the_dead_letter_exchange(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    dlx = await channel.declare_exchange(make_name("dlx"), ExchangeType.DIRECT)
    dead = await channel.declare_queue(exclusive=True)
    await dead.bind(dlx, "key")
    source = await channel.declare_exchange(make_name("x"), ExchangeType.DIRECT)
    queue = await channel.declare_queue(
        make_name("q"), durable=True, arguments={"x-dead-letter-exchange": dlx.name}
    )
    await queue.bind(source, "key")
    await source.publish(Message(b"m", headers={"kept": "yes"}, message_id="id"), "key")
    await (await queue.get()).reject(requeue=False)

    message = await next_of(dead)
    assert (message.exchange, message.routing_key) == (dlx.name, "key")
    assert (message.body, message.message_id, message.headers["kept"]) == (b"m", "id", "yes")
    assert message.headers["x-first-death-reason"] == "rejected"
    assert message.headers["x-first-death-queue"] == queue.name
    assert message.headers["x-first-death-exchange"] == source.name
    (death,) = deaths(message)
    assert death.pop("time")
    assert death == {
        "count": 1,
        "reason": "rejected",
        "queue": queue.name,
        "exchange": source.name,
        "routing-keys": ["key"],
    }


async def test_expired_message_loses_its_expiration(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    dead = await channel.declare_queue(exclusive=True)
    queue = await channel.declare_queue(
        make_name("q"),
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name},
    )
    await channel.default_exchange.publish(Message(b"m", expiration=0.05), queue.name)
    message = await next_of(dead)
    assert message.expiration is None
    assert message.routing_key == dead.name
    (death,) = deaths(message)
    assert (death["reason"], death["original-expiration"]) == ("expired", "50")
    assert death["routing-keys"] == [queue.name]


async def test_overflowing_message_is_dead_lettered_as_maxlen(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    dead = await channel.declare_queue(exclusive=True)
    queue = await channel.declare_queue(
        make_name("q"),
        durable=True,
        arguments={
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead.name,
        },
    )
    for body in (b"old", b"new"):
        await channel.default_exchange.publish(Message(body), queue.name)

    message = await next_of(dead)
    assert message.body == b"old"
    assert deaths(message)[0]["reason"] == "maxlen"


async def test_retry_loop_counts_each_round(channel: AbstractChannel, make_name: NameMaker) -> None:
    """The usual way to retry later: reject into a queue whose TTL leads back."""
    work_name, wait_name = make_name("work"), make_name("wait")
    work = await channel.declare_queue(
        work_name,
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait_name},
    )
    await channel.declare_queue(
        wait_name,
        durable=True,
        arguments={
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": work_name,
        },
    )
    await channel.default_exchange.publish(Message(b"m"), work_name)
    for round_number in range(4):
        message = await next_of(work, no_ack=False)
        entries = deaths(message) if round_number else []
        counts = {(entry["queue"], entry["reason"]): entry["count"] for entry in entries}
        expected = {(wait_name, "expired"): round_number, (work_name, "rejected"): round_number}
        assert counts == (expected if round_number else {})
        if entries:
            assert entries[0]["queue"] == wait_name, "the newest death is the first entry"

        await message.reject(requeue=False)


async def test_message_that_would_expire_in_a_circle_is_dropped(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    name = make_name("q")
    queue = await channel.declare_queue(
        name,
        durable=True,
        arguments={
            "x-message-ttl": 10,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": name,
        },
    )
    await channel.default_exchange.publish(Message(b"m"), name)

    async def empty() -> bool:
        declared = await channel.declare_queue(name, passive=True)
        return declared.declaration_result.message_count == 0

    await eventually_async(empty)
    assert await queue.get(fail=False) is None


async def test_missing_dead_letter_exchange_drops_the_message(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    queue = await channel.declare_queue(
        make_name("q"), durable=True, arguments={"x-dead-letter-exchange": make_name("missing")}
    )
    await channel.default_exchange.publish(Message(b"m"), queue.name)
    await (await queue.get()).reject(requeue=False)
    assert await queue.get(fail=False) is None
