"""Dead letters: looked at, put back, thrown away, and told of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest

from broker.client import (
    Client,
    DeadLetter,
    Delivery,
    Fixed,
    Options,
    QueueFull,
    QueueSpec,
    Retry,
    Unavailable,
    Unroutable,
    connect,
)
from broker.client.link import Link, get_message
from tests.helpers.toolkit import Heard
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    Name = Callable[[str], str]

KINDS = ["classic", "quorum"]


async def bury(client: Client, queue: str, *ids: str) -> None:
    for one in ids:
        await client.send(queue, f"body of {one}", id=one)
        delivery = await client.get(queue, wait=5)
        assert delivery is not None
        await delivery.dead(f"why {one}")


async def take(client: Client, queue: str) -> Delivery[Any]:
    delivery = await client.get(queue, wait=5)
    assert delivery is not None
    return delivery


@pytest.mark.parametrize("kind", KINDS)
async def test_they_are_looked_at_and_stay(client: Client, name: Name, kind: Any) -> None:
    """pymq's queues in memory give them away."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(kind=kind))
    await bury(client, orders, "a", "b", "c")
    dead = client.dead(orders)
    assert await dead.count() == 3

    for _ in range(3):
        assert [letter.id for letter in await dead.list()] == ["a", "b", "c"]

    assert [letter.error for letter in await dead.list(limit=2)] == ["why a", "why b"]
    assert [letter.attempt for letter in await dead.list()] == [1, 1, 1], "looking is no attempt"


async def test_all_are_put_back_as_if_new(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(retry=Retry(2, Fixed(0))))
    await client.send(orders, 1, id="a", headers={"k": "v"})
    for _ in range(2):
        delivery = await client.get(orders, wait=5)
        assert delivery is not None
        await delivery.fail("no")

    assert await client.dead(orders).replay() == 1
    delivery = await client.get(orders)
    assert delivery is not None

    assert (delivery.id, delivery.attempt, delivery.headers) == ("a", 1, {"k": "v"})
    assert delivery.message.error is None
    assert await client.dead(orders).count() == 0


async def test_some_are_put_back_and_the_others_stay_in_place(client: Client, name: Name) -> None:
    orders, elsewhere = name("orders"), name("elsewhere")
    await client.declare(orders)
    await client.declare(elsewhere)
    await bury(client, orders, "a", "b", "c", "d")
    dead = client.dead(orders)

    assert await dead.replay(["b", "nonsense"]) == 1
    assert await dead.replay("c", to=elsewhere) == 1
    assert [letter.id for letter in await dead.list()] == ["a", "d"]
    assert (await client.stats(orders)).ready == 1
    assert (await client.stats(elsewhere)).ready == 1


async def test_what_dies_again_at_once_is_put_back_once(client: Client, name: Name) -> None:
    """Else it would go round for ever."""
    orders = name("orders")
    heard = Heard(client)
    await client.declare(orders)
    await bury(client, orders, "a", "b", "c")

    async def kill(delivery: Delivery[Any]) -> None:
        await delivery.dead("again")

    async with await client.consume(orders, kill):
        assert await client.dead(orders).replay() == 3
        await heard.wait_for("dead", count=6)

    assert await client.dead(orders).count() == 3


async def test_what_does_not_fit_stays_dead(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_length=2))
    await bury(client, orders, "a", "b", "c", "d", "e")
    dead = client.dead(orders)
    text = "full: 2 dead letters were put back, and 2 stay where they were: d, e"
    with pytest.raises(QueueFull, match=text) as caught:
        await dead.replay(["a", "c", "d", "e"])

    assert caught.value.left == ("d", "e")
    assert [letter.id for letter in await dead.list()] == ["b", "d", "e"]
    for expected in ("body of a", "body of c"):
        async with await take(client, orders) as body:
            assert body == expected

    assert await dead.replay(caught.value.left) == 2
    assert [letter.id for letter in await dead.list()] == ["b"]


async def test_what_is_put_back_where_nothing_is_stays_dead(client: Client, name: Name) -> None:
    orders, missing = name("orders"), name("missing")
    await client.declare(orders)
    await bury(client, orders, "a", "b")
    with pytest.raises(Unroutable, match=f"no queue '{missing}': 0 .* and 2 stay") as caught:
        await client.dead(orders).replay(to=missing)

    assert caught.value.left == ("a", "b")
    assert await client.dead(orders).count() == 2


async def test_what_makes_room_by_dying_is_dead_again(client: Client, name: Name) -> None:
    """Put back into a queue that lets its oldest go, nothing is lost, and it comes to an end."""
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_length=2, on_full="drop-oldest"))
    await bury(client, orders, "a", "b", "c", "d")
    dead = client.dead(orders)
    assert await dead.replay() == 4

    async def has_settled() -> bool:
        return await dead.count() == 2

    await until(has_settled)
    assert {(one.id, one.reason) for one in await dead.list()} == {("a", "maxlen"), ("b", "maxlen")}
    assert (await client.stats(orders)).ready == 2


