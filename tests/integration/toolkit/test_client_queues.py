"""Queues: declared, found, emptied, deleted; and that a mistake hurts nobody else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from broker.client import (
    Client,
    InvalidName,
    QueueNotFound,
    QueueSpec,
    Retry,
    SpecConflict,
    ToolkitError,
    connect,
)
from tests.helpers.toolkit import Heard

Name = Callable[[str], str]


async def test_a_queue_is_declared_once_and_again(client: Client, name: Name) -> None:
    orders = name("orders")
    spec = QueueSpec(max_length=5, retry=Retry(2))

    assert await client.declare(orders, spec) == spec
    assert await client.declare(orders, spec) == spec
    assert await client.exists(orders)
    assert await client.exists(orders + ".dead")


async def test_without_a_spec_what_is_there_is_taken_as_it_is(
    client: Client, name: Name, url: str
) -> None:
    """pymq takes no spec for the usual one, and finds a conflict."""
    orders = name("orders")
    spec = await client.declare(orders, QueueSpec(max_length=5))
    async with connect(url) as other:
        await other.declare(orders)

    assert await client.declare(orders) == spec
    await client.declare(name("fresh"))


async def test_another_spec_is_a_conflict_and_nothing_else(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_length=5))
    with pytest.raises(SpecConflict, match="x-max-length"):
        await client.declare(orders, QueueSpec(max_length=6))

    await client.send(orders, 1)
    assert (await client.stats(orders)).ready == 1


@pytest.mark.parametrize(
    ("there", "here", "text"),
    [
        ({"max_length": 5}, {"max_length": 6}, "max_length is 6 here and 5 there"),
        ({"max_length": 5}, {}, "max_length is None here and 5 there"),
        ({}, {"message_ttl": 1.5}, "message_ttl is 1.5 here and None there"),
        ({"message_ttl": 1.5}, {"message_ttl": 2}, "message_ttl is 2 here and 1.5 there"),
        ({}, {"auto_delete": True}, "auto_delete is True here and False there"),
        ({}, {"dead_letter": False}, "dead_letter is False here and True there"),
        (
            {"max_length": 5},
            {"max_length": 5, "on_full": "drop-oldest"},
            "on_full is 'drop-oldest' here and 'reject' there",
        ),
        (
            {"max_dead_letters": 5},
            {"max_dead_letters": 6},
            "dead: max_dead_letters is 6 here and 5",
        ),
        ({"max_dead_letters": 5}, {}, "dead: max_dead_letters is None here and 5 there"),
        ({}, {"max_dead_letters": 5}, "dead: max_dead_letters is 5 here and None there"),
        ({}, {"kind": "quorum"}, "dead: kind is 'quorum' here and 'classic' there"),
        ({}, {"durable": False}, "dead: durable is False here and True there"),
    ],
    ids=lambda one: str(one) if isinstance(one, dict) else "",
)
async def test_a_conflict_says_what_was_given_and_what_differs(
    client: Client, name: Name, there: dict[str, Any], here: dict[str, Any], text: str
) -> None:
    """Of the queue for dead letters, too, which nobody has declared by name."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(**there))
    _, mark, differs = text.rpartition("dead: ")
    text = f"the queue '{orders}' is there, and declared otherwise: {differs}"
    if mark:
        text = (
            f"the queue '{orders}.dead', which is to keep the dead letters of '{orders}', is "
            f"there, and declared otherwise: {differs}"
        )

    with pytest.raises(SpecConflict, match=re.escape(text)):
        await client.declare(orders, QueueSpec(**here))


async def test_another_order_of_priorities_is_a_conflict_here(client: Client, name: Name) -> None:
    """Of that no broker knows: it is of who sends."""
    orders = name("orders")
    low, high = (QueueSpec(max_priority=9, priority_order=order) for order in ("low", "high"))
    await client.declare(orders, low)
    with pytest.raises(SpecConflict, match="priority_order is 'high' here"):
        await client.declare(orders, high)

    await client.declare(orders, low)
    await client.delete(orders)
    await client.declare(orders, high)
    assert client.core.spec_of(orders) is high


async def test_an_order_of_a_queue_that_others_have_deleted_binds_nobody(
    client: Client, name: Name, url: str
) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_priority=9, priority_order="low"))
    async with connect(url) as other:
        await other.delete(orders)

    await client.declare(orders, QueueSpec(max_priority=9))
    await client.send(orders, 1, priority=9)
    delivery = await client.get(orders)
    assert delivery is not None
    assert delivery.raw.header.properties.priority == 9


