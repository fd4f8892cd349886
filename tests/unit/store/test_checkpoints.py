"""Checkpoints of a log: when they count, and what they replace."""

from __future__ import annotations

import errno
from random import Random

import pytest

from broker.store.log import GROUP, INTERVAL, NONE
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import method, publish
from tests.helpers.stored import StoredWorld

DIRECTORY = "/data/vhosts/1"
PERSISTENT = b"\x10\x00\x02"


def ready_count(world: StoredWorld) -> int:
    return int(world.vhost.queues["q"].ready_count)


def with_messages(disk: FakeDisk, sync: str = GROUP) -> StoredWorld:
    world = StoredWorld(disk, DIRECTORY, sync=sync, segment_bytes=4_096)
    session = world.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    for _ in range(3):
        session.feed(publish(1, "q", b"hare" * 500, PERSISTENT))

    return world


def crashed(disk: FakeDisk, seed: int) -> FakeDisk:
    """What a power failure leaves."""
    disk.random.seed(seed)
    return disk.crashed()


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


def test_one_is_not_in_force_before_the_batch_that_it_tells_of() -> None:
    """Where there is space for it, but not for that."""
    disk = FakeDisk(Random(0))
    world = with_messages(disk)
    session = world.open(1)
    world.is_prompt = False
    disk.fail({"write"}, errno.ENOSPC)
    world.journal.books.is_checkpoint_due = True
    session.feed(publish(1, "q", b"hare", PERSISTENT))
    world.write()

    assert world.journal.is_stalled
    assert not [name for name in disk.contents() if name.endswith("checkpoint")]
    world.wait(2)
    world.checkpoint()
    assert ready_count(StoredWorld(disk.killed(), DIRECTORY)) == 4


@pytest.mark.parametrize("sync", [INTERVAL, NONE])
@pytest.mark.parametrize("seed", range(20))
def test_what_one_tells_of_is_synced_before(sync: str, seed: int) -> None:
    disk = FakeDisk(Random(0))
    with_messages(disk, sync).checkpoint()

    world = StoredWorld(crashed(disk, seed), DIRECTORY)

    assert len(world.vhost.queues["q"].ready.messages()) == 3


@pytest.mark.parametrize("sync", [GROUP, INTERVAL, NONE])
@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_after_a_kill_is_there_for_good(sync: str, seed: int) -> None:
    """It was in the system's memory alone, where the broker was killed before it could sync it."""
    disk = FakeDisk(Random(0))
    with_messages(disk, sync)
    disk = disk.killed()
    StoredWorld(disk, DIRECTORY)

    assert ready_count(StoredWorld(crashed(disk, seed), DIRECTORY)) == 3


@pytest.mark.parametrize("sync", [GROUP, INTERVAL, NONE])
@pytest.mark.parametrize("seed", range(20))
def test_a_clean_end_is_for_good(sync: str, seed: int) -> None:
    disk = FakeDisk(Random(0))
    with_messages(disk, sync).stop()

    world = StoredWorld(crashed(disk, seed), DIRECTORY)

    assert [one.redelivered for one in world.vhost.queues["q"].ready.messages()] == [False] * 3


@pytest.mark.parametrize("sync", [GROUP, INTERVAL, NONE])
@pytest.mark.parametrize("seed", range(20))
def test_a_start_after_a_clean_end_is_known(sync: str, seed: int) -> None:
    """Or what was delivered since would come again as if it never had been (rule DU-02)."""
    disk = FakeDisk(Random(0))
    with_messages(disk, sync).stop()
    StoredWorld(disk, DIRECTORY, sync=sync)

    world = StoredWorld(crashed(disk, seed), DIRECTORY)

    assert [one.redelivered for one in world.vhost.queues["q"].ready.messages()] == [True] * 3


@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_after_a_failed_sync_is_there_for_good(seed: int) -> None:
    """The system does not try to write it again: the broker has to."""
    disk = FakeDisk(Random(seed))
    world = with_messages(disk)
    disk.fail({"sync"})
    world.open(1).feed(publish(1, "q", b"hare", PERSISTENT))
    assert world.failures
    disk = disk.killed()
    found = ready_count(StoredWorld(disk, DIRECTORY))

    assert found == 4
    assert ready_count(StoredWorld(disk.crashed(), DIRECTORY)) == found


def test_nothing_is_written_after_a_sync_has_failed() -> None:
    """The next one would succeed, with the system having forgotten what it did not write."""
    disk = FakeDisk(Random(0))
    world = with_messages(disk, INTERVAL)
    world.is_prompt = False
    session = world.open(1)
    disk.fail({"sync"})
    world.log.sync_soon()
    session.feed(publish(1, "q", b"hare", PERSISTENT))
    before = disk.contents()
    world.write()

    assert world.failures
    assert disk.contents() == before


def test_a_file_that_cannot_be_removed_stops_nobody() -> None:
    disk = FakeDisk(Random(0))
    world = with_messages(disk)
    world.checkpoint()
    disk.fail({"unlink"}, errno.EPERM)
    world.open(1).feed(method(1, "queue.purge", queue="q"))
    world.checkpoint()

    assert not world.failures
    assert ready_count(StoredWorld(disk.killed(), DIRECTORY)) == 0
