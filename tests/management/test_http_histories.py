"""Histories of counters where they are asked for, and since when something stands still."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pytest

from tests.helpers.http_api import http_broker
from tests.helpers.raw_client import RawClient, commands, raw_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.helpers.http_api import HTTPClient

DEPTHS: Final = {"messages", "messages_ready", "messages_unacknowledged"}
OCTETS: Final = {"recv_oct", "send_oct"}
CHURN: Final = {"queue_created", "channel_closed"}


def with_samples(value: object) -> Iterator[str]:
    """The counters whose details have a history."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("_details") and isinstance(inner, dict) and "samples" in inner:
                yield key.removesuffix("_details")
            else:
                yield from with_samples(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from with_samples(inner)


@asynccontextmanager
async def publisher(client: HTTPClient) -> AsyncIterator[RawClient]:
    """Somebody who has published to the queue q."""
    async with raw_client(client.broker.host, client.broker.port) as peer:
        await peer.open()
        await peer.ask(1, commands.Queue.Declare(queue="q"))
        await publish(peer)
        yield peer


async def publish(peer: RawClient) -> None:
    peer.publish(1, "", "q", b"x")
    await peer.ask(1, commands.Basic.Qos())


@pytest.mark.parametrize(
    ("path", "kind", "some", "never"),
    [
        # As RabbitMQ 4.3 takes them, but for churn, of which it has no history in the overview.
        ("/overview", "lengths", DEPTHS, {"publish"}),
        ("/overview", "msg_rates", {"publish", "deliver_get", "disk_reads"}, DEPTHS),
        ("/overview", "node_stats", CHURN, DEPTHS | {"publish"}),
        ("/vhosts", "msg_rates", {"publish", *DEPTHS}, OCTETS),
        ("/vhosts/%2F", "data_rates", OCTETS, {"publish", *DEPTHS}),
        ("/queues", "lengths", DEPTHS, {"publish"}),
        ("/queues/%2F/q", "msg_rates", {"publish", "ack"}, DEPTHS),
        ("/exchanges", "msg_rates", {"publish_in", "publish_out"}, set()),
        ("/exchanges/%2F/amq.default", "msg_rates", {"publish_in"}, set()),
        ("/connections", "data_rates", OCTETS, set()),
        ("/connections/{connection}", "data_rates", OCTETS, set()),
        ("/channels", "msg_rates", {"publish", "deliver"}, set()),
        ("/channels/{connection}%20(1)", "msg_rates", {"publish"}, set()),
        ("/nodes", "node_stats", {"mem_used", "fd_used", "io_sync_count", *CHURN}, set()),
    ],
)
async def test_each_kind_of_range_completes_its_counters(
    path: str, kind: str, some: set[str], never: set[str]
) -> None:
    async with http_broker() as client, publisher(client):
        connection = (await client.get("/connections")).rows[0]["name"]
        client.broker.sample()
        client.broker.sample()
        path = path.replace("{connection}", quote(str(connection), safe=""))
        query = f"{path}?{kind}_age=60&{kind}_incr=5"
        found = set(with_samples((await client.get(query)).value))
        assert some <= found
        assert not never & found
        assert not list(with_samples((await client.get(path)).value))
        assert not list(with_samples((await client.get(f"{path}?{kind}_age=60")).value))
        for age, every in ((3000, 1), (60, 0), (0, 5), (-60, 5), (60, -5)):
            wrong = await client.get(f"{path}?{kind}_age={age}&{kind}_incr={every}")
            told = f"Invalid range parameters: age {age}, incr {every}"
            assert (wrong.status, wrong.facts["reason"]) == (400, told)


async def test_a_channel_and_a_queue_are_idle_when_nothing_happens() -> None:
    async with http_broker() as client, publisher(client) as peer:
        channel = "/channels?columns=idle_since"
        queue = "/queues/%2F/q?columns=idle_since"
        for _ in range(2):
            client.broker.sample()
            assert (await client.get(channel)).rows == [{}]
            assert (await client.get(queue)).facts == {}
            client.broker.sample()
            idle = (await client.get(channel)).rows[0]["idle_since"]
            assert idle == (await client.get(queue)).facts["idle_since"]
            assert str(idle).endswith("+00:00")
            await publish(peer)


async def test_a_stream_tells_its_segments_and_when_it_begins() -> None:
    async with http_broker() as client:
        path = "/queues/%2F/s"
        await client.put(path, {"durable": True, "arguments": {"x-queue-type": "stream"}})
        empty = (await client.get(path)).facts
        assert (empty["segments"], empty["first_timestamp"]) == (0, 0)
        before = client.node.deadlines.wall_ms
        body = {"properties": {}, "routing_key": "s", "payload": "", "payload_encoding": "string"}
        await client.post("/exchanges/%2F/amq.default/publish", body)
        facts = (await client.get(path)).facts
        first = facts["first_timestamp"]
        assert isinstance(first, int)
        assert facts["segments"] == 1
        assert before <= first <= client.node.deadlines.wall_ms
