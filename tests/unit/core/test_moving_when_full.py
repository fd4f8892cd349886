"""What is copied forward on a full disk leaves space for what empties it."""

from __future__ import annotations

from random import Random

from broker.store.reserve import PIECE_BYTES, Reserve
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import method, publish
from tests.helpers.stored import SEGMENT_BYTES, StoredWorld

DIRECTORY = "/data/vhosts/1"
PERSISTENT = b"\x10\x00\x02"
BODY_BYTES = 4_000
PER_SEGMENT = SEGMENT_BYTES // BODY_BYTES
COUNT = 100 * PER_SEGMENT


def sparse_world(disk: FakeDisk, reserve: Reserve) -> StoredWorld:
    """A world with a hundred segments, in each of which somebody has a few messages."""
    world = StoredWorld(disk, DIRECTORY, reserve=reserve)
    session = world.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    for _ in range(COUNT):
        session.feed(publish(1, "q", bytes(BODY_BYTES), PERSISTENT))

    session.feed(b"".join(method(1, "basic.get", queue="q") for _ in range(COUNT)))
    world.checkpoint()
    acks = [
        method(1, "basic.ack", delivery_tag=tag)
        for tag in range(1, COUNT + 1)
        if tag % PER_SEGMENT > 2
    ]
    session.feed(b"".join(acks))
    return world


def test_messages_are_moved_segment_by_segment_where_space_is_short() -> None:
    disk = FakeDisk(Random(1))
    disk.make_directory("/data")
    reserve = Reserve(disk, "/data/reserve", 8 * PIECE_BYTES)
    reserve.find()
    world = sparse_world(disk, reserve)
    reserve.give_up(4 * PIECE_BYTES)
    disk.capacity_bytes = disk.used_bytes
    for _ in range(300):
        world.wait(0.1)

    assert "store.full" not in [event for event, _ in world.logged]
    assert len(world.log.segments) < 50
    assert world.vhost.queues["q"].ready_count == 0
