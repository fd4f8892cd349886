"""What the HTTP API tells."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.client import (
    AccessRefused,
    InvalidValue,
    Options,
    QueueNotFound,
    ServerStats,
    Unavailable,
    connect,
)
from broker.embedded import Broker
from broker.tasks import Tasks
from tests.helpers.http_api import http_broker
from tests.helpers.toolkit import needs_leveret

pytestmark = needs_leveret


async def test_it_tells_of_queues_and_of_what_happened_in_them() -> None:
    config: dict[str, object] = {"management": {"enabled": True}}
    async with Broker(config, log_level="error") as broker:
        options = Options(management_url=broker.management_url)
        async with connect(broker.url, options=options) as client:
            await client.declare("orders/north")
            for number in range(3):
                await client.send("orders/north", number)

            first, _ = await client.get("orders/north"), await client.get("orders/north")
            assert first is not None
            await first.ack()
            stats = await client.stats("orders/north")
            broker.sample()
            server = await client.server_stats()
            names = await client.queues()
            with pytest.raises(QueueNotFound):
                await client.stats("missing")

    assert names == ["orders/north", "orders/north.dead"]
    assert (stats.ready, stats.in_flight, stats.acked) == (1, 1, 1)
    assert (stats.published, stats.delivered, stats.redelivered) == (3, 2, 0)
    assert isinstance(server, ServerStats)
    assert (server.product, server.queues, server.connections) == ("Leveret", 2, 1)


async def test_who_may_not_ask_is_told() -> None:
    config: dict[str, object] = {"management": {"enabled": True}}
    async with Broker(config, log_level="error") as broker:
        url = broker.management_url.replace("http://", "http://guest:wrong@")
        async with connect(broker.url, options=Options(management_url=url)) as other:
            with pytest.raises(AccessRefused):
                await other.queues()


@pytest.mark.parametrize(
    ("place", "error"),
    [
        pytest.param(None, InvalidValue, id="not-told"),
        pytest.param("http://127.0.0.1:1", Unavailable, id="nobody-there"),
    ],
)
async def test_where_it_is_not_that_is_told(place: str | None, error: type[Exception]) -> None:
    async with Broker(log_level="error") as broker:
        options = Options(management_url=place, timeout=2)
        async with connect(broker.url, options=options) as other:
            with pytest.raises(error):
                await other.queues()


@pytest.mark.parametrize(
    "place",
    ["file:///etc", "", "localhost:15672", "http://", "http://h:port", "http://[", 5],
    ids=str,
)
def test_a_place_that_is_none(place: Any) -> None:
    with pytest.raises(InvalidValue, match="management_url is"):
        Options(management_url=place)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"AMQP\0\0\x09\1",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 200 OK\r\n\r\n\xff",
        b"HTTP/1.0 200 OK\r\n\r\n5",
        b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n[",
    ],
    ids=["hangs-up", "other-protocol", "page", "octets", "number", "cut"],
)
async def test_who_answers_otherwise_is_no_http_api(answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    options = Options(management_url=f"http://127.0.0.1:{port}", timeout=2)
    async with (
        server,
        Broker(log_level="error") as broker,
        connect(broker.url, options=options) as client,
    ):
        for ask in (client.queues, client.server_stats):
            with pytest.raises(Unavailable, match="no HTTP API"):
                await ask()


async def test_connections_have_the_names_that_they_were_given() -> None:
    """Else nobody knows in the broker's lists whose one is."""
    async with http_broker() as http:
        url = http.broker.url
        async with connect(url, name="shop"), connect(url), Tasks(url):
            answer = await http.get("/connections")

    names = [row["user_provided_name"] for row in answer.rows]
    assert sorted(map(str, names)) == ["leveret client", "shop", "tasks tasks"]
