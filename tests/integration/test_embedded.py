"""Brokers inside this process, used by real clients."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest

from broker.config.problems import ConfigProblems
from broker.embedded import Broker
from broker.errors import StartError, StoreError
from tests.helpers.raw_client import commands, raw_client
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from pathlib import Path

TOPOLOGY: dict[str, object] = {
    "version": 1,
    "users": [{"name": "app", "password": "p@ss/word", "tags": ["monitoring"]}],
    "vhosts": {
        "team a": {
            "permissions": {"app": {"configure": ".*", "write": ".*", "read": ".*"}},
            "exchanges": {"orders": {"type": "topic"}},
            "queues": {"orders.in": {"arguments": {"x-max-length": 2}}},
            "bindings": [
                {"source": "orders", "destination": "orders.in", "routing_key": "order.#"}
            ],
            "policies": {
                "ttl": {"pattern": "^tmp", "apply-to": "queues", "definition": {"expires": 5000}}
            },
        }
    },
}


async def exchange_one_message(url: str) -> bytes:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), queue.name)
        message = await queue.get(timeout=5)
        await message.ack()
        return message.body


async def test_a_program_embeds_a_broker() -> None:
    async with Broker() as broker:
        assert broker.host == "127.0.0.1"
        assert broker.port > 0
        assert broker.url == f"amqp://guest:guest@127.0.0.1:{broker.port}/"
        assert await exchange_one_message(broker.url) == b"hello"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_level": "critical"}, "log_level is one of debug, info, warning, error, not 'critic"),
        ({"log_level": "INFO"}, "log_level is one of debug, info, warning, error, not 'INFO'"),
        ({"log_level": None}, "log_level is one of debug, info, warning, error, not None"),
        ({"log_level": []}, r"log_level is one of debug, info, warning, error, not \[\]"),
        ({"host": ""}, "host is a name or an address, such as .127.0.0.1., not ''"),
        ({"host": None}, "host is .*, not None"),
        ({"host": b"127.0.0.1"}, "host is .*, not b'127.0.0.1'"),
        ({"port": "5672"}, "port is a number from 0 to 65535, not '5672'"),
        ({"port": None}, "port is .*, not None"),
        ({"port": True}, "port is .*, not True"),
        ({"port": -1}, "port is .*, not -1"),
        ({"port": 65_536}, "port is .*, not 65536"),
        ({"config": 5}, "config is a mapping, the path of a file or None, not 5"),
        ({"config": []}, "config is .*, not "),
    ],
    ids=str,
)
def test_an_argument_that_nothing_can_be_made_of_is_named(
    arguments: dict[str, Any], message: str
) -> None:
    for make in (Broker, Broker.in_thread):
        with pytest.raises(ValueError, match=message):
            make(**arguments)


async def test_there_are_two_alarms_to_raise_by_hand() -> None:
    async with Broker() as broker:
        for resource in ("memory", "disk"):
            broker.set_alarm(resource)

        with pytest.raises(ValueError, match="there is no alarm 'cpu'; there are memory and disk"):
            broker.set_alarm("cpu")


async def test_many_brokers_share_nothing() -> None:
    brokers = [Broker() for _ in range(5)]
    for broker in brokers:
        await broker.start()

    assert len({broker.port for broker in brokers}) == 5
    async with await aio_pika.connect(brokers[0].url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("only-here")
        assert [list(broker.node.vhosts["/"].queues) for broker in brokers] == [
            ["only-here"],
            *([[]] * 4),
        ]

    for broker in brokers:
        await broker.stop()


async def test_a_mapping_configures_it() -> None:
    async with Broker(TOPOLOGY) as broker:
        assert broker.url == f"amqp://app:p%40ss%2Fword@127.0.0.1:{broker.port}/team%20a"
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            orders = await channel.get_exchange("orders")
            for number in range(3):
                await orders.publish(aio_pika.Message(b"%d" % number), "order.new.now")

            queue = await channel.get_queue("orders.in")
            assert queue.declaration_result.message_count == 2
            message = await queue.get(no_ack=True)
            assert message.body == b"1", "the oldest went when the third came"


async def test_a_file_configures_it(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("version: 1\ncompatibility: {product: RabbitMQ}\n")
    async with Broker(path) as broker, await aio_pika.connect(broker.url) as connection:
        assert connection.transport is not None
        properties = connection.transport.connection.server_properties
        assert properties["product"] == "RabbitMQ"


def test_a_bad_configuration_is_told_at_once() -> None:
    with pytest.raises(ConfigProblems, match="heartbeet"):
        Broker({"version": 1, "heartbeet": 10})


async def test_what_only_the_core_refuses_is_told_with_its_key() -> None:
    config = {
        "version": 1,
        "vhosts": {
            "/": {
                "queues": {
                    "a": {"arguments": {"x-max-length": -1}},
                    "b": {"arguments": {"x-overflow": "nonsense"}},
                    "c": {},
                },
                "bindings": [{"source": "amq.topic", "destination": "a", "routing_key": "#"}],
            }
        },
    }
    with pytest.raises(ConfigProblems) as caught:
        await Broker(config).start()

    assert [problem.key for problem in caught.value.problems] == [
        "vhosts./.queues.a",
        "vhosts./.queues.b",
    ], "both, and not the binding that only lacks its queue"


async def test_a_taken_port_is_told_and_leaves_nothing() -> None:
    async with Broker() as first:
        second = Broker(port=first.port)
        with pytest.raises(StartError, match="the port is taken"):
            await second.start()

        with pytest.raises(RuntimeError, match="not running"):
            _ = second.port


async def test_starting_twice_is_a_mistake() -> None:
    async with Broker() as broker:
        with pytest.raises(RuntimeError, match="already"):
            await broker.start()

    await broker.stop()


async def test_stopping_closes_the_clients_with_320_and_waits_for_them() -> None:
    """Rule C-78."""
    broker = Broker()
    await broker.start()
    async with raw_client(broker.host, broker.port) as client:
        await client.open()
        stopping = asyncio.ensure_future(broker.stop())
        close = await client.read()
        assert (close.reply_code, close.class_id, close.method_id) == (320, 0, 0)
        assert close.reply_text == (
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )
        assert not stopping.done()
        client.send(0, commands.Connection.CloseOk())
        assert await client.read_to_end() == b""
        client.writer.close()
        await stopping


def test_a_synchronous_program_embeds_a_broker() -> None:
    before = threading.active_count()
    with Broker.in_thread() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"hello")
        assert channel.basic_get("q", auto_ack=True)[2] == b"hello"
        connection.close()

    assert threading.active_count() == before


def test_several_threads_run_several_brokers() -> None:
    with Broker.in_thread() as one, Broker.in_thread() as other:
        assert one.port != other.port
        for broker in (one, other):
            pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_a_client_that_cannot_answer_does_not_hold_up_the_end() -> None:
    started_s = time.monotonic()
    with Broker.in_thread() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    assert time.monotonic() - started_s < 5
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(time_limit=1)


def test_a_thread_that_cannot_start_says_so_and_ends() -> None:
    before = threading.active_count()
    with Broker.in_thread() as broker:
        other = Broker.in_thread(port=broker.port)
        with pytest.raises(StartError, match="the port is taken"):
            other.start()

        other.stop()

    assert threading.active_count() == before


async def test_a_broker_with_a_directory_keeps_what_lasts(tmp_path: Path) -> None:
    config: dict[str, object] = {"storage": {"data_dir": str(tmp_path / "data")}}
    async with Broker(config) as broker:
        broker.node.add_vhost("other")

    async with Broker(config) as broker:
        assert list(broker.node.vhosts) == ["/", "other"]
        with pytest.raises(StoreError, match="is in use by process"):
            await Broker(config).start()


async def test_without_a_directory_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERET_DATA_DIR", str(tmp_path / "data"))
    async with Broker(), Broker({"storage": {"sync": "none"}}):
        assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("storage", "limit", "alarms"),
    [
        pytest.param(True, "1000TB", ["disk"], id="short"),
        pytest.param(True, "1B", [], id="enough"),
        pytest.param(True, None, [], id="no limit"),
        pytest.param(False, "1000TB", [], id="memory only"),
    ],
)
async def test_the_disk_alarm_is_about_the_data_directory(
    storage: bool, limit: str | None, alarms: list[str], tmp_path: Path
) -> None:
    """Rule MA-01."""
    config = {
        "storage": {"data_dir": str(tmp_path / "data")} if storage else {"memory_only": True},
        "alarms": {"disk": {"free_limit": limit}},
    }
    async with Broker(config, log_level="error") as broker:
        assert list(broker.node.alarms) == alarms