async def test_nothing_is_made_where_that_was_not_wanted(client: Client, name: Name) -> None:
    missing = name("missing")
    with pytest.raises(QueueNotFound):
        await client.declare(missing, passive=True)

    assert not await client.exists(missing)


async def test_a_spec_can_be_told_without_declaring(client: Client, name: Name, url: str) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_priority=9))
    async with connect(url) as other:
        spec = QueueSpec(max_priority=9, priority_order="low")
        assert await other.declare(orders, spec, passive=True) == spec
        await other.send(orders, "first", priority=0)
        await other.send(orders, "zero", priority=0)

    delivery = await client.get(orders)
    assert delivery is not None
    assert delivery.priority == 9


@pytest.mark.parametrize("kind", ["get", "purge", "stats", "consume", "delete of what is used"])
async def test_what_cannot_be_done_leaves_the_rest_alone(
    client: Client, name: Name, kind: str
) -> None:
    """A missing queue closes a channel, but none that anybody else needs."""
    orders, missing = name("orders"), name("missing")
    await client.declare(orders)
    await client.send(orders, 1)
    delivery = await client.get(orders)
    assert delivery is not None
    match kind:
        case "purge":
            await client.purge(orders)
        case "stats":
            with pytest.raises(QueueNotFound):
                await client.stats(missing)
        case "consume":
            with pytest.raises(QueueNotFound):
                await client.consume(missing, print)
        case "get":
            with pytest.raises(QueueNotFound):
                await client.get(missing, wait=1)
        case _:
            async with await client.consume(orders, print):
                with pytest.raises(ToolkitError, match="in use"):
                    await client.delete(orders, if_unused=True)

    assert await delivery.ack()


async def test_stats_count_what_waits_and_what_is_dead(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    for number in range(3):
        await client.send(orders, number)

    delivery = await client.get(orders)
    assert delivery is not None
    await delivery.dead("broken")
    stats = await client.stats(orders)

    assert (stats.name, stats.ready, stats.consumers, stats.dead) == (orders, 2, 0, 1)
    assert await client.purge(orders) == 2
    assert (await client.stats(orders)).ready == 0


async def test_a_queue_is_deleted_with_its_dead_letters_where_one_says_so(
    client: Client, name: Name
) -> None:
    orders = name("orders")
    await client.declare(orders)
    for body in ("dead", "waits"):
        await client.send(orders, body)

    delivery = await client.get(orders)
    assert delivery is not None
    await delivery.dead()
    assert await client.delete(orders, with_dead=True) == 2
    assert not await client.exists(f"{orders}.dead")
    assert await client.delete(orders, with_dead=True) == 0


async def test_passive_says_what_is_known_of_a_queue(client: Client, name: Name) -> None:
    orders = name("orders")
    spec = QueueSpec(max_priority=3)
    await client.declare(orders, spec)
    assert await client.declare(orders, passive=True) == spec


async def test_who_waits_for_a_queue_that_is_deleted_hears_of_it(
    client: Client, name: Name
) -> None:
    orders = name("orders")
    heard = Heard(client)
    await client.declare(orders)
    waiting = asyncio.ensure_future(client.get(orders, wait=1))
    async with asyncio.timeout(5):
        while (await client.stats(orders)).consumers == 0:
            continue

        await client.delete(orders)
        await heard.wait_for("consumer_lost")
        with pytest.raises(QueueNotFound, match="deleted meanwhile"):
            await waiting


async def test_a_deleted_queue_leaves_its_dead_letters(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, 1)
    delivery = await client.get(orders)
    assert delivery is not None
    await delivery.dead()
    await client.send(orders, 2)

    assert await client.delete(orders) == 1
    assert not await client.exists(orders)
    assert await client.dead(orders).count() == 1


async def test_a_quorum_queue_is_one(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(kind="quorum", max_priority=9))
    await client.send(orders, 1, priority=3)
    delivery = await client.get(orders, wait=5)

    assert delivery is not None
    assert (delivery.body, delivery.priority) == (1, 3)
    assert await delivery.ack()


async def test_a_name_that_cannot_be_is_refused_here(client: Client) -> None:
    with pytest.raises(InvalidName):
        await client.declare("amq.mine")
