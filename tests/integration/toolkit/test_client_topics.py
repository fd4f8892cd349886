"""Topics: published, subscribed, bound; in order, and what was too much is counted."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import Client, Envelope, InvalidName, InvalidValue, Message, connect
from tests.helpers.toolkit import Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.proxy import Proxy

    Name = Callable[[str], str]


@dataclass
class Hop:
    height: int


class Inbox:
    """Gets messages, and keeps them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Message[Any]] = asyncio.Queue()

    async def __call__(self, message: Message[Any]) -> None:
        await self.queue.put(message)

    async def next(self) -> Message[Any]:
        return await self.queue.get()


@pytest.fixture
def root() -> str:
    """The first word of topics that nobody else uses."""
    return f"t{uuid.uuid4().hex[:8]}"


async def test_what_is_published_reaches_those_whose_pattern_matches(
    client: Client, root: str
) -> None:
    one, many, none = Inbox(), Inbox(), Inbox()
    await client.subscribe(f"{root}.*.north", one)
    await client.subscribe(f"{root}.#", many)
    await client.subscribe(f"{root}.*", none)

    assert await client.publish(f"{root}.shop.north", {"n": 1}, headers={"k": "v"})
    message = await one.next()

    assert (message.topic, message.body, message.headers) == (
        f"{root}.shop.north",
        {"n": 1},
        {"k": "v"},
    )
    assert (await many.next()).id == message.id != ""
    assert none.queue.empty()


async def test_that_nobody_listens_is_told_and_no_error(client: Client, root: str) -> None:
    assert not await client.publish(f"{root}.a", 1)


async def test_events_come_in_order_and_one_at_a_time(client: Client, root: str) -> None:
    bodies: list[int] = []
    running = 0
    done = asyncio.Event()

    async def note(message: Message[int]) -> None:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        assert running == 1
        running -= 1
        bodies.append(message.body)
        if len(bodies) == 100:
            done.set()

    async with await client.subscribe(f"{root}.#", note):
        await asyncio.gather(*(client.publish(f"{root}.x", number) for number in range(100)))
        await done.wait()

    assert bodies == list(range(100))


async def test_a_slow_handler_misses_the_oldest_and_can_tell_how_many(
    client: Client, root: str
) -> None:
    bodies: list[int] = []
    go, has_last = asyncio.Event(), asyncio.Event()

    async def note(message: Message[int]) -> None:
        await go.wait()
        bodies.append(message.body)
        if message.body == 99:
            has_last.set()

    subscription = await client.subscribe(f"{root}.#", note, max_pending=5)
    for number in range(100):
        await client.publish(f"{root}.x", number)

    go.set()
    await has_last.wait()

    assert bodies[-5:] == [95, 96, 97, 98, 99]
    assert len(bodies) + subscription.dropped == 100


class TooLate(BaseException):
    """No Exception, as the time limits of some libraries are not."""


@pytest.mark.parametrize("error", [ValueError, TooLate, GeneratorExit, SystemExit])
async def test_a_handler_that_fails_is_told_and_goes_on(
    client: Client, root: str, error: type[BaseException]
) -> None:
    heard = Heard(client)
    inbox = Inbox()

    async def fail_first(message: Message[int]) -> None:
        if message.body == 1:
            raise error

        await inbox(message)

    await client.subscribe(f"{root}.#", fail_first)
    for number in (1, 2):
        await client.publish(f"{root}.x", number)

    assert (await inbox.next()).body == 2
    assert heard.kinds == ["handler_failed"]


async def test_bodies_have_a_type(client: Client, root: str) -> None:
    inbox = Inbox()
    await client.subscribe(f"{root}.#", inbox, type=Hop)
    await client.publish(f"{root}.x", Hop(3))

    assert (await inbox.next()).body == Hop(3)


async def test_cancelled_it_hears_no_more(client: Client, root: str) -> None:
    inbox = Inbox()
    subscription = await client.subscribe(f"{root}.#", inbox)
    await subscription.cancel()
    await subscription.cancel()

    assert not await client.publish(f"{root}.x", 1)


async def test_a_subscription_comes_back_with_the_connection(
    client: Client, proxy: Proxy, root: str
) -> None:
    inbox = Inbox()
    async with connect(proxy.url) as other:
        heard = Heard(other)
        await other.subscribe(f"{root}.#", inbox)
        await proxy.cut()
        await heard.wait_for("reconnected")
        assert await client.publish(f"{root}.x", 1)
        assert (await inbox.next()).body == 1


async def test_a_bound_queue_has_one_copy_of_each(client: Client, name: Name, root: str) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.bind(orders, f"{root}.#")
    await client.bind(orders, f"{root}.*.north")
    await client.publish(f"{root}.shop.north", 1, headers={"topic": "mine"})
    delivery = await client.get(orders)
    assert delivery is not None

    assert (delivery.body, delivery.topic) == (1, f"{root}.shop.north")
    assert delivery.headers == {"topic": "mine"}, "pymq overwrites it"
    assert await client.get(orders) is None
    await client.unbind(orders, f"{root}.#")
    await client.unbind(orders, f"{root}.*.north")
    assert not await client.publish(f"{root}.shop.north", 2)


async def test_a_bound_queue_misses_nothing_while_nobody_is_there(
    client: Client, name: Name, root: str, url: str
) -> None:
    orders = name("orders")
    async with connect(url) as other:
        await other.declare(orders)
        await other.bind(orders, f"{root}.#")

    await client.publish(f"{root}.x", 1)
    assert (await client.stats(orders)).ready == 1


async def test_what_makes_no_sense_is_refused(client: Client, root: str) -> None:
    with pytest.raises(InvalidName):
        await client.publish("a" * 256, 1)

    with pytest.raises(InvalidValue):
        await client.publish_envelope(root, Envelope(body=1, when=5))

    with pytest.raises(InvalidValue):
        await client.subscribe(root, print, max_pending=0)
