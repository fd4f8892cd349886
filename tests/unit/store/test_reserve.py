"""Space kept back: given up piece by piece, and claimed again when there is enough."""

from __future__ import annotations

from random import Random

import pytest

from broker.store.reserve import PIECE_BYTES, Reserve
from tests.helpers.fake_disk import FakeDisk

SIZE = 4 * PIECE_BYTES
PATH = "/data/reserve"


@pytest.fixture
def disk() -> FakeDisk:
    disk = FakeDisk(Random(1))
    disk.make_directory("/data")
    return disk


def held(disk: FakeDisk) -> int:
    file = disk.open(PATH)
    try:
        return file.size()
    finally:
        file.close()


def test_it_is_claimed_and_given_up_in_pieces(disk: FakeDisk) -> None:
    reserve = Reserve(disk, PATH, SIZE)
    reserve.find()
    assert (reserve.is_whole, held(disk)) == (True, SIZE)
    assert reserve.give_up(10)
    assert (reserve.is_whole, held(disk)) == (False, SIZE - PIECE_BYTES)
    assert reserve.give_up(SIZE)
    assert held(disk) == 0
    assert not reserve.give_up(10), "there is nothing left"


def test_it_is_whole_again_when_as_much_is_free_besides(disk: FakeDisk) -> None:
    reserve = Reserve(disk, PATH, SIZE)
    reserve.find()
    reserve.give_up(10)
    disk.capacity_bytes = 2 * SIZE - 1
    reserve.claim()
    assert (reserve.is_whole, held(disk)) == (False, SIZE - PIECE_BYTES)
    disk.capacity_bytes = 2 * SIZE
    reserve.claim()
    assert (reserve.is_whole, held(disk)) == (True, SIZE)


def test_what_an_earlier_broker_has_left_is_taken_over(disk: FakeDisk) -> None:
    Reserve(disk, PATH, SIZE).find()
    disk.capacity_bytes = SIZE
    later = Reserve(disk, PATH, SIZE)
    later.find()
    assert later.is_whole
    later.remove()
    assert disk.list_directory("/data") == []


def test_without_space_there_is_none(disk: FakeDisk) -> None:
    disk.capacity_bytes = SIZE
    reserve = Reserve(disk, PATH, SIZE)
    reserve.find()
    assert not reserve.is_whole
    assert not reserve.give_up(10)
