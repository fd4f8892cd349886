"""Messages that expire wherever they stand: x-ttl-anywhere, which RabbitMQ does not have."""

from __future__ import annotations

import pytest

from broker.core.queue.anywhere import SWEEP_MIN, AnywhereReady
from tests.helpers.core import CoreClient, CoreWorld, ready_bodies

TO_GRAVE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
ANYWHERE = {"x-ttl-anywhere": True}
TYPES = [
    pytest.param({}, id="classic"),
    pytest.param({"x-max-priority": 5}, id="priorities"),
    pytest.param({"x-queue-type": "quorum"}, id="quorum"),
]


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


def test_by_default_only_the_head_expires(client: CoreClient) -> None:
    """Rule TTL-02: without the argument nothing is different."""
    queue = client.declare_with("q", {"x-ttl-anywhere": False})
    client.publish("q", b"long")
    client.publish("q", b"short", expiration="10")
    client.world.move(100)
    assert ready_bodies(queue) == [b"long", b"short"]


@pytest.mark.parametrize("arguments", TYPES)
def test_each_message_expires_at_its_time(client: CoreClient, arguments: dict[str, object]) -> None:
    """In the middle, at the tail, and at the head: to the millisecond, and dead-lettered."""
    grave = client.declare("grave")
    queue = client.declare_with("q", arguments | ANYWHERE | TO_GRAVE, durable=True)
    for body, expiration in ((b"never", None), (b"30", "30"), (b"10", "10"), (b"20", "20")):
        client.publish("q", body, expiration=expiration, headers={"a": 1})

    client.world.move(9)
    assert queue.ready_count == 4
    client.world.move(1)
    assert ready_bodies(queue) == [b"never", b"30", b"20"]
    assert queue.ready_bytes == 9
    client.world.move(20)
    assert ready_bodies(queue) == [b"never"]
    assert ready_bodies(grave) == [b"10", b"20", b"30"]
    assert client.node.next_deadline() is None


@pytest.mark.parametrize("arguments", TYPES)
def test_what_has_expired_is_skipped(client: CoreClient, arguments: dict[str, object]) -> None:
    queue = client.declare_with("q", arguments | ANYWHERE, durable=True)
    for number in range(6):
        client.publish("q", b"%d" % number, expiration="10" if number % 2 else None)

    client.world.move(10)
    assert queue.ready_count == 3
    client.consume(queue, no_ack=True)
    assert client.bodies() == [b"0", b"2", b"4"]
    assert queue.ready_count == 0


@pytest.mark.parametrize("arguments", TYPES)
def test_unacked_messages_expire_when_they_return(
    client: CoreClient, arguments: dict[str, object]
) -> None:
    """Rule TTL-07 holds all the same; in time they return to wait for the rest of it."""
    queue = client.declare_with("q", arguments | ANYWHERE, durable=True)
    for body in (b"late", b"early"):
        client.publish("q", body, expiration="50")
        client.get(queue)

    client.world.move(40)
    client.requeue(2)
    client.publish("q", b"never")
    client.world.move(10)
    assert ready_bodies(queue) == [b"never"]
    client.requeue(1)
    assert ready_bodies(queue) == [b"never"]
    assert queue.unacked_count == 0


def test_a_policy_switches_it_on_and_off(client: CoreClient) -> None:
    """Rules PO-06, PO-11: for the messages that are there already too."""
    queue = client.declare("q")
    for body, expiration in ((b"never", None), (b"10", "10"), (b"20", "20")):
        client.publish("q", body, expiration=expiration)

    client.world.move(10)
    assert queue.ready_count == 3
    client.world.set_policy({"ttl-anywhere": True})
    assert ready_bodies(queue) == [b"never", b"20"]
    client.vhost.clear_policy("p")
    client.world.move(100)
    assert ready_bodies(queue) == [b"never", b"20"]


def test_the_argument_counts_before_a_policy(client: CoreClient) -> None:
    """Rule PO-05."""
    queue = client.declare_with("q", {"x-ttl-anywhere": False})
    client.world.set_policy({"ttl-anywhere": True})
    client.publish("q", b"never")
    client.publish("q", b"10", expiration="10")
    client.world.move(10)
    assert queue.ready_count == 2


def test_the_limit_counts_only_what_is_there(client: CoreClient) -> None:
    """Rule Q-80."""
    queue = client.declare_with("q", ANYWHERE | {"x-max-length": 3})
    client.publish("q", b"never")
    client.publish("q", b"10", expiration="10")
    client.publish("q", b"also never")
    client.world.move(10)
    client.publish("q", b"3")
    assert ready_bodies(queue) == [b"never", b"also never", b"3"]
    client.publish("q", b"4")
    assert ready_bodies(queue) == [b"also never", b"3", b"4"]


def test_purging_forgets_the_deadlines(client: CoreClient) -> None:
    queue = client.declare_with("q", ANYWHERE)
    client.publish("q", b"never")
    for _ in range(3):
        client.publish("q", b"10", expiration="10")

    client.world.move(10)
    assert queue.purge() == 1
    client.publish("q", b"fresh", expiration="10")
    client.world.move(9)
    assert ready_bodies(queue) == [b"fresh"]
    client.world.move(1)
    assert queue.ready_count == 0


def test_what_has_expired_leaves_no_memory_behind(client: CoreClient) -> None:
    """A head that stays for ever must not keep the places of all that expired behind it."""
    queue = client.declare_with("q", ANYWHERE)
    client.publish("q", b"never")
    for _ in range(40):
        for _ in range(50):
            client.publish("q", b"x" * 100, expiration="10")

        client.world.move(10)

    ready = queue.ready
    assert isinstance(ready, AnywhereReady)
    assert len(ready.inner.messages()) <= 2 * SWEEP_MIN
    assert ready_bodies(queue) == [b"never"]


def test_what_is_served_leaves_no_deadline_behind(client: CoreClient) -> None:
    """Messages that live long and leave soon must not leave their deadlines for all that time."""
    queue = client.declare_with("q", ANYWHERE)
    for _ in range(1_000):
        client.publish("q", b"x", expiration="86400000")
        client.get(queue, no_ack=True)

    ready = queue.ready
    assert isinstance(ready, AnywhereReady)
    assert ready.deadline_count <= 2 * SWEEP_MIN