async def test_they_are_thrown_away(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    await bury(client, orders, "a", "b")

    assert await client.dead(orders).purge() == 2
    assert await client.dead(orders).count() == 0


async def test_a_queue_without_any_has_none(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(dead_letter=False))
    dead = client.dead(orders)

    assert (await dead.list(), await dead.count()) == ([], 0)
    assert (await dead.replay(), await dead.purge()) == (0, 0)


async def test_only_so_many_are_kept(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders, QueueSpec(max_dead_letters=2))
    await bury(client, orders, "a", "b", "c")

    assert [letter.id for letter in await client.dead(orders).list()] == ["b", "c"]


async def test_what_expires_is_one_that_the_broker_has_made(client: Client, name: Name) -> None:
    orders = name("orders")
    told: asyncio.Queue[DeadLetter[Any]] = asyncio.Queue()
    await client.declare(orders, QueueSpec(message_ttl=0.02))
    async with await client.subscribe_dead(orders, told.put):
        await client.send(orders, {"n": 1}, id="late")
        await told.get()

    [letter] = await client.dead(orders).list()
    assert (letter.id, letter.body, letter.reason) == ("late", {"n": 1}, "expired")
    assert (letter.queue, letter.topic, letter.error) == (orders, orders, None)
    assert letter.dead_at is not None


async def test_deaths_are_told_to_who_wants_to_know(client: Client, name: Name) -> None:
    """Names with dots as well, which pymq's own notices miss."""
    orders = name("shop.orders")
    told: asyncio.Queue[DeadLetter[Any]] = asyncio.Queue()
    await client.declare(orders)
    async with await client.subscribe_dead("toolkit-test.#", told.put):
        await bury(client, orders, "a")
        letter = await told.get()

    assert (letter.id, letter.queue, letter.reason, letter.error) == (
        "a",
        orders,
        "rejected",
        "why a",
    )


async def test_a_message_that_kills_its_consumers_is_dead_in_the_end(
    client: Client, name: Name
) -> None:
    """What comes back because its channel is gone is counted by a quorum queue."""
    orders = name("orders")
    told: asyncio.Queue[DeadLetter[Any]] = asyncio.Queue()
    spec = QueueSpec(kind="quorum", arguments={"x-delivery-limit": 2})
    await client.declare(orders, spec)
    async with await client.subscribe_dead(orders, told.put):
        await client.send(orders, 1, id="poison")
        for _ in range(3):
            delivery = await client.get(orders, wait=5)
            assert delivery is not None
            await delivery.raw.channel.close()

        letter = await told.get()

    assert (letter.id, letter.reason) == ("poison", "delivery_limit")


@pytest.mark.parametrize("settle", ["dead", "fail"])
@pytest.mark.parametrize("is_durable", [True, False])
async def test_a_queue_that_others_declared_without_them_gets_them(
    client: Client, name: Name, url: str, settle: str, is_durable: bool
) -> None:
    """Rejected there, the message would be gone."""
    orders = name("orders")
    arguments: Any = {"x-message-ttl": 600_000}
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue(orders, durable=is_durable, arguments=arguments)
        await client.declare(orders)
        await client.send(orders, 1, id="a")
        delivery = await client.get(orders, wait=5, type=int)
        assert delivery is not None
        delivery._source.retry = Retry(1)
        assert await getattr(delivery, settle)("why")
        assert [(one.id, one.error) for one in await client.dead(orders).list()] == [("a", "why")]
        await client.delete(orders)


async def test_dead_letters_whose_queue_was_deleted_get_a_new_one(
    client: Client, name: Name
) -> None:
    orders = name("orders")
    await client.declare(orders)
    await client.delete(f"{orders}.dead")
    await bury(client, orders, "a")
    assert [letter.id for letter in await client.dead(orders).list()] == ["a"]


class SlowLink:
    """Makes each message that is published take a while, as over a long line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
        publish = Link.publish

        async def publish_late(link: Link, *args: Any, **more: Any) -> None:
            await asyncio.wait([asyncio.Future()], timeout=seconds.pop(0) if seconds else 0)
            await publish(link, *args, **more)

        monkeypatch.setattr(Link, "publish", publish_late)


async def test_each_step_has_the_timeout_and_not_the_whole(
    client: Client, name: Name, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = name("orders")
    await client.declare(orders)
    await bury(client, orders, "a", "b", "c")
    async with connect(url, options=Options(timeout=1.0)) as other:
        SlowLink(monkeypatch, [0.5, 0.5, 0.5])
        assert await other.dead(orders).replay() == 3


async def test_an_interrupted_replay_says_how_many_went(
    client: Client, name: Name, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = name("orders")
    await client.declare(orders)
    await bury(client, orders, "a", "b", "c")
    async with connect(url, options=Options(timeout=0.5)) as other:
        SlowLink(monkeypatch, [0, 0, 60])
        with pytest.raises(Unavailable, match="in time; 2 dead letters had been put back"):
            await other.dead(orders).replay()

        assert [letter.id for letter in await client.dead(orders).list()] == ["c"]


async def test_looking_at_many_takes_as_long_as_it_takes(
    client: Client, name: Name, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = name("orders")
    await client.declare(orders)
    await bury(client, orders, "a", "b", "c")

    async def get_late(channel: Any, queue: str) -> Any:
        await asyncio.wait([asyncio.Future()], timeout=0.4)
        return await get_message(channel, queue)

    async with connect(url, options=Options(timeout=1.0)) as other:
        monkeypatch.setattr("broker.client.dead.get_message", get_late)
        assert [letter.id for letter in await other.dead(orders).list(None)] == ["a", "b", "c"]


class Offline:
    """A codec that asks somebody else, who is not there."""

    content_type = "application/x-offline"

    def encode(self, value: object) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes, into: object) -> object:
        raise ConnectionResetError("of the codec's own")


async def test_an_error_of_a_codec_is_none_of_the_connection(url: str, name: Name) -> None:
    """Else they would be asked for again and again."""
    orders = name("orders")
    async with connect(url, codec=Offline()) as client, asyncio.timeout(5):
        heard = Heard(client)
        await client.declare(orders)
        await client.send(orders, "hare")
        delivery = await client.get(orders)
        assert delivery is not None
        await delivery.dead("why")

        [letter] = await client.dead(orders).list()
        assert (letter.body, letter.error) == (b"hare", "why")
        assert await client.dead(orders).replay(letter.id) == 1
        assert set(heard.kinds) <= {"dead"}
