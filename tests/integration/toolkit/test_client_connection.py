"""The connection: comes about or says why not, goes and comes back, and ends."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import (
    AccessRefused,
    Client,
    Closed,
    Delivery,
    Fixed,
    Options,
    QueueSpec,
    Retry,
    Unavailable,
    connect,
)
from broker.embedded import Broker
from tests.helpers.proxy import Proxy
from tests.helpers.toolkit import Heard, needs_leveret
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Name = Callable[[str], str]

QUICK = Options(timeout=5, backoff=Fixed(0.02))


async def test_it_is_awaited_or_entered(url: str) -> None:
    client = await connect(url)
    assert client.connected
    await client.close()
    assert not client.connected
    async with connect(url) as other:
        assert other.connected


async def test_without_a_broker_that_is_told_in_time() -> None:
    with pytest.raises(Unavailable, match=r"no broker at amqp://a:\*\*\*@127\.0\.0\.1:1/"):
        await connect("amqp://a:secret@127.0.0.1:1/", options=Options(timeout=0.2))


async def test_a_broker_that_comes_a_little_later_is_waited_for(url: str) -> None:
    proxy = Proxy(url)
    await proxy.open()
    await proxy.close()
    connecting = asyncio.create_task(_connected(proxy.url))
    await asyncio.sleep(0)
    await proxy.open()
    client = await connecting
    await client.close()
    await proxy.close()


async def _connected(url: str) -> Client:
    return await connect(url, options=QUICK)


@pytest.mark.parametrize("change", ["password", "vhost"])
async def test_who_may_not_enter_is_told_at_once(url: str, change: str) -> None:
    wrong = url.replace(":guest@", ":wrong@") if change == "password" else f"{url}nowhere"
    with pytest.raises(AccessRefused):
        await connect(wrong, options=Options(timeout=10))


async def test_what_is_sent_while_it_is_away_arrives_once_it_is_back(
    client: Client, proxy: Proxy, name: Name
) -> None:
    orders = name("orders")
    async with connect(proxy.url, options=QUICK) as away:
        heard = Heard(away)
        await away.declare(orders)
        await proxy.close()
        await heard.wait_for("disconnected")
        assert not away.connected
        sending = asyncio.create_task(away.send(orders, 1, id="o-1"))
        await heard.wait_for("connect_failed")
        await proxy.open()
        sent = await sending
        await away.wait_connected()

    assert sent.id == "o-1"
    delivery = await client.get(orders)
    assert delivery is not None
    assert (delivery.id, delivery.body) == ("o-1", 1)
    assert "reconnected" in heard.kinds


async def test_what_was_under_way_is_sent_again_with_the_same_id(
    client: Client, proxy: Proxy, name: Name
) -> None:
    orders = name("orders")
    ids = [str(number) for number in range(300)]
    async with connect(proxy.url, options=QUICK) as away:
        await away.declare(orders)
        sending = [asyncio.create_task(away.send(orders, 1, id=one)) for one in ids]
        await sending[10]
        await proxy.cut()
        sent = await asyncio.gather(*sending)

    arrived = set()
    while (delivery := await client.get(orders)) is not None:
        arrived.add(delivery.id)
        await delivery.ack()

    assert [one.id for one in sent] == ids
    assert any(one.resent for one in sent)
    assert arrived == set(ids), "all of them, some perhaps twice, none under another id"


async def test_what_is_not_confirmed_in_time_is_told(proxy: Proxy, name: Name, url: str) -> None:
    orders = name("orders")
    options = Options(timeout=5, send_timeout=0.1, backoff=Fixed(0.02))
    async with connect(proxy.url, options=options) as client:
        await client.declare(orders)
        await proxy.close()
        with pytest.raises(Unavailable):
            await client.send(orders, 1)


async def test_what_was_declared_is_declared_again(
    client: Client, proxy: Proxy, name: Name
) -> None:
    """A queue of the connection's own goes with it, and comes back."""
    own, bound = name("own"), name("bound")
    async with connect(proxy.url, options=QUICK) as away:
        heard = Heard(away)
        await away.declare(own, QueueSpec(exclusive=True))
        await away.declare(bound)
        await away.bind(bound, f"{bound}.#")
        await client.delete(bound)
        await proxy.cut()
        await heard.wait_for("reconnected")
        await away.send(own, 1)
        assert await away.publish(f"{bound}.x", 1)
        assert (await away.stats(own)).ready == 1

    assert not await client.exists(own)


async def test_what_cannot_be_declared_again_is_told_and_the_rest_is_there(
    client: Client, proxy: Proxy, name: Name
) -> None:
    """In pymq it is a line in a log."""
    orders, fine = name("orders"), name("fine")
    async with connect(proxy.url, options=QUICK) as away:
        heard = Heard(away)
        await away.declare(orders)
        await away.declare(fine)
        await proxy.close()
        await client.delete(orders)
        await client.delete(fine)
        await client.declare(orders, QueueSpec(max_length=5))
        await proxy.open()
        event = await heard.wait_for("restore_failed")
        await heard.wait_for("reconnected")
        await away.send(fine, 1)

    assert event.queue == orders
    assert "x-max-length" in str(event.error)


