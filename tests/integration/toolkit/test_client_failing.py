"""What becomes of a message that has failed where that cannot be recorded as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from broker.client import (
    NO_RETRY,
    AccessRefused,
    Client,
    Delivery,
    Fixed,
    QueueSpec,
    Retry,
    connect,
)
from broker.embedded import Broker
from tests.helpers.toolkit import Heard, needs_leveret

Name = Callable[[str], str]

TWICE = QueueSpec(retry=Retry(2, Fixed(0)))
LAST = QueueSpec(retry=NO_RETRY)


READER: Final[dict[str, object]] = {
    "version": 1,
    "users": [
        {"name": "guest", "password": "guest"},
        {"name": "reader", "password": "reader"},
    ],
    "vhosts": {
        "/": {
            "permissions": {
                "guest": {"configure": ".*", "write": ".*", "read": ".*"},
                "reader": {"configure": "^$", "write": "^$", "read": ".*"},
            }
        }
    },
}


@asynccontextmanager
async def guest_and_reader() -> AsyncIterator[tuple[Client, Client]]:
    """Two clients, the second one of somebody who may read, and nothing else."""
    async with Broker(READER, log_level="error") as broker:
        url = broker.url.replace("guest:guest@", "reader:reader@")
        async with connect(broker.url) as guest, connect(url) as reader:
            yield guest, reader


@needs_leveret
@pytest.mark.parametrize("spec", [TWICE, LAST], ids=["to be tried again", "to be a dead letter"])
async def test_who_may_only_read_does_not_spin_and_is_told_why(spec: QueueSpec) -> None:
    attempts = []

    async def fail(delivery: Delivery[Any]) -> None:
        attempts.append(delivery.attempt)
        raise KeyError("no such hare")

    async with guest_and_reader() as (guest, other):
        await guest.declare("orders", spec)
        await other.declare("orders", spec, passive=True)
        await guest.send("orders", 1)
        heard = Heard(other)
        async with await other.consume("orders", fail):
            told = [await heard.wait_for("unrecorded", number) for number in (1, 2, 3)]

        assert (await guest.stats("orders")).ready == 1
        failed = [event.error for event in heard.events if event.kind == "handler_failed"]

    assert attempts == [1, 1, 1]
    assert [type(error) for error in failed] == [KeyError] * 3
    assert [type(event.error) for event in told] == [AccessRefused] * 3
    assert "KeyError" in str(told[0].error)
    assert "ACCESS_REFUSED" in str(told[0].error)
    assert told[0].delay == 0.0
    assert 0.1 < told[1].delay < 0.3 < told[2].delay < 0.5


@needs_leveret
async def test_what_is_handed_back_for_want_of_rights_says_both_errors() -> None:
    async with guest_and_reader() as (guest, other):
        await guest.declare("orders", TWICE)
        await other.declare("orders", TWICE, passive=True)
        await guest.send("orders", 1)
        for error in (KeyError(5), "no such hare", None):
            delivery = await other.get("orders", wait=5)
            assert delivery is not None
            with pytest.raises(AccessRefused, match="ACCESS_REFUSED") as raised:
                await delivery.fail(error)

            assert str(error) in str(raised.value) or error is None
            if isinstance(error, KeyError):
                assert raised.value.__cause__ is error
            else:
                assert isinstance(raised.value.__cause__, AccessRefused)

        assert (await guest.stats("orders")).ready == 1


@needs_leveret
async def test_what_is_recorded_again_is_not_held_for_what_was_not() -> None:
    """The wait grows with failures in a row that cannot be recorded, and with nothing else."""
    async with guest_and_reader() as (guest, other):
        await guest.declare("orders", TWICE)
        await other.declare("orders", QueueSpec(dead_letter=False, retry=Retry(9)), passive=True)
        heard, wants = Heard(other), ["again", "drop", "again"]

        async def fail(delivery: Delivery[Any]) -> None:
            if wants.pop(0) == "drop":
                await delivery.dead("nobody wants it")
                await guest.send("orders", 2)

            raise KeyError

        await guest.send("orders", 1)
        async with await other.consume("orders", fail, prefetch=1):
            told = [await heard.wait_for("unrecorded", number) for number in (1, 2)]

    assert [event.delay for event in told] == [0.0, 0.0]


@pytest.mark.parametrize("spec", [TWICE, LAST], ids=["to be tried again", "the last attempt"])
async def test_of_a_queue_that_was_deleted_it_is_a_dead_letter(
    client: Client, name: Name, url: str, spec: QueueSpec
) -> None:
    orders = name("orders")
    async with connect(url) as other:
        await client.declare(orders, spec)
        await other.declare(orders, spec, passive=True)
        await client.send(orders, 1)
        delivery = await other.get(orders)
        assert delivery is not None
        await client.delete(orders)

        assert await delivery.fail(KeyError("no such hare")) is True

    (letter,) = await client.dead(orders).list()
    assert (letter.body, letter.reason, letter.attempt) == (1, "attempts", 1)


async def test_of_a_queue_that_was_deleted_with_its_dead_letters_nothing_is_left(
    client: Client, name: Name, url: str
) -> None:
    orders = name("orders")
    async with connect(url) as other:
        await client.declare(orders, TWICE)
        await other.declare(orders, TWICE, passive=True)
        heard = Heard(other)
        await client.send(orders, 1)
        delivery = await other.get(orders)
        assert delivery is not None
        await client.delete(orders)
        await client.delete(f"{orders}.dead")

        assert await delivery.fail("x") is False
        assert not await client.exists(f"{orders}.dead")

    await asyncio.wait_for(heard.wait_for("dropped"), 5)
