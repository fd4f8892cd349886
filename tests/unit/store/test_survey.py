"""A file of a log with gaps: what is whole is found on both sides of them."""

from __future__ import annotations

import pytest

from broker.store.records import (
    FLAG_SYNCED,
    SEGMENT_MAGIC,
    batch_header,
    batch_trailer,
    frame_record,
    segment_header,
)
from broker.store.survey import survey_file

SALT = b"saltsalt"
NUMBER = 3
BODY = b"\x01some record"


def batch(number: int, *, is_trailed: bool = False, flags: int = FLAG_SYNCED) -> bytes:
    record = frame_record(BODY)
    trailer = batch_trailer(SALT, number) if is_trailed else bytes(32)
    return batch_header(SALT, number, 2 * len(record), flags) + 2 * record + trailer


def segment(*batches: bytes, zeros: int = 100) -> bytes:
    return segment_header(SEGMENT_MAGIC, NUMBER, SALT) + b"".join(batches) + bytes(zeros)


SIZE = len(batch(0))


def damaged(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes((data[offset] ^ 0x10,)) + data[offset + 1 :]


def test_sound_file_has_batches_and_no_gap() -> None:
    survey = survey_file(segment(batch(7), batch(8)), NUMBER, is_checkpoint=False)
    assert [one.number for one in survey.batches] == [7, 8]
    assert survey.record_count == 4
    assert not survey.gaps
    assert survey.end == 32 + 2 * SIZE


@pytest.mark.parametrize("offset", range(SIZE - 32), ids=lambda offset: f"byte-{offset}")
def test_damage_in_a_batch_leaves_those_around_it(offset: int) -> None:
    data = damaged(segment(batch(7), batch(8), batch(9)), 32 + SIZE + offset)
    survey = survey_file(data, NUMBER, is_checkpoint=False)
    assert [one.number for one in survey.batches] == [7, 9]
    assert [(gap.start, gap.stop) for gap in survey.gaps] == [(32 + SIZE, 32 + 2 * SIZE)]
    assert survey.is_proven_damaged


@pytest.mark.parametrize("offset", range(32), ids=lambda offset: f"byte-{offset}")
def test_damaged_header_hides_no_batch(offset: int) -> None:
    survey = survey_file(damaged(segment(batch(7)), offset), NUMBER, is_checkpoint=False)
    assert not survey.has_header
    assert [one.number for one in survey.batches] == [7]
    assert survey.is_proven_damaged


def test_trailer_behind_a_torn_batch_proves_that_it_was_safe() -> None:
    data = segment(damaged(batch(7, is_trailed=True), 50))
    assert survey_file(data, NUMBER, is_checkpoint=False).is_proven_damaged


def test_torn_tail_is_no_proven_damage() -> None:
    data = segment(batch(7), batch(8)[:-40], zeros=0)
    survey = survey_file(data, NUMBER, is_checkpoint=False)
    assert [one.number for one in survey.batches] == [7]
    assert not survey.is_proven_damaged
    assert survey.gaps[0].start == 32 + SIZE


def test_file_of_another_number_has_no_sound_header() -> None:
    assert not survey_file(segment(batch(7)), NUMBER + 1, is_checkpoint=False).has_header


def test_empty_file_has_no_batches() -> None:
    survey = survey_file(b"", NUMBER, is_checkpoint=False)
    assert not survey.batches
    assert not survey.is_proven_damaged
