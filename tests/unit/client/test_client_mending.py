"""What the AMQP library cannot read, and what becomes of it on its way in."""

from __future__ import annotations

import asyncio
import struct
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import mending
from broker.client.mending import MendingReader, mended
from tests.helpers.untyped import pamqp

UNREADABLE = (ValueError, pamqp.exceptions.PAMQPException)
"""From version 4 on the library has an error of its own for it."""
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
BAD = b"\xff\xc3"
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
DELIVER = b"\x00\x3c\x00\x3c"
GET_OK = b"\x00\x3c\x00\x47"
RETURN = b"\x00\x3c\x00\x32"


def text(octets: bytes) -> bytes:
    return bytes((len(octets),)) + octets


def sized(octets: bytes) -> bytes:
    return struct.pack(">L", len(octets)) + octets


def header(flags: int, properties: bytes) -> bytes:
    """What a content header's frame carries, and the octet that ends it."""
    return struct.pack(">HHQH", 60, 0, 0, flags) + properties + b"\xce"


def entry(value: bytes, key: bytes = b"k") -> bytes:
    return header(0x2000, sized(text(key) + value))


def read(kind: int, payload: bytes) -> Any:
    head = struct.pack(">BHL", kind, 1, len(payload) - 1)
    return pamqp.frame.unmarshal(head + payload)[2]


TIME = struct.pack(">Q", 1_700_000_000_000_000)
"""Microseconds: the library takes only seconds and milliseconds."""


@pytest.mark.parametrize(
    ("payload", "name", "value"),
    [
        pytest.param(header(0x8000, text(BAD)), "content_type", "??", id="content-type"),
        pytest.param(header(0x4000, text(BAD)), "content_encoding", "??", id="content-encoding"),
        pytest.param(header(0x0400, text(BAD)), "correlation_id", "??", id="correlation-id"),
        pytest.param(header(0x0200, text(BAD)), "reply_to", "??", id="reply-to"),
        pytest.param(header(0x0100, text(BAD)), "expiration", "??", id="expiration"),
        pytest.param(header(0x0080, text(b"a" + BAD)), "message_id", "a??", id="message-id"),
        pytest.param(
            header(0x0080, text("hä".encode() + BAD)), "message_id", "hä??", id="beside-utf8"
        ),
        pytest.param(header(0x0040, TIME), "timestamp", LAST, id="timestamp"),
        pytest.param(header(0x0020, text(BAD)), "message_type", "??", id="type"),
        pytest.param(header(0x0010, text(BAD)), "user_id", "??", id="user-id"),
        pytest.param(header(0x0008, text(BAD)), "app_id", "??", id="app-id"),
        pytest.param(
            header(0x1880, b"\x02\xff" + text(BAD)), "message_id", "??", id="behind-numbers"
        ),
        pytest.param(entry(b"V", BAD), "headers", {"??": None}, id="key"),
        pytest.param(entry(b"T" + TIME), "headers", {"k": LAST}, id="time-in-headers"),
        pytest.param(
            entry(b"F" + sized(text(BAD) + b"I\0\0\0\5")), "headers", {"k": {"??": 5}}, id="nested"
        ),
        pytest.param(
            entry(b"A" + sized(b"S" + sized(b"x") + b"T" + TIME)),
            "headers",
            {"k": ["x", LAST]},
            id="array",
        ),
    ],
)
def test_a_property_that_cannot_be_read_is_mended(payload: bytes, name: str, value: object) -> None:
    with pytest.raises(UNREADABLE):
        read(HEADER, payload)

    whole = mended(HEADER, payload)
    assert len(whole) == len(payload)
    assert getattr(read(HEADER, whole).properties, name) == value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(letter + bytes(size), id=letter.decode())
        for letter, size in {
            **dict.fromkeys((b"t", b"b", b"B"), 1),
            **dict.fromkeys((b"s", b"u"), 2),
            **dict.fromkeys((b"I", b"i", b"f", b"S", b"x", b"F", b"A"), 4),
            **dict.fromkeys((b"l", b"L", b"d", b"T"), 8),
            b"D": 5,
            b"V": 0,
        }.items()
    ],
)
def test_every_kind_of_value_is_walked_over(value: bytes) -> None:
    payload = header(0x2080, sized(text(b"k") + value) + text(BAD))
    assert read(HEADER, mended(HEADER, payload)).properties.message_id == "??"


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        pytest.param(
            DELIVER + text(b"tag") + bytes(9) + text(b"") + text(BAD), "routing_key", id="deliver"
        ),
        pytest.param(
            DELIVER + text(b"tag") + b"\xff" * 9 + text(BAD) + text(b""), "exchange", id="exchange"
        ),
        pytest.param(GET_OK + bytes(9) + text(b"") + text(BAD) + bytes(4), "routing_key", id="get"),
        pytest.param(
            RETURN + b"\1\x38" + text(b"NO_ROUTE") + text(b"") + text(BAD),
            "routing_key",
            id="return",
        ),
    ],
)
def test_a_routing_key_that_cannot_be_read_is_mended(payload: bytes, name: str) -> None:
    payload += b"\xce"
    with pytest.raises(UNREADABLE):
        read(METHOD, payload)

    assert getattr(read(METHOD, mended(METHOD, payload)), name) == "??"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(entry(b"S" + sized(BAD)), id="octets-in-headers"),
        pytest.param(entry(b"x" + sized(BAD)), id="bytes-in-headers"),
        pytest.param(entry(b"l" + BAD * 4), id="number"),
        pytest.param(header(0x0080, text("hörig".encode())), id="utf8"),
        pytest.param(header(0x0040, struct.pack(">Q", 1_700_000_000_000)), id="milliseconds"),
        pytest.param(header(0x0001, b"\x80\0" + text(BAD)), id="flags-of-another-protocol"),
        pytest.param(header(0x0080, b"\xff" + BAD), id="cut"),
        pytest.param(entry(b"?" + BAD), id="unknown-letter"),
        pytest.param(entry((b"A\0\0\xff\xff" * 5000) + BAD), id="deep"),
    ],
)
def test_all_else_stays_as_it_is(payload: bytes) -> None:
    assert mended(HEADER, payload) == payload


