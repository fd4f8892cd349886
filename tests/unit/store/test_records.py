"""Segments, batches and records: what is whole comes back, and what is not is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store.records import (
    BATCH_HEADER_BYTES,
    CHECKPOINT_MAGIC,
    FLAG_END,
    FLAG_SYNCED,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    TRAILER_BYTES,
    RecordSink,
    Scan,
    batch_header,
    batch_trailer,
    frame_record,
    scan_batches,
    segment_header,
    segment_salt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SALT = b"by dice!"
NUMBER = 3
BASE = NUMBER << 32


class Batch(NamedTuple):
    """A batch to be written.

    Attributes:
        bodies: of its records.
        is_synced: it says that all before it was synced.
        is_trailed: it is followed by a trailer, not by zeros.

    """

    bodies: tuple[bytes, ...]
    is_synced: bool = True
    is_trailed: bool = False


BATCHES = st.lists(
    st.builds(
        Batch,
        st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    max_size=5,
)


class Taken(RecordSink):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.positions: list[int] = []

    def take(self, buffer: bytes, start: int, end: int, position: int) -> None:
        self.bodies.append(bytes(buffer[start:end]))
        self.positions.append(position)


def raw(number: int, batch: Batch, flags: int = 0) -> bytes:
    records = b"".join(frame_record(body) for body in batch.bodies)
    flags |= FLAG_SYNCED if batch.is_synced else 0
    trailer = batch_trailer(SALT, number) if batch.is_trailed else bytes(TRAILER_BYTES)
    return batch_header(SALT, number, len(records), flags) + records + trailer


def segment(batches: Sequence[Batch], first: int = 7) -> bytes:
    head = segment_header(SEGMENT_MAGIC, NUMBER, SALT)
    return head + b"".join(raw(first + place, one) for place, one in enumerate(batches))


def ends(batches: Sequence[Batch]) -> list[int]:
    """Where each batch ends, without and with what follows it; the header first."""
    return [len(segment(batches[:count])) for count in range(len(batches) + 1)]


def scanned(data: bytes, first: int = 7) -> tuple[Scan, Taken]:
    taken = Taken()
    return scan_batches(data, SALT, BASE, first, taken), taken


def bodies(batches: Sequence[Batch]) -> list[bytes]:
    return [body for batch in batches for body in batch.bodies]


@given(BATCHES, st.integers(0, 200))
def test_all_comes_back_in_order(batches: list[Batch], zeros: int) -> None:
    """With positions that say where each record stands, whatever space was claimed behind."""
    data = segment(batches) + bytes(zeros)
    scan, taken = scanned(data)

    assert taken.bodies == bodies(batches)
    assert (scan.fault, scan.is_damage) == ("", False)
    assert scan.batch_count == len(batches)
    assert scan.batch_number == 7 + len(batches)
    assert scan.end == len(segment(batches))
    for body, position in zip(taken.bodies, taken.positions, strict=True):
        start = position - BASE
        assert data[start : start + len(frame_record(body))] == frame_record(body)


@given(BATCHES, st.data())
def test_of_a_torn_segment_whole_batches_come_back(
    batches: list[Batch], data: st.DataObject
) -> None:
    whole = segment(batches)
    size = data.draw(st.integers(SEGMENT_HEADER_BYTES, len(whole)))
    scan, taken = scanned(whole[:size])

    # What follows a batch need not be there.
    count = sum(1 for end in ends(batches)[1:] if end - TRAILER_BYTES <= size)
    assert taken.bodies == bodies(batches[:count])
    assert not scan.is_damage
    assert scan.batch_number == 7 + count


@given(BATCHES.filter(bool), st.data())
def test_a_changed_octet_is_never_taken_for_another_record(
    batches: list[Batch], data: st.DataObject
) -> None:
    """It is noticed, or harmless; and damage where something proves that it was synced."""
    whole = segment(batches)
    place = data.draw(st.integers(SEGMENT_HEADER_BYTES, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    scan, taken = scanned(bytes(changed))

    borders = ends(batches)
    hit = sum(1 for end in borders[1:] if end <= place)
    if place >= borders[hit + 1] - TRAILER_BYTES:
        # A trailer proves something, and says nothing.
        assert taken.bodies == bodies(batches)
    else:
        assert taken.bodies == bodies(batches[:hit])
        assert scan.fault
        is_proven = batches[hit].is_trailed or any(
            one.is_synced or one.is_trailed for one in batches[hit + 1 :]
        )
        assert scan.is_damage == is_proven


@pytest.mark.parametrize(
    ("batches", "is_damage"),
    [
        ([Batch((b"a",)), Batch((b"b",))], True),
        ([Batch((b"a",)), Batch((b"b",), is_synced=False)], False),
        ([Batch((b"a",), is_trailed=True)], True),
        ([Batch((b"a",))], False),
    ],
    ids=[
        "what follows says that it was synced",
        "what follows does not say so",
        "its trailer says so",
        "nothing follows",
    ],
)
def test_a_fault_is_damage_when_it_was_synced_once(batches: list[Batch], is_damage: bool) -> None:
    data = bytearray(segment(batches))
    data[SEGMENT_HEADER_BYTES + BATCH_HEADER_BYTES + 8] ^= 1

    scan, taken = scanned(bytes(data))

    assert (scan.is_damage, taken.bodies) == (is_damage, [])
    assert scan.end == SEGMENT_HEADER_BYTES


def test_a_batch_that_is_missing_is_damage() -> None:
    scan, taken = scanned(segment([Batch((b"a",))], first=8))

    assert scan.is_damage
    assert "8 where 7 is due" in scan.fault
    assert not taken.bodies


def test_any_number_will_do_where_none_is_due() -> None:
    assert scanned(segment([Batch((b"a",))], first=8), first=-1)[1].bodies == [b"a"]


def test_what_looks_like_a_batch_in_a_message_is_none() -> None:
    """A client that knows the format does not know the salt."""
    forged = batch_header(b"no dice!", 8, 9, FLAG_SYNCED) + frame_record(b"x")
    data = segment([Batch((forged,))])

    assert scanned(data)[1].bodies == [forged]
    torn = scanned(data[: -TRAILER_BYTES - 1])[0]
    assert (torn.is_damage, torn.batch_count) == (False, 0)


def test_the_last_batch_of_a_checkpoint_says_so() -> None:
    head = segment_header(CHECKPOINT_MAGIC, NUMBER, SALT)
    first = raw(0, Batch((b"a",)))

    assert not scanned(head + first, first=0)[0].has_end
    assert scanned(head + first + raw(1, Batch((b"b",)), FLAG_END), first=0)[0].has_end


@pytest.mark.parametrize("place", range(SEGMENT_HEADER_BYTES))
def test_each_octet_of_a_header_counts(place: int) -> None:
    head = bytearray(segment_header(SEGMENT_MAGIC, NUMBER, SALT))
    assert segment_salt(bytes(head), SEGMENT_MAGIC, NUMBER) == SALT
    assert segment_salt(bytes(head), SEGMENT_MAGIC, NUMBER + 1) is None
    assert segment_salt(bytes(head), CHECKPOINT_MAGIC, NUMBER) is None

    head[place] ^= 0x40

    assert segment_salt(bytes(head), SEGMENT_MAGIC, NUMBER) is None
