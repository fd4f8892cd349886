"""The log of a stream: offsets, what is kept of it, and where reading begins (rules ST)."""

from __future__ import annotations

import pytest

from broker.core.message import Address, Message, build_content, content_body
from broker.core.queue.stream_filter import NOTHING, UNFILTERED, StreamFilter
from broker.core.queue.stream_log import StreamLog
from broker.limits import STREAM_SEGMENT_ENTRIES_MAX
from broker.wire.tables import Field
from tests.helpers.core import plain_headers, raw_properties

ADDRESS = Address("", "log")
KILOBYTE = 1024
MEGABYTE = 1024 * KILOBYTE


def message(body: bytes = b"x", raw: bytes = b"\0\0") -> Message:
    return Message(ADDRESS, build_content(raw, body), len(body), True, -1)


def log_of(
    *values: str,
    bytes_max: int | None = None,
    age_ms_max: int | None = None,
    segment_bytes_max: int | None = None,
) -> StreamLog:
    """A log with these limits, and an entry for each filter value."""
    log = StreamLog()
    log.limit(bytes_max=bytes_max, age_ms_max=age_ms_max, segment_bytes_max=segment_bytes_max)
    for value in values:
        log.append(message(), value, 1)

    return log


def offsets(log: StreamLog, wanted: frozenset[str] | None = None, start: int = 0) -> list[int]:
    """All that a reader gets."""
    chosen = None if wanted is None else StreamFilter(wanted)
    found = []
    offset = int(log.find(start, chosen))
    while offset != NOTHING:
        found.append(offset)
        offset = int(log.find(offset + 1, chosen))

    return found


def kept(log: StreamLog) -> list[int]:
    """The offsets that are there; counts and bounds must say the same."""
    found = offsets(log)
    assert len(found) == log.count
    assert found == list(range(int(log.first_offset), int(log.next_offset)))
    return found


def test_an_empty_log_has_nothing_and_begins_at_zero() -> None:
    log = log_of()
    assert kept(log) == []
    assert (log.first_offset, log.next_offset) == (0, 0)
    assert log.offset_at(0) == 0
    assert log.next_retention() == NOTHING


def test_a_message_is_found_under_its_offset_again_and_again() -> None:
    """Rule ST-01: reading takes nothing away."""
    log = log_of()
    for number in range(3):
        log.append(message(b"%d" % number), UNFILTERED, 1)

    for _ in range(2):
        assert [content_body(log.message_at(at).content) for at in kept(log)] == [b"0", b"1", b"2"]

    assert log.message_at(1) is not log.message_at(1)
    assert log.message_at(1).content is log.message_at(1).content, "made once for all readers"
    assert log.body_bytes == 3


@pytest.mark.parametrize(
    ("raw", "headers"),
    [
        pytest.param(b"\0\0", {}, id="no-properties"),
        pytest.param(raw_properties(message_id="m", priority=3), {}, id="no-headers"),
        pytest.param(raw_properties(headers={}), {}, id="empty-headers"),
        pytest.param(raw_properties(headers={"k": "v"}, app_id="a"), {"k": "v"}, id="headers"),
        pytest.param(raw_properties(headers={"x-stream-offset": "mine"}), {}, id="the-same-header"),
    ],
)
def test_what_is_read_says_its_offset_and_is_the_same_otherwise(
    raw: bytes, headers: dict[str, object]
) -> None:
    """Rule ST-05."""
    log = log_of(UNFILTERED)
    log.append(message(b"body", raw), UNFILTERED, 1)
    found = log.message_at(1)
    assert plain_headers(found.properties().raw) == {**headers, "x-stream-offset": 1}
    assert found.properties().headers()["x-stream-offset"] == Field("l", 1)
    assert content_body(found.content) == b"body"
    before = message(b"body", raw).properties().to_plain()
    after = found.properties().to_plain()
    assert {**before, "headers": None} == {**after, "headers": None}


