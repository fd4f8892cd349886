"""Prometheus, StatsD and datagrams against a real broker with real sockets."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import aio_pika
import aiohttp
import asyncio_dgram
import pytest

from broker.embedded import Broker
from broker.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path

METRICS: dict[str, object] = {"metrics": {"prometheus": {"enabled": True}}}


async def get(url: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, answer.headers["content-type"], await answer.text()


async def test_prometheus_may_ask_where_that_is_enabled() -> None:
    async with Broker(METRICS) as broker:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q")
            await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)
            status, kind, text = await get(f"{broker.metrics_url}/metrics")

        assert status == 200
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        assert 'rabbitmq_global_messages_received_total{protocol="amqp091"} 1\n' in text
        assert "rabbitmq_connections 1\n" in text
        _, _, text = await get(f"{broker.metrics_url}/metrics/per-object")
        assert 'rabbitmq_queue_messages{vhost="/",queue="q"} 1\n' in text
        url = f"{broker.metrics_url}/metrics/detailed?family=queue_coarse_metrics&vhost=/"
        _, _, text = await get(url)
        assert 'rabbitmq_detailed_queue_messages_ready{vhost="/",queue="q"} 1\n' in text
        _, _, text = await get(f"{url}&queue=other")
        assert 'queue="q"' not in text


async def test_what_prometheus_cannot_have_it_is_told() -> None:
    async with Broker(METRICS) as broker:
        status, _, text = await get(f"{broker.metrics_url}/metrics/detailed?family=nonsense")
        assert status == 400
        assert text.startswith("no family 'nonsense': one of auth_attempt_metrics, ")
        status, _, _ = await get(f"{broker.metrics_url}/else")
        assert status == 404
        status, _, text = await get(f"{broker.metrics_url}/")
        assert status == 200
        assert "/metrics/per-object" in text


async def test_the_syncs_of_the_log_are_told(tmp_path: Path) -> None:
    config = {**METRICS, "storage": {"data_dir": str(tmp_path)}}
    async with Broker(config) as broker:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            await channel.declare_queue("q", durable=True)
            message = aio_pika.Message(b"x", delivery_mode=2)
            await channel.default_exchange.publish(message, "q")

        _, _, text = await get(f"{broker.metrics_url}/metrics")
        told = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        assert float(told["rabbitmq_io_sync_ops_total"]) > 0
        assert float(told["rabbitmq_io_write_bytes_total"]) > 0
        assert float(told["rabbitmq_msg_store_write_total"]) == 1
        assert float(told["rabbitmq_disk_space_available_bytes"]) > 0
        syncs = told["rabbitmq_io_sync_ops_total"]
        assert float(told['leveret_log_sync_seconds_bucket{le="+Inf"}']) == float(syncs)


async def test_statsd_is_sent_everything() -> None:
    receiver = await asyncio_dgram.bind(("127.0.0.1", 0))
    port = receiver.sockname[1]
    statsd = {"enabled": True, "host": "127.0.0.1", "port": port, "interval": "100ms"}
    async with Broker({"metrics": {"statsd": statsd}}), asyncio.timeout(10):
        text = ""
        while "leveret.alarms_memory_used_watermark:0|g" not in text:
            data, _ = await receiver.recv()
            text += data.decode() + "\n"

    receiver.close()
    assert "leveret.connections:0|g\n" in text


async def test_a_statsd_that_is_not_there_does_no_harm() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    statsd = {"enabled": True, "host": "127.0.0.1", "port": port, "interval": "100ms"}
    async with Broker({"metrics": {"statsd": statsd}}) as broker:
        app = broker._running
        assert app.telemetry is not None
        assert app.telemetry._statsd is not None
        for _ in range(3):
            await app.telemetry._statsd.send()


async def test_datagrams_become_messages() -> None:
    listener = {
        "bind": "127.0.0.1",
        "port": 0,
        "format": "syslog",
        "routing_key": "syslog.{facility}.{severity}",
    }
    async with (
        Broker({**METRICS, "listeners": {"datagram": [listener]}}) as broker,
        await aio_pika.connect(broker.url) as connection,
        asyncio.timeout(10),
    ):
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("amq.topic", "syslog.auth.*")
        [port] = broker.datagram_ports
        sender = await asyncio_dgram.connect(("127.0.0.1", port))
        await sender.send(b"nonsense")
        await sender.send(b"<34>Oct 11 22:14:15 web su: failed")
        async with queue.iterator() as messages:
            message = await anext(messages)
            await message.ack()

        sender.close()
        assert message.routing_key == "syslog.auth.crit"
        assert message.body == b"<34>Oct 11 22:14:15 web su: failed"
        assert message.headers["hostname"] == "web"
        # The loopback keeps the order: the first one has been dropped by now.
        _, _, text = await get(f"{broker.metrics_url}/metrics")
        key = f'leveret_datagrams_dropped_total{{listener="127.0.0.1:{port}"'
        assert f'{key},reason="malformed"}} 1\n' in text


async def test_a_port_that_was_named_and_is_taken_ends_the_start() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listeners = [{"bind": "127.0.0.1", "port": port}]
        prometheus = {"enabled": True, "listeners": listeners}
        with pytest.raises(StartError, match=str(port)):
            async with Broker({"metrics": {"prometheus": prometheus}}):
                pass

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        datagram = {"bind": "127.0.0.1", "port": udp.getsockname()[1]}
        with pytest.raises(StartError, match="cannot take datagrams"):
            async with Broker({"listeners": {"datagram": [datagram]}}):
                pass


async def test_rates_are_known_without_anybody_asking() -> None:
    async with Broker() as broker:
        app = broker._running
        app._sampling._on_timer()
        assert app.sampler.counters(None)["connection_created"] == 0
