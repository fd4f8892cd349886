"""Messages over HTTP: publish, get, browse, move, redrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aio_pika
import pytest

from broker.core.message_commands import PublishRequest, publish_message
from tests.helpers.http_api import http_broker
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.http_api import HTTPClient

PERSISTENT = b"\x10\x00\x02"
"""Properties that say nothing but delivery_mode=2."""

GET = {"count": 50, "ackmode": "ack_requeue_true", "encoding": "auto"}


async def publish(
    client: HTTPClient, queue: str, payload: str = "x", **properties: object
) -> dict[str, object]:
    body = {
        "properties": properties,
        "routing_key": queue,
        "payload": payload,
        "payload_encoding": "string",
    }
    return (await client.post("/exchanges/%2F/amq.default/publish", body)).facts


async def fill(client: HTTPClient, queue: str, count: int, **arguments: object) -> None:
    body = {"durable": True, "arguments": {f"x-{k}": v for k, v in arguments.items()}}
    assert (await client.put(f"/queues/%2F/{queue}", body)).status == 201
    for number in range(count):
        await publish(client, queue, str(number), headers={"n": number, "odd": number % 2 == 1})


async def payloads(client: HTTPClient, queue: str) -> list[object]:
    rows = (await client.post(f"/queues/%2F/{queue}/get", GET)).rows
    return [row["payload"] for row in rows]


async def browse(client: HTTPClient, queue: str, query: str = "") -> dict[str, object]:
    answer = await client.get(f"/queues/%2F/{queue}/browse{query}")
    assert answer.status == 200, answer
    return answer.facts


def shown(facts: dict[str, object]) -> list[object]:
    items = facts["items"]
    assert isinstance(items, list)
    return [item["payload"] for item in items]


# -- publish and get


async def test_publish_tells_whether_it_was_routed() -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        assert await publish(client, "q") == {"routed": True}
        assert await publish(client, "nowhere") == {"routed": False}


async def test_properties_go_both_ways() -> None:
    properties: dict[str, object] = {
        "content_type": "text/plain",
        "headers": {"a": 1, "b": [1, "x", {"c": True}]},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "ümläut",
        "timestamp": 5,
        "type": "t",
        "app_id": "app",
    }
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        await publish(client, "q", "héllo", **properties)
        [row] = (await client.post("/queues/%2F/q/get", GET)).rows
        assert row["properties"] == properties
        assert row["payload"] == "héllo"
        assert row["payload_bytes"] == 6


async def test_a_full_queue_that_rejects_is_a_bad_request() -> None:
    async with http_broker() as client:
        await fill(client, "q", 1, **{"max-length": 1, "overflow": "reject-publish"})
        answer = await publish(client, "q")
        assert answer["reason"] == ("rejected Unable to publish message. Check queue limits.")


@pytest.mark.parametrize(
    ("mode", "left", "redelivered"),
    [
        ("ack_requeue_true", ["0", "1", "2"], True),
        ("reject_requeue_true", ["0", "1", "2"], True),
        ("ack_requeue_false", ["2"], False),
        ("reject_requeue_false", ["2"], False),
    ],
)
async def test_get_takes_messages_in_four_ways(
    mode: str, left: list[str], redelivered: bool
) -> None:
    async with http_broker() as client:
        await fill(client, "q", 3)
        rows = (await client.post("/queues/%2F/q/get", {**GET, "count": 2, "ackmode": mode})).rows
        assert [row["payload"] for row in rows] == ["0", "1"]
        assert [row["message_count"] for row in rows] == [2, 1]
        again = (await client.post("/queues/%2F/q/get", GET)).rows
        assert [row["payload"] for row in again] == left
        assert again[0]["redelivered"] is redelivered


async def test_what_is_no_text_comes_in_base64_and_may_be_cut() -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        body = {
            "properties": {},
            "routing_key": "q",
            "payload": "//79",
            "payload_encoding": "base64",
        }
        await client.post("/exchanges/%2F/amq.default/publish", body)
        [row] = (await client.post("/queues/%2F/q/get", GET)).rows
        assert (row["payload"], row["payload_encoding"]) == ("//79", "base64")
        [row] = (await client.post("/queues/%2F/q/get", {**GET, "truncate": 1})).rows
        assert (row["payload"], row["payload_bytes"]) == ("/w==", 3)


# -- browse


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
async def test_browsing_shows_all_and_touches_nothing(kind: str) -> None:
    async with http_broker() as client:
        await fill(client, "q", 5, **{"queue-type": kind})
        first = await browse(client, "q", "?limit=2")
        assert shown(first) == ["0", "1"]
        assert (first["total"], first["next_offset"]) == (5, 2)
        rest = await browse(client, "q", "?offset=2")
        assert shown(rest) == ["2", "3", "4"]
        assert rest["next_offset"] is None
        row = (await client.get("/queues/%2F/q")).facts
        assert (row["messages_ready"], row["messages_unacknowledged"]) == (5, 0)
        if kind != "stream":
            rows = (await client.post("/queues/%2F/q/get", GET)).rows
            assert {row["redelivered"] for row in rows} == {False}


async def test_browsing_filters_by_headers_and_key() -> None:
    async with http_broker() as client:
        await fill(client, "q", 6)
        assert shown(await browse(client, "q", "?header.odd=true")) == ["1", "3", "5"]
        assert shown(await browse(client, "q", "?header.odd=true&header.n=3")) == ["3"]
        assert shown(await browse(client, "q", "?routing_key=other")) == []


async def test_browsing_shows_who_has_what_is_unacked() -> None:
    async with http_broker() as client:
        await fill(client, "q", 4)
        connection = await aio_pika.connect(client.broker.url)
        channel = await connection.channel()
        await channel.set_qos(2)
        queue = await channel.get_queue("q")
        arrived = asyncio.Semaphore(0)

        async def keep(_message: aio_pika.abc.AbstractIncomingMessage) -> None:
            arrived.release()

        tag = await queue.consume(keep)
        await arrived.acquire()
        await arrived.acquire()
        facts = await browse(client, "q", "?state=unacked")
        assert shown(facts) == ["0", "1"]
        items = facts["items"]
        assert isinstance(items, list)
        assert {(item["consumer_tag"], item["delivery_tag"]) for item in items} == {
            (tag, 1),
            (tag, 2),
        }
        everything = await browse(client, "q", "?state=all&offset=1")
        assert shown(everything) == ["1", "2", "3"]
        for row in [
            (await client.get("/queues")).rows[0],
            (await client.get("/queues/%2F/q")).facts,
        ]:
            sizes = [row[f"message_bytes{end}"] for end in ("", "_ready", "_unacknowledged")]
            assert sizes == [4, 2, 2]
        await connection.close()


async def test_browsing_reads_what_lies_on_disk(tmp_path: Path) -> None:
    """A deep queue keeps few messages in memory; a browser sees the others all the same."""
    count = 1500
    async with http_broker({"storage": {"data_dir": str(tmp_path)}}) as client:
        await client.put("/queues/%2F/q", {"durable": True})
        vhost = client.node.vhosts["/"]
        actor = client.node.own_actor(vhost)
        for one in range(count):
            request = PublishRequest("", "q", PERSISTENT, str(one).encode(), 1024)
            publish_message(vhost, actor, request)

        await client.get("/aliveness-test/%2F")
        client.node.memory_is_short()
        assert vhost.queues["q"].cold_chunks()
        facts = await browse(client, "q", "?offset=100&limit=1000")
        assert shown(facts) == [str(one) for one in range(100, 1100)]
        facts = await browse(client, "q", "?offset=1490")
        assert shown(facts) == [str(one) for one in range(1490, count)]
        assert len(await payloads(client, "q")) == 50


# -- move


async def move(client: HTTPClient, path: str, **body: object) -> dict[str, object]:
    answer = await client.post(f"/queues/%2F/{path}", {**body, "wait": True})
    assert answer.status == 200, answer
    return answer.facts


async def test_moving_takes_all_in_order() -> None:
    async with http_broker() as client:
        await fill(client, "a", 5)
        await fill(client, "b", 0)
        facts = await move(client, "a/move", destination="b")
        assert (facts["state"], facts["moved"], facts["total"]) == ("done", 5, 5)
        assert facts["progress"] == 1.0
        assert await payloads(client, "a") == []
        assert await payloads(client, "b") == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_moving_leaves_what_is_not_wanted_as_it_was(kind: str) -> None:
    async with http_broker() as client:
        await fill(client, "a", 6, **{"queue-type": kind})
        await fill(client, "b", 0)
        wish = {"headers": {"odd": True}}
        facts = await move(client, "a/move", destination="b", filter=wish, limit=2)
        assert (facts["moved"], facts["passed"]) == (2, 2)
        assert await payloads(client, "b") == ["1", "3"]
        rows = (await client.post("/queues/%2F/a/get", GET)).rows
        assert [row["payload"] for row in rows] == ["0", "2", "4", "5"]
        assert {row["redelivered"] for row in rows} == {False}


async def test_what_the_target_refuses_stays() -> None:
    async with http_broker() as client:
        await fill(client, "a", 3)
        await fill(client, "b", 0, **{"max-length": 2, "overflow": "reject-publish"})
        facts = await move(client, "a/move", destination="b")
        assert (facts["moved"], facts["refused"]) == (2, 1)
        assert await payloads(client, "a") == ["2"]


async def test_moving_by_an_exchange_follows_its_bindings() -> None:
    async with http_broker() as client:
        await fill(client, "a", 2)
        await fill(client, "b", 0)
        await client.post("/bindings/%2F/e/amq.direct/q/b", {"routing_key": "k"})
        facts = await move(client, "a/move", exchange="amq.direct", routing_key="k")
        assert facts["moved"] == 2
        [first, _] = (await client.post("/queues/%2F/b/get", GET)).rows
        assert (first["exchange"], first["routing_key"]) == ("amq.direct", "k")


async def test_redriving_brings_dead_letters_back_to_where_they_died() -> None:
    async with http_broker() as client:
        await fill(client, "dead", 0)
        settings = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
        await fill(client, "work", 3, **settings)
        body = {**GET, "ackmode": "reject_requeue_false"}
        assert len((await client.post("/queues/%2F/work/get", body)).rows) == 3
        assert await payloads(client, "work") == []
        facts = await move(client, "dead/redrive")
        assert facts["moved"] == 3
        rows = (await client.post("/queues/%2F/work/get", GET)).rows
        assert [row["payload"] for row in rows] == ["0", "1", "2"]
        assert rows[0]["routing_key"] == "work"
        assert await payloads(client, "dead") == []


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        pytest.param("q", "the queue has been deleted", id="from"),
        pytest.param("to", "the destination 'to' has been deleted", id="to"),
    ],
)
async def test_a_move_whose_queue_is_deleted_has_failed(queue: str, reason: str) -> None:
    async with http_broker() as client:
        await fill(client, "q", 30)
        await fill(client, "to", 0)
        begun = await client.post("/queues/%2F/q/move", {"destination": "to", "rate": 20})
        await client.delete(f"/queues/%2F/{queue}")
        path = f"/moves/{begun.facts['id']}"

        async def has_ended() -> bool:
            return (await client.get(path)).facts["state"] != "running"

        await until(has_ended)
        facts = (await client.get(path)).facts
        assert (facts["state"], facts["reason"]) == ("failed", reason)


async def test_a_move_can_be_watched_and_cancelled() -> None:
    async with http_broker() as client:
        await fill(client, "a", 5)
        await fill(client, "b", 0)
        begun = await client.post("/queues/%2F/a/move", {"destination": "b", "rate": 1})
        assert begun.status == 202
        path = begun.headers["location"].removeprefix("/api")
        assert (await client.get(path)).facts["state"] == "running"
        assert (await client.delete(path)).status == 204
        facts = (await client.get(path)).facts
        assert facts["state"] == "cancelled"
        moved = facts["moved"]
        assert isinstance(moved, int)
        assert await payloads(client, "a") == [str(one) for one in range(moved, 5)]
        assert [row["id"] for row in (await client.get("/moves")).rows] == [facts["id"]]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"destination": "a"}, 400),
        ({"destination": "b", "exchange": "amq.direct"}, 400),
        ({"destination": "nothing"}, 404),
        ({"exchange": "nothing"}, 404),
        ({"destination": "b", "limit": 0}, 400),
        ({"destination": "b", "rate": -1}, 400),
        ({"destination": "b", "filter": {"colour": "red"}}, 400),
        ({"destination": "b", "filter": []}, 400),
    ],
)
async def test_a_move_that_cannot_be_is_refused(body: dict[str, object], status: int) -> None:
    async with http_broker() as client:
        await fill(client, "a", 1)
        await fill(client, "b", 0)
        assert (await client.post("/queues/%2F/a/move", body)).status == status
        assert await payloads(client, "a") == ["0"]
