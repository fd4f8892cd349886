"""What becomes of a message that is being handled: settled once, tried again, dead, handed back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import (
    Client,
    DecodeError,
    Delivery,
    Exponential,
    Fixed,
    QueueFull,
    QueueSpec,
    Retry,
    connect,
)
from broker.client.source import Source
from tests.helpers.toolkit import Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.proxy import Proxy

    Name = Callable[[str], str]

KINDS = ["classic", "quorum"]
AT_ONCE = Fixed(0)


@dataclass
class Order:
    hares: int


async def take(client: Client, queue: str) -> Delivery[Any]:
    delivery = await client.get(queue, wait=5)
    assert delivery is not None
    return delivery


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_it_is_settled_once(client: Client, name: Name, kind: Any) -> None:
    """A second acknowledgement closes the channel in AMQP; here it answers False."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(kind=kind))
    for _ in range(2):
        await client.send(orders, 1)

    delivery, other = await take(client, orders), await take(client, orders)
    assert not delivery.settled
    assert await delivery.ack()
    assert delivery.settled
    answers = [await delivery.ack(), await delivery.fail(), await delivery.dead()]
    assert [*answers, await delivery.requeue(), delivery.touch()] == [False] * 5
    assert await other.ack()
    assert (await client.stats(orders)).dead == 0


async def test_of_a_connection_that_is_gone_it_answers_false(
    proxy: Proxy, client: Client, name: Name
) -> None:
    orders = name("orders")
    async with connect(proxy.url) as other:
        heard = Heard(other)
        await other.declare(orders, QueueSpec(retry=Retry(3, AT_ONCE)))
        for _ in range(5):
            await other.send(orders, 1)

        stale = [await take(other, orders) for _ in range(5)]
        await proxy.cut()
        await heard.wait_for("reconnected")
        one, two, three, four, five = stale
        answers = [await one.ack(), await two.fail(), await three.requeue(), await four.dead()]

        assert [*answers, five.touch()] == [False] * 5
        for _ in range(5):
            fresh = await take(other, orders)
            assert await fresh.ack(), "the same channel would have been closed"

    assert await client.get(orders) is None


async def test_left_without_an_exception_it_is_acknowledged(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, {"hares": 1})
    async with await take(client, orders) as body:
        assert body == {"hares": 1}

    assert await client.get(orders) is None


async def test_left_with_one_it_is_tried_again_and_then_dead(
    client: Client, name: Name, kind: Any
) -> None:
    """N attempts are N deliveries."""
    orders = name("orders")
    heard = Heard(client)
    await client.declare(orders, QueueSpec(kind=kind, retry=Retry(3, AT_ONCE)))
    await client.send(orders, "x", id="o-1", headers={"k": "v"})
    seen: list[tuple[int, str | None]] = []
    for _ in range(3):
        delivery = await take(client, orders)
        seen.append((delivery.attempt, delivery.message.error))
        with pytest.raises(ZeroDivisionError):
            async with delivery as body:
                assert len(body) / 0

    [letter] = await client.dead(orders).list()

    assert seen == [(1, None), (2, "division by zero"), (3, "division by zero")]
    assert (letter.body, letter.id, letter.headers) == ("x", "o-1", {"k": "v"})
    assert (letter.reason, letter.attempt, letter.queue) == ("attempts", 3, orders)
    assert (letter.error, letter.error_type) == ("division by zero", "ZeroDivisionError")
    assert letter.traceback is not None
    assert "len(body) / 0" in letter.traceback
    assert letter.dead_at is not None
    assert await client.get(orders) is None
    assert heard.kinds == ["retried", "retried", "dead"]


async def test_errors_that_are_not_worth_it_are_not_tried_again(client: Client, name: Name) -> None:
    orders = name("orders")
    spec = QueueSpec(retry=Retry(5, AT_ONCE, on=(OSError,), never=(FileNotFoundError,)))
    await client.declare(orders, spec)
    for number in range(2):
        await client.send(orders, number)

    await (await take(client, orders)).fail(ValueError())
    await (await take(client, orders)).fail(FileNotFoundError())

    letters = await client.dead(orders).list()
    assert [letter.error_type for letter in letters] == ["ValueError", "FileNotFoundError"]


