"""A queue most of which lies on disk does what a list does (broker/core/queue/cold.py)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.core.message import content_body
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.small import SMALL, homes_of_bounds
from tests.helpers.stored import StoredCoreWorld

if TYPE_CHECKING:
    from broker.core.message import Message

DIRECTORY = "/data/vhosts/1"
SIZES = st.sampled_from([0, 10, 300])
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 9), SIZES, st.booleans()),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("give back"), st.integers(0, 4)),
        st.tuples(st.just("settle"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["write", "checkpoint", "wait", "restart"])),
    ),
    max_size=40,
)


@pytest.fixture(autouse=True)
def _small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in homes_of_bounds():
        monkeypatch.setattr(module, name, SMALL[name])


class Pair:
    """A queue, and the list that it is to be like."""

    def __init__(self, levels: int) -> None:
        self.disk = FakeDisk(Random(0))
        self.levels = levels
        self.count = 0
        # What is ready, by level, and what was taken: level, number, whether it outlives a crash.
        self.ready: list[list[tuple[int, bool]]] = [[] for _ in range(levels)]
        self.taken: list[tuple[int, int, bool, Message]] = []
        self._open()
        arguments = {"x-max-priority": levels - 1} if levels > 1 else {}
        self.client.declare_with("q", arguments, durable=True)

    def _open(self) -> None:
        self.world = StoredCoreWorld(self.disk, DIRECTORY, is_prompt=False, segment_bytes=1_024)
        self.client = self.world.client()

    def publish(self, count: int, size: int, is_persistent: bool) -> None:
        for _ in range(count):
            self.count += 1
            level = self.count * 7 % self.levels
            body = b"%d " % self.count + b"." * size
            mode = 2 if is_persistent else 1
            self.client.publish("q", body, delivery_mode=mode, priority=level)
            self.ready[level].append((self.count, is_persistent))

        self.world.settle()

    def take(self, count: int) -> None:
        for _ in range(count):
            message = self.client.get(self.world.queue("q"))
            level = next((one for one in reversed(range(self.levels)) if self.ready[one]), None)
            if message is None or level is None:
                assert (message, level) == (None, None)
                return

            number, is_persistent = self.ready[level].pop(0)
            assert number_of(message) == number
            self.taken.append((level, number, is_persistent, message))

        self.world.settle()

    def give_back(self, place: int) -> None:
        if place < len(self.taken):
            level, number, is_persistent, message = self.taken.pop(place)
            self.client.requeue(int(message.delivery_tag))
            self.ready[level] = sorted([*self.ready[level], (number, is_persistent)])
            self.world.settle()

    def settle(self, place: int) -> None:
        if place < len(self.taken):
            message = self.taken.pop(place)[3]
            self.client.ack(int(message.delivery_tag))
            self.world.settle()

    def restart(self) -> None:
        """Only persistent ones come back, those that were taken among them."""
        self.world.write()
        for level, number, is_persistent, _ in self.taken:
            self.ready[level] = sorted([*self.ready[level], (number, is_persistent)])

        self.taken.clear()
        self.ready = [[one for one in level if one[1]] for level in self.ready]
        self.disk = self.disk.killed()
        self._open()

    def check(self) -> None:
        queue = self.world.queue("q")
        assert queue.ready_count == sum(len(level) for level in self.ready)


def number_of(message: Message) -> int:
    return int(content_body(message.content).split(b" ", 1)[0])


# A checkpoint tells of what consumers have.
@example(acts=[("publish", 1, 0, True), ("take", 1), ("checkpoint",), ("restart",)], levels=1)
@given(acts=ACTS, levels=st.sampled_from([1, 3]))
def test_a_queue_on_disk_is_a_list(acts: list[tuple[object, ...]], levels: int) -> None:
    """Whatever is written meanwhile, moved, told in a checkpoint, or found after a restart."""
    pair = Pair(levels)
    for name, *values in acts:
        if name == "write":
            pair.world.write()
        elif name == "checkpoint":
            pair.world.checkpoint()
        elif name == "wait":
            pair.world.wait(0.3)
            pair.world.write()
        else:
            assert isinstance(name, str)
            getattr(pair, name.replace(" ", "_"))(*values)

        pair.check()

    pair.take(pair.count)
    assert not any(pair.ready)
    pair.check()
