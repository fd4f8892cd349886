"""How many messages of a queue outlive the broker is counted when somebody asks, and quickly."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from broker.metrics.lasting import COUNTED_MAX, Lasting, lasting_of
from broker.metrics.unacked_bytes import UnackedBytes
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import Session, World, publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue

PERSISTENT: Final = b"\x10\x00\x02"


class Scene:
    """A queue of a virtual host that keeps what is durable."""

    def __init__(self, world: World, **declared: object) -> None:
        self.world = world
        self.unacked = UnackedBytes(self.world.node)
        self.now_s = 0.0
        self.client: Session = self.world.open(1)
        self.client.ask(1, "queue.declare", queue="q", **declared)

    @property
    def queue(self) -> Queue:
        return self.world.node.vhosts["/"].queues["q"]

    def fill(self, lasting: int, transient: int) -> None:
        """Messages of three bytes that last, and of five that do not, mixed."""
        for number in range(max(lasting, transient)):
            if number < lasting:
                self.client.feed(publish(1, "q", b"abc", PERSISTENT))

            if number < transient:
                self.client.feed(publish(1, "q", b"abcde"))

    def known(self) -> Lasting:
        self.now_s += 1
        list(self.unacked.steps(self.now_s))
        return lasting_of(self.queue, self.unacked.sizes_of(self.queue))


@pytest.fixture
def stored() -> StoredWorld:
    return StoredWorld(FakeDisk(Random(0)), "/log")


def test_of_a_durable_queue_what_is_persistent_lasts(stored: StoredWorld) -> None:
    scene = Scene(stored, durable=True)
    scene.fill(2, 3)
    assert scene.known() == Lasting(2, 6)
    scene.client.send(1, "basic.get", queue="q")
    scene.client.send(1, "basic.get", queue="q")
    assert scene.known() == Lasting(2, 6), "whoever has it"
    scene.client.send(1, "basic.ack", delivery_tag=1)
    assert scene.known() == Lasting(1, 3)


@pytest.mark.parametrize("arguments", [{"x-queue-type": "quorum"}, {"x-queue-type": "stream"}])
def test_quorum_queues_and_streams_keep_all(
    stored: StoredWorld, arguments: dict[str, object]
) -> None:
    scene = Scene(stored, durable=True, arguments=arguments)
    scene.fill(2, 3)
    assert scene.known() == Lasting(5, 21)


def test_of_a_queue_that_is_not_durable_nothing_lasts(stored: StoredWorld) -> None:
    scene = Scene(stored)
    scene.fill(2, 3)
    assert scene.known() == Lasting(0, 0)


def test_without_a_disk_nothing_lasts() -> None:
    scene = Scene(World(), durable=True)
    scene.fill(2, 3)
    assert scene.known() == Lasting(0, 0)


def test_of_many_in_memory_the_first_stand_for_all(stored: StoredWorld) -> None:
    scene = Scene(stored, durable=True)
    scene.fill(0, 3 * COUNTED_MAX)
    assert scene.known() == Lasting(0, 0)


def test_those_on_disk_count_by_their_marks(
    stored: StoredWorld,
) -> None:
    scene = Scene(stored, durable=True)
    scene.fill(4 * COUNTED_MAX, 4 * COUNTED_MAX)
    stored.write()
    count, size = scene.known()
    assert scene.queue.ready_count == 8 * COUNTED_MAX
    assert sum(map(len, scene.queue.cold_chunks())) > COUNTED_MAX, "there is something on disk"
    assert abs(count - 4 * COUNTED_MAX) < 40
    assert abs(size - 12 * COUNTED_MAX) < 200
