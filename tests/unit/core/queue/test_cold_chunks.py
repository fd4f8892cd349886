"""Which positions of a deep queue are looked at when a segment of the log is to go."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from broker.core.queue.cold import TRANSIENT, Cold, _Chunk
from broker.store.api import OFFSET_BITS
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.stored import StoredWorld


def at(segment: int, offset: int = 0) -> int:
    return (segment << OFFSET_BITS) | offset


@pytest.mark.parametrize(
    ("numbers", "is_worth_a_look"),
    [([5], True), ([6], True), ([7], True), ([4], False), ([8, 4], False), ([1, 7], True)],
)
def test_a_chunk_knows_its_segments(numbers: list[int], is_worth_a_look: bool) -> None:
    chunk = _Chunk(array("Q", [at(7, 1) | TRANSIENT, at(5, 9)]))
    assert chunk.may_lie_in(numbers) == is_worth_a_look
    empty = _Chunk(array("Q"))
    assert not empty.may_lie_in(numbers)
    empty.embrace(at(5))
    empty.embrace(at(7) | TRANSIENT)
    assert empty.may_lie_in(numbers) == is_worth_a_look


def test_positions_are_found_before_and_after_they_moved() -> None:
    """Chunks of 4,096: each of ten segments fills more than one, and shares two."""
    world = StoredWorld(FakeDisk(Random(1)), "/data")
    journal = world.vhost.journal
    assert journal is not None
    cold = Cold(journal, world.vhost.exchanges["amq.direct"], 1)
    positions = [at(segment, offset) for segment in range(1, 11) for offset in range(6_000)]
    cold.restore(array("Q", positions), 0)
    assert cold.places_in({3, 10}) == [one for one in positions if one >> OFFSET_BITS in {3, 10}]
    moved = {at(3, offset): at(20, offset) for offset in range(0, 6_000, 1_000)}
    assert cold.move(moved) == list(moved)
    assert cold.places_in({20}) == list(moved.values())
    assert len(cold.places_in({3})) == 6_000 - len(moved)
    assert cold.move({at(11, 0): at(21, 0)}) == []