@given(st.sampled_from([METHOD, HEADER]), st.integers(0, 0xFFFF), st.binary(max_size=80))
def test_whatever_comes_keeps_its_size(kind: int, flags: int, octets: bytes) -> None:
    for payload in (header(flags, octets), DELIVER + octets, octets):
        whole = mended(kind, payload)
        assert len(whole) == len(payload)
        assert mended(kind, whole) == whole


FRAMES = st.one_of(
    st.binary(max_size=40).map(lambda body: (BODY, body + b"\xce")),
    st.just((HEARTBEAT, b"\xce")),
    st.binary(max_size=20).map(lambda key: (HEADER, header(0x0080, text(key)))),
    st.binary(max_size=20).map(lambda key: (HEADER, entry(b"V", key))),
    st.binary(max_size=20).map(
        lambda key: (METHOD, DELIVER + text(b"tag") + bytes(9) + text(b"") + text(key) + b"\xce")
    ),
    st.binary(min_size=5, max_size=40).map(lambda octets: (METHOD, octets)),
)


@given(st.lists(FRAMES, min_size=1, max_size=6), st.data())
def test_it_makes_no_difference_in_what_pieces_frames_come(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    heads = [struct.pack(">BHL", kind, 1, len(payload) - 1) for kind, payload in frames]
    stream = b"".join(head + one[1] for head, one in zip(heads, frames, strict=True))
    whole = b"".join(
        head + (mended(*one) if one[0] in (METHOD, HEADER) else one[1])
        for head, one in zip(heads, frames, strict=True)
    )
    cuts = data.draw(st.sets(st.integers(0, len(stream))))
    edges = [0, *sorted(cuts), len(stream)]

    async def read_all() -> bytes:
        reader = MendingReader()
        for start, end in pairwise(edges):
            reader.feed_data(stream[start:end])

        reader.feed_eof()
        return await reader.read()

    assert asyncio.run(read_all()) == whole


@pytest.mark.parametrize(
    ("agreed", "kind", "size", "is_fine"),
    [
        (None, METHOD, 2**32 - 1, False),
        (None, HEADER, 300_000, False),
        (None, BODY, 300_000, False),
        (None, HEADER, 200_000, True),
        (4096, HEADER, 300_000, False),
        (1_000_000, BODY, 1_000_000, True),
        (1_000_000, HEADER, 2**31, False),
        (0, HEADER, 2**31, False),
        (0, BODY, 2**31, True),
    ],
)
async def test_nothing_is_held_that_is_larger_than_agreed(
    agreed: int | None, kind: int, size: int, is_fine: bool
) -> None:
    reader = MendingReader()
    if agreed is not None:
        tune = b"\x00\x0a\x00\x1e" + struct.pack(">HLH", 2047, agreed, 60) + b"\xce"
        reader.feed_data(struct.pack(">BHL", METHOD, 0, len(tune) - 1) + tune)

    reader.feed_data(struct.pack(">BHL", kind, 1, size))
    assert (reader.exception() is None) is is_fine
    held = b"more" * 1000
    reader.feed_data(held)
    if not is_fine:
        with pytest.raises(ConnectionError, match=f"a frame of {size} bytes"):
            await reader.readexactly(1)


@pytest.mark.parametrize(
    "method", [b"\x00\x0a\x00\x32", b"\x00\x14\x00\x28"], ids=["all", "channel"]
)
def test_a_reason_that_was_cut_can_be_read(method: bytes) -> None:
    payload = method + b"\1\x94" + text(b"no queue '\xc3") + bytes(4) + b"\xce"
    assert read(METHOD, mended(METHOD, payload)).reply_text == "no queue '?"


@pytest.mark.parametrize("step", [1, 2, 7, 8, 11, 1000])
async def test_frames_come_in_pieces_of_any_size(step: int) -> None:
    reader = MendingReader()
    stream = b"".join(
        struct.pack(">BHL", kind, 1, len(payload) - 1) + payload
        for kind, payload in [
            (HEADER, header(0x0080, text(BAD))),
            (BODY, BAD * 20 + b"\xce"),
            (METHOD, DELIVER + text(b"tag") + bytes(9) + text(b"") + text(BAD) + b"\xce"),
            (HEARTBEAT, b"\xce"),
            (HEADER, header(0x0080, text(b"id"))),
        ]
    )
    for start in range(0, len(stream), step):
        reader.feed_data(stream[start : start + step])

    reader.feed_eof()
    assert await reader.read() == stream.replace(text(BAD), text(b"??"))


async def test_a_body_is_not_held_back() -> None:
    reader = MendingReader()
    reader.feed_data(struct.pack(">BHL", BODY, 1, 1000) + b"begun")
    assert await reader.readexactly(12) == struct.pack(">BHL", BODY, 1, 1000) + b"begun"


async def test_what_was_cut_off_is_passed_on() -> None:
    reader = MendingReader()
    cut = struct.pack(">BHL", HEADER, 1, 1000) + b"begun"
    reader.feed_data(cut)
    reader.feed_eof()
    assert await reader.read() == cut


async def test_another_protocol_is_passed_on() -> None:
    reader = MendingReader()
    reader.feed_data(b"AMQP\0\0\x09\x01")
    assert await reader.readexactly(8) == b"AMQP\0\0\x09\x01"


OCTETS = st.binary(max_size=6) | st.sampled_from([b"T", b"T\0\0", b"2026-12-01T05:33", BAD])
TIMES = st.integers(0, 2**64 - 1) | st.sampled_from(
    [0, 1_700_000_000, 253_402_300_799_000, 253_402_300_799_001, 0xE6 << 40, 0xE5 << 40, 1 << 48]
)
VALUES = st.recursive(
    st.builds(lambda octets: b"S" + sized(octets), OCTETS)
    | st.builds(lambda number: b"l" + struct.pack(">Q", number), TIMES)
    | st.builds(lambda number: b"T" + struct.pack(">Q", number), TIMES)
    | st.sampled_from([b"V", b"t\1", b"bT"]),
    lambda inner: (
        st.builds(lambda values: b"A" + sized(b"".join(values)), st.lists(inner, max_size=3))
        | st.builds(
            lambda entries: b"F" + sized(b"".join(text(key) + value for key, value in entries)),
            st.lists(st.tuples(OCTETS, inner), max_size=3),
        )
    ),
    max_leaves=4,
)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    flags, octets = 0, b""
    for bit, what in mending.PROPERTIES:
        if draw(st.booleans()):
            flags |= bit
            if what is mending.TEXT:
                octets += text(draw(OCTETS))
            elif what is mending.TIME:
                octets += struct.pack(">Q", draw(TIMES))
            elif what is mending.TABLE:
                entries = draw(st.lists(st.tuples(OCTETS, VALUES), max_size=4))
                octets += sized(b"".join(text(key) + value for key, value in entries))
            else:
                octets += b"\2"

    return header(flags, octets)


@given(headers())
def test_what_is_fine_at_a_glance_is_fine_when_walked_over(payload: bytes) -> None:
    flags = int.from_bytes(payload[12:14])
    walk = mending._Walk(payload, 14)
    walk.over(mending._parts_of(flags))
    assert mended(HEADER, payload) == walk.data


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(header(0x0040, struct.pack(">Q", 0x6A2DFFFE)), id="a-time-alone"),
        pytest.param(entry(b"S" + sized(b"2026-12-01T05:33")), id="a-time-as-text"),
        pytest.param(entry(b"T" + struct.pack(">Q", 0x6A2D7F7E)), id="a-time-in-headers"),
        pytest.param(
            header(0x2040, sized(text(b"k") + b"I\0\0\0\1") + struct.pack(">Q", 0xFFFFFFFF)),
            id="both",
        ),
    ],
)
def test_what_is_usual_is_not_walked_over(payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "_Walk", None)
    assert mended(HEADER, payload) is payload