async def test_between_attempts_there_is_the_time_of_the_policy(client: Client, name: Name) -> None:
    """dmq says so, and does not do it."""
    orders = name("orders")
    heard = Heard(client)
    retry = Retry(3, Exponential(0.1, jitter=0))
    await client.declare(orders, QueueSpec(retry=retry))
    await client.send(orders, 1)
    loop = asyncio.get_running_loop()
    failed_at, came_at = [], []
    for _ in range(2):
        delivery = await take(client, orders)
        failed_at.append(loop.time())
        await delivery.fail("no")
        delivery = await take(client, orders)
        came_at.append(loop.time())
        await delivery.requeue()

    assert came_at[0] - failed_at[0] >= 0.09
    assert came_at[1] - failed_at[1] >= 0.19
    assert [event.delay for event in heard.events] == [0.1, 0.2]


async def test_dead_is_dead_whatever_attempts_are_left(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, 1)
    assert await (await take(client, orders)).dead("not for us")
    [letter] = await client.dead(orders).list()

    assert (letter.reason, letter.error, letter.attempt) == ("rejected", "not for us", 1)


async def test_handed_back_it_comes_again_and_no_attempt_is_counted(
    client: Client, name: Name, kind: Any
) -> None:
    """In pymq a clean shutdown spends one, and may kill the message."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(kind=kind, retry=Retry(1)))
    await client.send(orders, 1)
    for _ in range(3):
        delivery = await take(client, orders)
        assert delivery.attempt == 1
        assert await delivery.requeue()

    assert (await take(client, orders)).redelivered
    assert await client.dead(orders).count() == 0


async def test_cancelled_it_is_handed_back(client: Client, name: Name, kind: Any) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(kind=kind, retry=Retry(1)))
    await client.send(orders, 1)
    entered = asyncio.Event()

    async def handle() -> None:
        async with await take(client, orders):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(handle())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    delivery = await take(client, orders)
    assert delivery.attempt == 1
    assert await delivery.ack()


async def test_what_is_not_handled_in_time_has_failed(client: Client, name: Name) -> None:
    orders = name("orders")
    spec = QueueSpec(ack_timeout=0.05, retry=Retry(1))
    await client.declare(orders, spec)
    await client.send(orders, 1)

    async def dawdle() -> None:
        async with await take(client, orders):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        await dawdle()

    [letter] = await client.dead(orders).list()
    assert letter.error_type == "TimeoutError"


async def test_nor_is_what_is_held_without_a_block(client: Client, name: Name) -> None:
    orders = name("orders")
    heard = Heard(client)
    await client.declare(orders, QueueSpec(ack_timeout=0.05, retry=Retry(1)))
    await client.send(orders, 1)
    delivery = await take(client, orders)
    await heard.wait_for("dead")

    assert not delivery.touch()
    assert not await delivery.ack()


async def test_a_touch_gives_more_time(client: Client, name: Name) -> None:
    orders = name("orders")
    loop = asyncio.get_running_loop()
    await client.declare(orders, QueueSpec(ack_timeout=1, retry=Retry(1)))
    for _ in range(2):
        await client.send(orders, 1)

    loose = await take(client, orders)
    entered = await take(client, orders)
    began = loop.time()
    async with entered:
        while loop.time() - began < 1.2:
            assert loose.touch()
            assert entered.touch()
            await asyncio.wait([loop.create_future()], timeout=0.05)

    assert entered.settled
    assert await loose.ack()
    assert await client.dead(orders).count() == 0


async def test_what_cannot_be_read_is_a_dead_letter_at_once(client: Client, name: Name) -> None:
    """And no loop of a message that fails again and again."""
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, {"hares": "two"}, id="bad")
    delivery = await client.get(orders, type=Order)
    assert delivery is not None
    with pytest.raises(DecodeError):
        await delivery.__aenter__()

    [letter] = await client.dead(orders).list()
    assert (letter.id, letter.reason, letter.body) == ("bad", "undecodable", {"hares": "two"})
    assert letter.error is not None
    assert "Expected `int`" in letter.error


async def test_a_queue_of_others_has_their_dead_letters(
    client: Client, name: Name, url: str
) -> None:
    """Where nobody declared ours, the broker is left to do what it was told."""
    orders, graves = name("orders"), name("graves")
    await client.declare(graves, QueueSpec(dead_letter=False))
    theirs = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graves}
    spec = QueueSpec(dead_letter=False, arguments=theirs)
    await client.declare(orders, spec)
    async with connect(url) as other:
        await other.send(orders, 5)
        assert await (await take(other, orders)).dead()

    async with await take(client, graves) as body:
        assert body == 5


async def test_without_dead_letters_it_is_gone_and_that_is_told(client: Client, name: Name) -> None:
    orders = name("orders")
    heard = Heard(client)
    await client.declare(orders, QueueSpec(dead_letter=False))
    await client.send(orders, 5, id="gone")
    assert await (await take(client, orders)).dead()

    assert [(event.kind, event.id) for event in heard.events] == [("dropped", "gone")]
    assert not await client.exists(orders + ".dead")


async def test_a_full_queue_takes_back_what_is_to_be_tried_again(
    client: Client, name: Name
) -> None:
    """What comes due while a queue refuses it is lost, and to wait for room could take for ever."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_length=1, retry=Retry(3, Fixed(0.01))))
    await client.send(orders, "fails")
    delivery = await take(client, orders)
    await client.send(orders, "fills it up")
    assert await delivery.fail("no")
    again = await take(client, orders)
    assert (again.body, again.attempt) == ("fails", 2)
    assert await again.requeue()
    again = await take(client, orders)
    assert (again.body, again.attempt) == ("fails", 2)
    await again.ack()
    async with await take(client, orders) as body:
        assert body == "fills it up"

    await client.send(orders, "another one", id=again.id)
    async with await take(client, orders):
        assert (await client.stats(orders)).ready == 0