# -- what is kept


def test_without_limits_everything_is_kept() -> None:
    log = log_of()
    for number in range(100):
        log.append(message(), UNFILTERED, number * 10**9)

    assert kept(log) == list(range(100))
    assert log.next_retention() == NOTHING


def test_the_oldest_segments_go_when_a_new_one_begins_and_there_is_too_much() -> None:
    """Rule ST-07: the last one stays, and what is dropped is dropped whole."""
    log = log_of(bytes_max=3 * KILOBYTE, segment_bytes_max=KILOBYTE)
    counts = []
    for _ in range(60):
        log.append(message(bytes(200)), UNFILTERED, 1)
        counts.append(int(log.count))

    # 200 bytes, frames, address and what an entry counts for: four make a segment, three are kept.
    first = int(log.first_offset)
    assert first % 4 == 0
    assert kept(log) == list(range(first, 60))
    assert max(counts) == 12
    assert min(counts[12:]) == 9
    assert log.body_bytes == 200 * log.count


@pytest.mark.parametrize("segment_bytes_max", [0, 1])
def test_a_segment_takes_at_least_one_message_and_the_last_one_stays(
    segment_bytes_max: int,
) -> None:
    log = log_of(bytes_max=0, segment_bytes_max=segment_bytes_max)
    for number in range(1_000):
        log.append(message(), UNFILTERED, 1)
        assert kept(log) == [number]


def test_a_segment_is_full_with_so_many_messages_whatever_their_size() -> None:
    log = log_of(bytes_max=0, segment_bytes_max=1 << 40)
    one = message()
    for _ in range(STREAM_SEGMENT_ENTRIES_MAX):
        log.append(one, UNFILTERED, 1)

    assert log.count == STREAM_SEGMENT_ENTRIES_MAX
    log.append(one, UNFILTERED, 1)
    assert log.count == 1


@pytest.mark.parametrize(
    ("bytes_max", "least", "most"),
    [
        pytest.param(64 * MEGABYTE, 55 * MEGABYTE, 65 * MEGABYTE, id="kept-to-closely"),
        pytest.param(16 * MEGABYTE, 13 * MEGABYTE, 17 * MEGABYTE, id="in-smaller-segments"),
        pytest.param(1, 0, MEGABYTE + 65_536, id="too-low-to-be-meant"),
    ],
)
def test_without_a_segment_size_it_follows_from_the_limit(
    bytes_max: int, least: int, most: int
) -> None:
    """RabbitMQ's half a gigabyte would make most limits mean nothing."""
    log = log_of(bytes_max=bytes_max)
    one = message(bytes(65_000))
    sizes = []
    for _ in range(2_000):
        log.append(one, UNFILTERED, 1)
        sizes.append(int(log.body_bytes))

    assert max(sizes) <= most
    assert min(sizes[-500:]) >= least


def test_a_tiny_limit_keeps_what_a_test_would_publish() -> None:
    log = log_of(bytes_max=1)
    for _ in range(100):
        log.append(message(bytes(1_000)), UNFILTERED, 1)

    assert log.count == 100


def test_segments_end_by_age_too_and_go_by_the_age_of_their_last_message() -> None:
    """Rule ST-07, without a segment size of the client's."""
    log = log_of(age_ms_max=8_000)
    for second in range(20):
        log.append(message(), UNFILTERED, second * 1_000)

    # Each second begins a segment of its own; those of more than eight seconds ago are gone.
    assert kept(log) == list(range(11, 20))
    assert log.next_retention() == 11_000 + 8_000 + 1
    log.retain(19_000)
    assert kept(log) == list(range(11, 20))
    log.retain(19_001)
    assert kept(log) == list(range(12, 20))
    log.retain(10**12)
    assert kept(log) == [19], "the last one stays"
    assert log.next_retention() == NOTHING


