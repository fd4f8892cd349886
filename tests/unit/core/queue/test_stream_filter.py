"""What a reader of a stream wants, found by marks (rule ST-08)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.message import Address, Message, build_content
from broker.core.queue.stream_filter import (
    NOTHING,
    UNFILTERED,
    StreamFilter,
    filter_value_of,
    mark_of,
)
from tests.helpers.core import raw_properties

VALUES = [UNFILTERED, *[f"value-{number}" for number in range(20)]]


def test_only_no_value_has_the_mark_of_none() -> None:
    assert mark_of(UNFILTERED) == 0
    assert all(0 < mark_of(str(number)) < 1 << 16 for number in range(100_000))
    assert mark_of("\udcff") > 0, "names may be any bytes"


@given(
    entries=st.lists(st.sampled_from(VALUES), max_size=40),
    wanted=st.one_of(
        st.frozensets(st.sampled_from(VALUES), min_size=1, max_size=3),
        st.frozensets(st.sampled_from(VALUES), min_size=9),
    ),
    start=st.integers(0, 40),
    stop=st.integers(0, 40),
    is_packed=st.booleans(),
)
def test_a_search_finds_the_first_that_is_wanted(
    entries: list[str], wanted: frozenset[str], start: int, stop: int, is_packed: bool
) -> None:
    """Few values are looked for one by one, many together: with the same outcome."""
    marks = bytearray(b"".join(mark_of(value).to_bytes(2, "little") for value in entries))
    stop = min(stop, len(entries))
    expected = [at for at in range(start, stop) if entries[at] in wanted]
    found = StreamFilter(wanted).find(bytes(marks) if is_packed else marks, start, stop)
    assert found == (expected[0] if expected else NOTHING)


def test_a_mark_is_not_found_between_two_others() -> None:
    one = next(str(at) for at in range(10**6) if mark_of(str(at)) == 0x0201)
    marks = b"\x00\x01\x02\x00\x01\x02"
    assert StreamFilter(frozenset({one})).find(marks, 0, 3) == 2
    assert StreamFilter(frozenset({one})).find(marks, 0, 2) == NOTHING


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        pytest.param({}, UNFILTERED, id="nothing"),
        pytest.param({"headers": {"k": "v"}}, UNFILTERED, id="other-headers"),
        pytest.param({"headers": {"x-stream-filter-value": "v"}}, "v", id="a-value"),
        pytest.param({"headers": {"x-stream-filter-value": ""}}, UNFILTERED, id="an-empty-one"),
        pytest.param({"headers": {"x-stream-filter-value": 1}}, UNFILTERED, id="no-text"),
        pytest.param({"app_id": "x-stream-filter-value"}, UNFILTERED, id="elsewhere"),
    ],
)
def test_the_value_is_a_header(properties: dict[str, object], expected: str) -> None:
    body = b"x-stream-filter-value"
    content = build_content(raw_properties(**properties), body)
    assert filter_value_of(Message(Address("", ""), content, len(body), True, -1)) == expected
