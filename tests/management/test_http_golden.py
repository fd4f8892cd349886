"""Answers have the keys and types of RabbitMQ's, as recorded from 3.10 and 4.3.

Recorded with the same things set up as here: a classic, a quorum and an exclusive queue and a
stream, some messages, a consumer with a prefetch limit, policies and bindings. What was recorded
lies in tests/management/golden.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import aio_pika
import pytest

from tests.helpers.http_api import http_broker
from tests.management.skeleton import differences, shape_of

if TYPE_CHECKING:
    from tests.helpers.http_api import HTTPClient
    from tests.management.skeleton import Shape

GOLDEN: Final = Path(__file__).with_name("golden")

ABSENT: Final = {
    "backing_queue_status": "of RabbitMQ's classic queues of the first version",
    "cowboy_opts": "of RabbitMQ's HTTP server",
    "idle_since": "only told of queues without consumers",
    "messages_active_priorities": "of RabbitMQ's quorum queues",
    "messages_by_priority": "of RabbitMQ's quorum queues",
    "messages_ready_returned": "of RabbitMQ's quorum queues",
    "online": "null where it is absent here",
    "publishers": "of RabbitMQ's quorum queues",
    "recoverable_slaves": "of mirrored queues",
    "release_series_support_status": "of RabbitMQ's releases",
    "single_active_consumer_ctag": "an older name of single_active_consumer_tag",
    "protocol": "of health checks before 4.0: protocols has it",
    "vhost": "of definitions of one virtual host before 4.0",
}
HISTORIES: Final = ("avg", "avg_rate", "samples")
"""Kept of virtual hosts and the node only."""

OTHERWISE: Final = {
    ".consumer_capacity: number where integer was",
    ".consumer_utilisation: number where integer was",
}
"""Types that RabbitMQ itself has either way."""


async def keep(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    """Leave it unacked."""


async def set_up(client: HTTPClient) -> aio_pika.abc.AbstractConnection:
    connection = await aio_pika.connect(f"{client.broker.url}?name=golden")
    channel = await connection.channel()
    await channel.set_qos(5)
    queue = await channel.declare_queue("m1.golden", durable=True, arguments={"x-max-length": 100})
    for kind in ("quorum", "stream"):
        await channel.declare_queue(f"m1.{kind}", durable=True, arguments={"x-queue-type": kind})

    await channel.declare_queue("m1.excl", exclusive=True)
    exchange = await channel.declare_exchange("m1.x", "topic", durable=True)
    await queue.bind(exchange, "a.#", arguments={"k": 1})
    await queue.bind(exchange, "b")
    other = await channel.declare_exchange("m1.y", "fanout")
    await other.bind(exchange, "c")
    policy = {"pattern": "^m1.golden", "definition": {"max-length": 50}, "apply-to": "queues"}
    await client.put("/policies/%2F/m1.p", policy)
    operator = {"pattern": "^m1.golden", "definition": {"max-length": 40}}
    await client.put("/operator-policies/%2F/m1.op", operator)
    for number in range(8):
        message = aio_pika.Message(b"hello", delivery_mode=2, headers={"i": number})
        await exchange.publish(message, "b")
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), "m1.quorum")
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), "m1.stream")

    await queue.consume(keep)
    return connection


def wanted(version: str) -> dict[str, Shape]:
    shapes: dict[str, Shape] = json.loads((GOLDEN / f"rabbitmq-{version}.json").read_text())
    return shapes


def is_excused(difference: str) -> bool:
    place, _, what = difference.partition(": ")
    key = place.rpartition(".")[2]
    if what == "missing":
        return key in ABSENT or key in HISTORIES

    return f".{key}: {what}" in OTHERWISE or what == "null where text was"


async def answer_of(client: HTTPClient, path: str, names: dict[str, str]) -> object:
    if path == "get":
        body = {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto"}
        return (await client.post("/queues/%2F/m1.golden/get", body)).value

    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)

    answer = await client.get(path)
    assert answer.status == 200, (path, answer)
    return answer.value


@pytest.mark.timeout(60)
@pytest.mark.parametrize("version", ["3.10", "4.3"])
async def test_answers_have_the_keys_and_types_of_rabbitmq(version: str) -> None:
    found: list[str] = []
    async with http_broker() as client:
        connection = await set_up(client)
        client.broker.sample()
        name = str((await client.get("/connections")).rows[0]["name"])
        names = {"connection": quote(name, safe=""), "node": client.node.settings.node_name}
        for path, shape in wanted(version).items():
            if path.startswith(("/health/checks/port-listener", "/stream", "/shovels")):
                continue

            shown = shape_of(await answer_of(client, path, names))
            found += [one for one in differences(shape, shown, path) if not is_excused(one)]

        await connection.close()

    assert not found


def test_a_difference_is_seen() -> None:
    one = shape_of({"a": 1, "b": [{"c": "x", "d": 1.5}], "e": None})
    other = shape_of({"a": "1", "b": [{"c": "y"}], "f": 1})
    assert differences(one, other, "x") == [
        "x.e: missing",
        "x.a: text where integer was",
        "x.b[].d: missing",
    ]
