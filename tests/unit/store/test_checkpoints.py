"""Checkpoints of a log: when they count, and what they replace."""

from __future__ import annotations

from random import Random

from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import method, publish
from tests.helpers.stored import StoredWorld

DIRECTORY = "/data/vhosts/1"
PERSISTENT = b"\x10\x00\x02"


def ready_count(world: StoredWorld) -> int:
    return int(world.vhost.queues["q"].ready_count)


def test_one_that_follows_another_at_once_takes_its_place() -> None:
    """Both have the same name: the older one must not be removed by it."""
    disk = FakeDisk(Random(0))
    world = StoredWorld(disk, DIRECTORY)
    session = world.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    session.feed(publish(1, "q", b"hare", PERSISTENT))

    world.checkpoint()
    world.checkpoint()

    assert [name for name in disk.contents() if name.endswith(".checkpoint")]
    world.abandon()
    assert ready_count(StoredWorld(disk.killed(), DIRECTORY)) == 1