@pytest.mark.parametrize("prefetch", [1, 3])
async def test_the_only_consumer_of_a_full_queue_gets_to_the_end_of_it(
    client: Client, name: Name, kind: Any, prefetch: int
) -> None:
    """It fails each message three times, and nobody else makes any room."""
    orders = name("orders")
    spec = QueueSpec(kind=kind, max_length=3, retry=Retry(3, Fixed(0.01)))
    await client.declare(orders, spec)
    failed: Counter[int] = Counter()
    may_begin = asyncio.Event()

    async def fail(delivery: Delivery[int]) -> None:
        await may_begin.wait()
        failed[delivery.body] += 1
        raise OSError("no")

    heard = Heard(client)
    async with await client.consume(orders, fail, prefetch=prefetch):
        sent = 0
        with contextlib.suppress(QueueFull):
            while sent < 100:
                await client.send(orders, sent)
                sent += 1

        assert 3 < sent < 100
        may_begin.set()
        await asyncio.wait_for(heard.wait_for("dead", sent), 15)

    assert failed == dict.fromkeys(range(sent), 3)
    assert [letter.attempt for letter in await client.dead(orders).list()] == [3] * sent


async def test_the_topic_and_the_priority_stay_over_attempts(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(
        orders, QueueSpec(retry=Retry(3, AT_ONCE), max_priority=9, priority_order="low")
    )
    await client.send(orders, 1, priority=7)
    await client.bind(orders, "shop.*")
    await client.publish("shop.north", 2)
    for _ in range(2):
        by_topic, by_name = await take(client, orders), await take(client, orders)
        assert (by_topic.topic, by_topic.body) in (("shop.north", 2), (orders, 1))
        assert {by_topic.topic, by_name.topic} == {"shop.north", orders}
        priorities = {one.body: one.priority for one in (by_topic, by_name)}
        assert priorities[1] == 7
        await by_topic.fail()
        await by_name.fail()


@pytest.mark.parametrize("at", [1, 2])
async def test_who_is_interrupted_while_waiting_strands_nothing(
    client: Client, name: Name, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Whichever answer of the broker it waits for then, with the message in hand."""
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, 1)
    calls = 0
    cancel = Source.cancel

    async def interrupted(source: Source[Any], tag: str) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            getting.cancel()

        await cancel(source, tag)

    monkeypatch.setattr(Source, "cancel", interrupted)
    getting = asyncio.create_task(client.get(orders, wait=5))
    await asyncio.wait([getting])
    delivery = await client.get(orders, wait=1) if getting.cancelled() else getting.result()
    assert delivery is not None
    assert await delivery.ack()
