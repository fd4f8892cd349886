"""What a checkpoint tells of a queue is what the queue is."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.core.message import content_body
from broker.limits import HOT_MESSAGES_MAX
from broker.wire.tables import Field, encode_table
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import Session, method, publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from collections.abc import Iterable

DIRECTORY = "/data/vhosts/1"
PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk(Random(0))


def opened(world: StoredWorld) -> Session:
    session = world.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    return session


def put(session: Session, bodies: Iterable[int], properties: bytes = PERSISTENT) -> None:
    session.feed(b"".join(publish(1, "q", b"%d" % one, properties) for one in bodies))


def reopened(world: StoredWorld, disk: FakeDisk) -> StoredWorld:
    world.write()
    world.abandon()
    return StoredWorld(disk.killed(), DIRECTORY)


def bodies(world: StoredWorld) -> list[int]:
    messages = world.vhost.queues["q"].ready.messages()
    return [int(content_body(message.content)) for message in messages]


def test_the_newest_messages_stand_behind_those_on_disk(disk: FakeDisk) -> None:
    """What was just handed to the log is in memory still, behind what is not any more."""
    world = StoredWorld(disk, DIRECTORY)
    session = opened(world)
    count = HOT_MESSAGES_MAX + 10
    put(session, range(count))
    world.is_prompt = False
    world.journal.books.is_checkpoint_due = True
    put(session, range(count, count + 3))

    assert bodies(reopened(world, disk)) == list(range(count + 3))


def test_bytes_of_transient_messages_are_not_counted(disk: FakeDisk) -> None:
    world = StoredWorld(disk, DIRECTORY)
    session = opened(world)
    put(session, [1000])
    put(session, [10, 11, 12], TRANSIENT)
    world.checkpoint()

    assert world.vhost.queues["q"].ready_bytes == 10
    assert reopened(world, disk).vhost.queues["q"].ready_bytes == 4


def test_bytes_of_transient_messages_on_disk_are_not_counted(disk: FakeDisk) -> None:
    world = StoredWorld(disk, DIRECTORY)
    session = opened(world)
    put(session, [100] * HOT_MESSAGES_MAX)
    put(session, [1000, 1001])
    put(session, [10, 11, 12], TRANSIENT)
    put(session, [1002])
    world.checkpoint()

    assert reopened(world, disk).vhost.queues["q"].ready_bytes == 3 * HOT_MESSAGES_MAX + 3 * 4


def test_a_purge_leaves_the_bytes_of_what_somebody_has(disk: FakeDisk) -> None:
    world = StoredWorld(disk, DIRECTORY)
    session = opened(world)
    put(session, [1000, 10, 11])
    session.feed(method(1, "basic.get", queue="q"))
    world.is_prompt = False
    session.feed(method(1, "queue.purge", queue="q"))

    again = reopened(world, disk).vhost.queues["q"]
    assert (again.ready_count, again.ready_bytes) == (1, 4)


def test_what_left_in_the_batch_of_a_purge_is_counted_once(disk: FakeDisk) -> None:
    world = StoredWorld(disk, DIRECTORY)
    session = opened(world)
    put(session, [1000, 10, 11])
    session.feed(
        method(1, "basic.get", queue="q", no_ack=True) + method(1, "queue.purge", queue="q")
    )
    put(session, [12])

    again = reopened(world, disk).vhost.queues["q"]
    assert (again.ready_count, again.ready_bytes) == (1, 2)


def test_what_was_never_delivered_is_not_redelivered_after_a_clean_stop(disk: FakeDisk) -> None:
    """Rule DU-02, where others of the queue were given back."""
    world = StoredWorld(disk, DIRECTORY)
    session = world.open(1)
    quorum = {"x-queue-type": "quorum"}
    session.feed(method(1, "queue.declare", queue="q", durable=True, arguments=quorum))
    put(session, [1, 2, 3, 4])
    for _ in range(3):
        session.feed(method(1, "basic.get", queue="q"))

    session.feed(method(1, "basic.nack", delivery_tag=3, multiple=True, requeue=True))
    world.stop()

    messages = StoredWorld(disk.killed(), DIRECTORY).vhost.queues["q"].ready.messages()
    assert [one.redelivered for one in messages] == [True, True, True, False]


def test_delayed_messages_keep_their_order(disk: FakeDisk) -> None:
    """Rule DU-03, for those that are due in the same millisecond."""
    world = StoredWorld(disk, DIRECTORY)
    session = opened(world)
    session.feed(
        method(
            1,
            "exchange.declare",
            exchange="late",
            type="x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "fanout"},
        )
        + method(1, "queue.bind", queue="q", exchange="late")
    )
    for body in range(10):
        delay = encode_table({"x-delay": Field("I", 2_000 if body else 1_000)})
        session.feed(publish(1, "", b"%d" % body, b"\x30\x00" + delay + b"\x02", exchange="late"))

    world.wait(1.5)
    world.checkpoint()
    again = reopened(world, disk)
    again.wait(3)

    assert bodies(again) == list(range(10))


def test_messages_of_all_levels_expire_anywhere_after_a_restart(disk: FakeDisk) -> None:
    """Each level counts its messages from one, then."""
    world = StoredWorld(disk, DIRECTORY)
    session = world.open(1)
    arguments = {"x-max-priority": 2, "x-ttl-anywhere": True}
    session.feed(method(1, "queue.declare", queue="q", durable=True, arguments=arguments))
    for body in range(6):
        expiration = b"%d" % (3_000 if body % 2 else 9_000)
        properties = b"\x19\x00\x02" + bytes((body % 3, len(expiration))) + expiration
        session.feed(publish(1, "q", b"%d" % body, properties))

    world.checkpoint()
    again = reopened(world, disk)
    again.wait(4)

    assert sorted(bodies(again)) == [0, 2, 4]
    assert again.vhost.queues["q"].ready_bytes == 3