def test_with_a_segment_size_age_alone_ends_no_segment() -> None:
    """RabbitMQ's way, for those who ask for it."""
    log = log_of(age_ms_max=1_000, segment_bytes_max=KILOBYTE)
    for second in range(4):
        log.append(message(bytes(200)), UNFILTERED, second * 10_000)

    assert kept(log) == [0, 1, 2, 3]
    log.append(message(), UNFILTERED, 40_000)
    assert kept(log) == [4]


def test_limits_beyond_all_numbers_are_none() -> None:
    log = log_of(bytes_max=10**30, age_ms_max=10**30, segment_bytes_max=10**30)
    log.append(message(), UNFILTERED, 1)
    log.retain(10**15)
    assert kept(log) == [0]
    assert log.next_retention() == NOTHING


def test_a_limit_that_comes_later_holds_for_what_is_there() -> None:
    """Rule PO-11."""
    log = log_of(segment_bytes_max=0)
    for _ in range(10):
        log.append(message(bytes(1_000)), UNFILTERED, 1)

    log.limit(bytes_max=3_500, age_ms_max=None, segment_bytes_max=None)
    log.retain(1)
    assert kept(log) == [7, 8, 9]


def test_a_cleared_log_goes_on_counting() -> None:
    log = log_of(*[UNFILTERED] * 3)
    log.clear()
    assert kept(log) == []
    assert log.next_offset == 3
    assert log.body_bytes == 0


# -- reading


def test_reading_begins_where_there_is_something() -> None:
    """Rule ST-04: what is no longer there is passed over."""
    log = log_of(*[UNFILTERED] * 10, bytes_max=0, segment_bytes_max=0)
    assert log.find(0, None) == 9
    assert log.find(9, None) == 9
    assert log.find(10, None) == NOTHING
    assert log.find(1 << 60, None) == NOTHING


SPREAD = ["a", "", "b", "a", "", "c", "a", "b"]


@pytest.mark.parametrize("segment_bytes_max", [0, 200, 1 << 40])
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({"a"}, [0, 3, 6], id="one"),
        pytest.param({"a", "b"}, [0, 2, 3, 6, 7], id="two"),
        pytest.param({"a", ""}, [0, 1, 3, 4, 6], id="one-and-unfiltered"),
        pytest.param({""}, [1, 4], id="unfiltered"),
        pytest.param({"z"}, [], id="none"),
        pytest.param({"z", "c"}, [5], id="one-that-is-there"),
        pytest.param(set(), [], id="nothing"),
    ],
)
def test_a_filter_lets_through_exactly_what_it_names(
    wanted: set[str], expected: list[int], segment_bytes_max: int
) -> None:
    """Rule ST-08."""
    log = log_of(*SPREAD, segment_bytes_max=segment_bytes_max)
    assert offsets(log, frozenset(wanted)) == expected


def test_the_first_filter_value_may_come_late_in_a_segment() -> None:
    log = log_of("", "", "")
    assert offsets(log, frozenset({""})) == [0, 1, 2]
    assert offsets(log, frozenset({"a"})) == []
    log.append(message(), "a", 1)
    log.append(message(), "", 1)
    assert offsets(log, frozenset({""})) == [0, 1, 2, 4]
    assert offsets(log, frozenset({"a"})) == [3]


@pytest.mark.parametrize("segment_bytes_max", [0, 200, 1 << 40])
@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (-(10**30), 0),
        (0, 0),
        (100, 0),
        (101, 1),
        (200, 1),
        (201, 3),
        (300, 3),
        (301, 4),
        (10**30, 4),
    ],
)
def test_a_time_is_the_first_message_of_then_or_later(
    time_ms: int, expected: int, segment_bytes_max: int
) -> None:
    """Rule ST-04."""
    log = log_of(segment_bytes_max=segment_bytes_max)
    for then in (100, 200, 200, 300):
        log.append(message(), UNFILTERED, then)

    assert log.offset_at(time_ms) == expected
