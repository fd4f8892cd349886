"""Every operation of a client is cancelled after so many steps of the event loop.

Goal: that whoever gives up waiting does so at once, and that nobody else notices, whatever was
under way. Method: for each operation and each number of steps, innocent operations of the same
client begin with it, and have to have their own answers; at the end the connection, the channels,
the tasks and the messages are as they were.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from broker.client import (
    Client,
    Fixed,
    QueueNotFound,
    QueueSpec,
    Retry,
    SpecConflict,
    Unroutable,
    connect,
)
from tests.helpers.toolkit import Heard
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

AT_ONCE_S: Final = 2.0
STEPS: Final = (*range(10), *(round(10 * 1.3**n) for n in range(1, 15)))
MESSAGES: Final = 3


@dataclass
class Place:
    """What an operation is tried on."""

    client: Client
    url: str
    mine: str
    """A queue with some messages."""
    missing: str
    """A queue that there is not."""
    topic: str
    path: Path


async def consuming(place: Place) -> None:
    consumer = await place.client.consume(place.mine, hold, ack="manual")
    await consumer.cancel(0)


async def hold(_: object) -> None:
    await asyncio.sleep(0)


async def subscribing(place: Place) -> None:
    subscription = await place.client.subscribe(place.topic, hold)
    await subscription.cancel()


async def subscribing_to_the_dead(place: Place) -> None:
    subscription = await place.client.subscribe_dead(place.mine, hold)
    await subscription.cancel()


async def receiving(place: Place, wait: float = 0) -> None:
    deliveries = place.client.receive(place.mine, wait=wait, prefetch=2)
    async with aclosing(deliveries):
        async for delivery in deliveries:
            await delivery.requeue()
            return


async def waiting(place: Place) -> None:
    delivery = await place.client.get(place.mine, wait=1)
    if delivery is not None:
        await delivery.requeue()


async def getting(place: Place) -> None:
    delivery = await place.client.get(place.mine)
    if delivery is not None:
        await delivery.requeue()


async def failing(place: Place) -> None:
    delivery = await place.client.get(place.mine)
    if delivery is not None:
        await delivery.fail("not now")


async def iterating(place: Place) -> None:
    async with place.client.queue(place.mine) as queue:
        async for delivery in queue:
            await delivery.requeue()
            return


async def connecting(place: Place) -> None:
    async with connect(place.url) as other:
        await other.exists(place.mine)


async def loading(place: Place) -> None:
    await place.client.export(place.path, [place.missing[:-4]])
    await place.client.load(place.path)


NAMED: dict[str, Callable[[Place], Coroutine[Any, Any, object]]] = {
    "send": lambda place: place.client.send(place.topic, 1),
    "send-to-nowhere": lambda place: place.client.send(place.missing, 1, id="same"),
    "send-later": lambda place: place.client.send(place.topic, 1, when=0.01),
    "send-later-to-nowhere": lambda place: place.client.send(place.missing, 1, when=0.01),
    "publish": lambda place: place.client.publish(place.topic, 1),
    "get": getting,
    "get-and-wait": waiting,
    "get-from-nowhere": lambda place: place.client.get(place.missing, wait=1),
    "fail": failing,
    "receive": receiving,
    "receive-and-wait": lambda place: receiving(place, 1),
    "iterate": iterating,
    "consume": consuming,
    "consume-nowhere": lambda place: place.client.consume(place.missing, hold),
    "subscribe": subscribing,
    "subscribe-dead": subscribing_to_the_dead,
    "stats": lambda place: place.client.stats(place.mine),
    "exists": lambda place: place.client.exists(place.mine),
    "exists-not": lambda place: place.client.exists(place.missing),
    "declare": lambda place: place.client.declare(place.topic),
    "declare-otherwise": lambda place: place.client.declare(
        place.topic, QueueSpec(max_priority=3, dead_letter=False)
    ),
    "declare-passively": lambda place: place.client.declare(place.missing, passive=True),
    "delete": lambda place: place.client.delete(place.missing),
    "purge": lambda place: place.client.purge(place.topic),
    "bind": lambda place: place.client.bind(place.mine, "hares.#"),
    "bind-nothing": lambda place: place.client.bind(place.missing, "hares.#"),
    "unbind": lambda place: place.client.unbind(place.mine, "hares.#"),
    "list-the-dead": lambda place: place.client.dead(place.mine).list(),
    "count-the-dead": lambda place: place.client.dead(place.missing).count(),
    "replay": lambda place: place.client.dead(place.mine).replay(),
    "purge-the-dead": lambda place: place.client.dead(place.topic).purge(),
    "export": lambda place: place.client.export(place.path, [place.mine]),
    "load": loading,
    "connect": connecting,
}
ERRORS: Final = (Unroutable, QueueNotFound, SpecConflict)
"""What some of them end with if they are not cancelled."""


@pytest.mark.parametrize("operation", NAMED)
async def test_who_is_cancelled_is_so_at_once_and_nobody_else_notices(
    operation: str,
    url: str,
    client: Client,
    name: Callable[[str], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    caplog.set_level(logging.WARNING)
    innocent, empty = name("innocent"), name("empty")
    place = Place(client, url, name("mine"), name("none") + ".not", name("topic"), tmp_path / "f")
    for queue in (innocent, empty, place.topic, place.missing[:-4]):
        await client.declare(queue)

    await client.declare(place.mine, QueueSpec(retry=Retry(1000, Fixed(0))))
    for number in range(MESSAGES):
        await client.send(place.mine, number)

    await innocents(client, innocent, empty)
    link = await client.core.session.link()
    channels = len(link._connection.channels)
    tasks = asyncio.all_tasks()
    heard = Heard(client)
    for steps in STEPS:
        others = asyncio.gather(
            innocents(client, innocent, empty), innocents(client, innocent, empty)
        )
        is_done = await cancelled_after(steps, NAMED[operation](place))
        async with asyncio.timeout(AT_ONCE_S):
            await others
            await innocents(client, innocent, empty)

        if is_done:
            break

    await until(lambda: len(link._connection.channels) <= channels + 1)  # of delayed messages
    await until(lambda: not asyncio.all_tasks() - tasks - library_tasks())

    async def count() -> int:
        return (await client.stats(place.mine)).ready

    await until(lambda: is_at_least(count(), MESSAGES))
    # What is to be tried again was sent, and who is interrupted then hands back the first copy too.
    assert await count() == MESSAGES or operation == "fail"
    assert link is await client.core.session.link()
    assert set(heard.kinds) <= {"retried"}
    assert not problems
    assert not [record.getMessage() for record in caplog.records]


async def cancelled_after(steps: int, work: Coroutine[Any, Any, object]) -> bool:
    """Cancel something after so many steps; say whether it has ended by then."""
    task = asyncio.create_task(work)
    for _ in range(steps):
        if task.done():
            break

        await asyncio.sleep(0)

    is_done = not task.cancel()
    await asyncio.wait((task,), timeout=AT_ONCE_S)
    assert task.done()
    if not is_done:
        assert task.cancelled()
    elif (error := task.exception()) is not None:
        assert isinstance(error, ERRORS)

    return is_done


async def innocents(client: Client, innocent: str, empty: str) -> None:
    """Ask what has one right answer alone."""
    missing = f"{innocent}.none"
    answers = await asyncio.gather(
        client.exists(innocent),
        client.exists(missing),
        client.dead(innocent).count(),
        client.get(empty),
        client.publish(f"{innocent}.none", 1),
        client.send(innocent, 1),
    )
    assert answers[:5] == [True, False, 0, None, False]


async def is_at_least(count: Awaitable[int], least: int) -> bool:
    return await count >= least


def library_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks that channels are made of."""
    return {task for task in asyncio.all_tasks() if "Channel._reader" in repr(task.get_coro())}