async def test_events_say_what_happens(proxy: Proxy) -> None:
    async with connect(proxy.url, options=QUICK) as client:
        heard = Heard(client)
        await proxy.cut()
        await heard.wait_for("reconnected")

    assert heard.kinds[0] == "disconnected"


async def test_a_handler_may_use_the_client(client: Client, name: Name) -> None:
    orders, answers = name("orders"), name("answers")
    await client.declare(orders)
    await client.declare(answers)

    async def answer(delivery: Delivery[int]) -> None:
        await client.send(answers, delivery.body + 1)

    async with await client.consume(orders, answer, type=int):
        await client.send(orders, 1)
        delivery = await client.get(answers, wait=5)

    assert delivery is not None
    assert delivery.body == 2


async def test_closed_it_does_nothing_more(url: str, name: Name) -> None:
    orders = name("orders")
    client = await connect(url)
    await client.declare(orders)
    await client.close()
    await client.close()
    for attempt in (client.send(orders, 1), client.get(orders), client.publish("a", 1)):
        with pytest.raises(Closed):
            await attempt

    with pytest.raises(Closed):
        await client.declare(orders)


@needs_leveret
async def test_a_restart_of_the_broker_loses_nothing(tmp_path: Path) -> None:
    """pymq's loses everything: what was to be handled, to be tried again, to come later, dead."""
    config: dict[str, object] = {"storage": {"data_dir": str(tmp_path / "data")}}
    async with Broker(config, log_level="error") as probe:
        port = probe.port

    broker = Broker(config, port=port, log_level="error")
    await broker.start()
    handled: asyncio.Queue[Any] = asyncio.Queue()
    async with connect(broker.url, options=QUICK) as client:
        heard = Heard(client)
        await client.declare("orders", QueueSpec(retry=Retry(5, Fixed(0.3))))
        for body in ("dead", "failed", "waiting"):
            await client.send("orders", body)

        await client.send("orders", "later", when=0.3)
        for settle in ("dead", "fail"):
            delivery = await client.get("orders")
            assert delivery is not None
            assert await getattr(delivery, settle)("why")

        # Answers of a broker say that it has seen what was sent before.
        await client.stats("orders")
        await broker.stop()
        await heard.wait_for("disconnected")
        await broker.start()
        await heard.wait_for("reconnected")

        async def handle(delivery: Delivery[Any]) -> None:
            await handled.put((delivery.body, delivery.attempt))

        async with await client.consume("orders", handle):
            found = [await handled.get() for _ in range(3)]

        [letter] = await client.dead("orders").list()

    await broker.stop()
    assert sorted(found) == [("failed", 2), ("later", 1), ("waiting", 1)]
    assert letter.body == "dead"


async def test_whatever_happens_nothing_is_lost(client: Client, proxy: Proxy, name: Name) -> None:
    """Handlers fail, are late and are cut off while messages are sent: each is handled or dead."""
    orders = name("orders")
    chance = random.Random(8)
    handled: set[int] = set()
    doomed = {number for number in range(200) if number % 10 == 0}
    options = Options(timeout=5, backoff=Fixed(0.01))
    spec = QueueSpec(retry=Retry(3, Fixed(0.02)), max_priority=3)
    is_done = asyncio.Event()

    async def handle(delivery: Delivery[int]) -> None:
        if delivery.body in doomed or chance.random() < 0.2:
            raise ValueError(delivery.body)

        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.001)
        handled.add(delivery.body)
        if len(handled) >= 100:
            is_done.set()

    async with connect(proxy.url, options=options) as away:
        await away.declare(orders, spec)
        async with await away.consume(orders, handle, prefetch=20, type=int):
            sending = [
                asyncio.create_task(away.send(orders, number, priority=number % 4))
                for number in range(200)
            ]
            heard = Heard(away)
            for _ in range(4):
                cuts = heard.kinds.count("reconnected")
                await proxy.cut()
                await heard.wait_for("reconnected", cuts + 1)

            await asyncio.gather(*sending)
            await is_done.wait()

        # The rest, without haste.
        while True:
            delivery = await client.get(orders, wait=0.5, type=int)
            if delivery is None:
                break

            handled.add(delivery.body)
            await delivery.ack()

    dead = {letter.body for letter in await client.dead(orders).list(limit=None)}
    assert handled | dead == set(range(200))


async def test_a_queue_of_its_own_comes_back_when_the_broker_lets_go_of_it(
    client: Client, proxy: Proxy, name: Name, url: str
) -> None:
    """The broker keeps it for a connection that is gone, as long as it does not know that."""
    own = name("own")
    async with connect(proxy.url, options=QUICK) as away:
        heard = Heard(away)
        await away.declare(own, QueueSpec(exclusive=True))
        await away.bind(own, f"{own}.#")
        await proxy.close()
        async with connect(url) as other:
            await until(lambda: _is_declared(other, own), 5)
            await proxy.open()
            error = (await heard.wait_for("restore_failed")).error
            assert isinstance(error, AccessRefused)

        await until(lambda: away.publish(f"{own}.x", 1), 5)
        delivery = await away.get(own, wait=5)
        assert delivery is not None
        assert await delivery.ack()


async def _is_declared(client: Client, queue: str) -> bool:
    try:
        await client.declare(queue, QueueSpec(exclusive=True))
    except AccessRefused:
        return False

    return True
