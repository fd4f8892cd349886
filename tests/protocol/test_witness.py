"""What a witness of a virtual host is told: every message, and the end that it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.message import content_body
from broker.core.watcher import Witness
from tests.helpers.session import World, publish

if TYPE_CHECKING:
    from broker.core.consumer import Consumer, Deliveries
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from tests.helpers.session import Session


def text(message: Message) -> str:
    return content_body(message.content).decode()


class Notes(Witness):
    """Writes down what it is told, a line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def published(
        self, message: Message, queues: list[Queue], deliveries: Deliveries, is_returned: bool
    ) -> None:
        names = ",".join(queue.name for queue in queues) or ("returned" if is_returned else "lost")
        self.lines.append(f"published {text(message)} on {int(deliveries.channel_id)} to {names}")

    def delivered(self, message: Message, consumer: Consumer, no_ack: bool) -> None:
        again = " again" if message.redelivered else ""
        how = " for good" if no_ack else f" as {int(message.delivery_tag)}"
        self.lines.append(f"delivered {text(message)} to {consumer.tag or 'get'}{how}{again}")

    def settling(self, messages: list[Message], how: str) -> None:
        self.lines.append(f"{how} {','.join(text(one) for one in messages)}")

    def died(self, queue: Queue, message: Message, reason: str) -> None:
        self.lines.append(f"{reason} {text(message)} in {queue.name}")

    def buried(self, queue: Queue, message: Message, letter: Message, targets: list[Queue]) -> None:
        names = ",".join(target.name for target in targets) or "lost"
        self.lines.append(f"buried {text(letter)} of {queue.name} to {names}")

    def dropped(self, queue: Queue, count: int, why: str) -> None:
        self.lines.append(f"{why} {queue.name} with {count}")


class Scene:
    """Queue ``q``, whose dead letters go to ``dead``; a client on channel 1."""

    def __init__(self) -> None:
        self.world = World()
        self.notes = Notes()
        self.world.vhost.watch(self.notes)
        self.client: Session = self.world.open(1)
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.client.ask(1, "queue.declare", queue="q", arguments=letters)
        self.client.ask(1, "queue.declare", queue="dead")

    def publish(self, *texts: str, key: str = "q") -> None:
        self.client.feed(b"".join(publish(1, key, one.encode()) for one in texts))

    def lines(self) -> list[str]:
        lines, self.notes.lines = self.notes.lines, []
        return lines


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_publishes_are_told_with_where_they_go(scene: Scene) -> None:
    scene.publish("a", "b")
    scene.publish("c", key="nowhere")

    assert scene.lines() == [
        "published a on 1 to q",
        "published b on 1 to q",
        "published c on 1 to lost",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param("basic.ack", {}, ["ack a"], id="ack"),
        pytest.param(
            "basic.nack",
            {"requeue": True},
            ["nack-requeue a", "delivered a to c as 2 again"],
            id="nack-requeue",
        ),
        pytest.param(
            "basic.nack", {}, ["nack a", "rejected a in q", "buried a of q to dead"], id="nack"
        ),
        pytest.param(
            "basic.reject",
            {},
            ["reject a", "rejected a in q", "buried a of q to dead"],
            id="reject",
        ),
        pytest.param(
            "basic.reject",
            {"requeue": True},
            ["reject-requeue a", "delivered a to c as 2 again"],
            id="reject-requeue",
        ),
    ],
)
def test_settlements_are_told_before_what_comes_of_them(
    scene: Scene, name: str, arguments: dict[str, bool], expected: list[str]
) -> None:
    scene.client.ask(1, "basic.consume", queue="q", consumer_tag="c")
    scene.publish("a")
    assert scene.lines() == ["published a on 1 to q", "delivered a to c as 1"]

    scene.client.send(1, name, delivery_tag=1, **arguments)

    assert scene.lines() == expected


def test_a_multiple_ack_names_all_it_takes_and_a_wrong_one_nothing(scene: Scene) -> None:
    scene.client.ask(1, "basic.consume", queue="q", consumer_tag="c")
    scene.publish("a", "b", "c")
    scene.lines()

    scene.client.send(1, "basic.ack", delivery_tag=2, multiple=True)
    assert scene.lines() == ["ack a,b"]

    scene.client.send(1, "basic.ack", delivery_tag=9)
    assert scene.lines() == ["closed c"]


def test_a_transaction_settles_when_it_is_committed(scene: Scene) -> None:
    scene.client.ask(1, "tx.select")
    scene.publish("a")
    scene.client.ask(1, "tx.commit")
    scene.client.ask(1, "basic.get", queue="q")
    scene.lines()

    scene.client.send(1, "basic.ack", delivery_tag=1)
    assert scene.lines() == []
    scene.client.ask(1, "tx.commit")
    assert scene.lines() == ["ack a"]


def test_recovery_the_end_of_a_channel_and_a_queue_are_told(scene: Scene) -> None:
    scene.publish("a", "b")
    scene.client.ask(1, "basic.get", queue="q")
    scene.client.ask(1, "basic.recover", requeue=True)
    scene.client.ask(1, "basic.get", queue="q", no_ack=True)
    scene.client.ask(1, "basic.get", queue="q")
    scene.client.ask(1, "channel.close")
    assert scene.lines()[2:] == [
        "delivered a to get as 1",
        "recover a",
        "delivered a to get for good again",
        "delivered b to get as 3",
        "closed b",
    ]

    scene.client.ask(1, "channel.open")
    scene.client.ask(1, "queue.purge", queue="q")
    scene.client.ask(1, "queue.delete", queue="q")
    assert scene.lines() == ["purged q with 1", "deleted q with 0"]


def test_expiry_and_length_limits_are_told_with_or_without_somewhere_to_go(scene: Scene) -> None:
    arguments = {"x-message-ttl": 50, "x-max-length": 1}
    scene.client.ask(1, "queue.declare", queue="short", arguments=arguments)
    scene.publish("a", "b", key="short")
    scene.world.wait(0.06)

    assert [line for line in scene.lines() if not line.startswith("published")] == [
        "maxlen a in short",
        "expired b in short",
    ]


def test_the_firehose_and_a_witness_see_the_same(scene: Scene) -> None:
    scene.client.ask(1, "queue.declare", queue="traces")
    scene.client.ask(
        1, "queue.bind", queue="traces", exchange="amq.rabbitmq.trace", routing_key="#"
    )
    scene.world.node.set_tracing(scene.world.vhost, True)
    scene.publish("a")

    assert scene.lines() == ["published a on 1 to q"]
    scene.world.wait(0)
    assert scene.client.ask(1, "basic.get", queue="traces").name == "basic.get-ok"

    scene.world.node.set_tracing(scene.world.vhost, False)
    scene.world.vhost.watch(None)
    scene.publish("b")
    assert scene.lines() == ["delivered a to get as 1"]
