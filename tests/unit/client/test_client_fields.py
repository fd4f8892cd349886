"""Headers as AMQP writes them; what cannot be written is refused by name."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, cast

import pytest

from broker.client import wire
from broker.client.errors import InvalidValue, MessageTooLarge
from broker.client.fields import DEPTH_MAX, entries_of, joined
from tests.helpers.untyped import pamqp

ROOM = 4000


def read(table: bytes) -> Any:
    size, found = pamqp.decode.field_table(table)
    assert size == len(table)
    return found


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        pytest.param(True, True, id="true"),
        pytest.param(0, 0, id="zero"),
        pytest.param(-(2**63), -(2**63), id="64-bits"),
        pytest.param(2**63 - 1, 2**63 - 1, id="63-bits"),
        pytest.param(2**31, 2**31, id="more-than-31-bits"),
        pytest.param(19.99, 19.99, id="float-in-full-precision"),
        pytest.param(1e300, 1e300, id="large-float"),
        pytest.param("h\u00e4re", "h\u00e4re", id="text"),
        pytest.param(b"\xff\x00", b"\xff\x00", id="bytes"),
        pytest.param(memoryview(b"ab"), b"ab", id="view-of-bytes"),
        pytest.param(None, None, id="nothing"),
        pytest.param(Decimal("1.25"), Decimal("1.25"), id="decimal"),
        pytest.param(Decimal("12E2"), Decimal(1200), id="decimal-without-point"),
        pytest.param(
            datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2030, 1, 1, tzinfo=UTC),
            id="moment",
        ),
        pytest.param([1, ("a", {"b": None})], [1, ["a", {"b": None}]], id="nested"),
        pytest.param({}, {}, id="empty-table"),
    ],
)
def test_what_is_sent_arrives(value: object, arrives: object) -> None:
    assert read(joined(entries_of("header", {"name": value}))) == {"name": arrives}


def test_a_name_may_be_as_long_as_a_brokers() -> None:
    assert read(joined(entries_of("header", {"a" * 255: 1}))) == {"a" * 255: 1}


def nested(depth: int) -> dict[str, object]:
    table: dict[str, object] = {}
    for _ in range(depth):
        table = {"inner": table}

    return table


ENDLESS: dict[str, object] = {}
ENDLESS["again"] = ENDLESS


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        pytest.param({"a": float("nan")}, "the header 'a' .* nan", id="nan"),
        pytest.param({"a": float("-inf")}, "the header 'a' .* -inf", id="infinity"),
        pytest.param({"a": 2**63}, "the header 'a' .* 64 bits", id="too-many-bits"),
        pytest.param({"a": object()}, "the header 'a' .* no type for object", id="object"),
        pytest.param({"a": date(2030, 1, 1)}, "the header 'a' .* no type for date", id="date"),
        pytest.param({"a": "\ud800"}, "the header 'a' .* UTF-8", id="surrogate"),
        pytest.param({"a": datetime(1969, 1, 1, tzinfo=UTC)}, "before 1970", id="before-1970"),
        pytest.param({"a": Decimal("0.12345678901")}, "decimal", id="decimal-of-many-digits"),
        pytest.param({"a": Decimal("1e999999999")}, "decimal", id="huge-decimal"),
        pytest.param({"a": Decimal("-1")}, "decimal", id="negative-decimal"),
        pytest.param({"a": Decimal("NaN")}, "decimal", id="decimal-nan"),
        pytest.param({"a": [{"b": {1, 2}}]}, "the header 'a', 'b' .* set", id="where-in-a-table"),
        pytest.param({"a" * 256: 1}, "the name of the header 'aaa.* is 256", id="long-name"),
        pytest.param({"\u00e9" * 128: 1}, "is 256", id="long-in-bytes"),
        pytest.param({1: 1}, "the name of the header 1 is to be a text", id="no-text"),
        pytest.param({"a": nested(DEPTH_MAX + 1)}, "tables in each other", id="deep"),
        pytest.param(ENDLESS, "tables in each other", id="endless"),
        pytest.param([1], "headers are to be a mapping", id="no-mapping"),
    ],
)
def test_what_cannot_be_sent_is_refused(headers: Any, text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        entries_of("header", headers)


def properties(**headers: object) -> wire.Properties:
    return wire.Properties(headers=cast("Any", entries_of("header", headers)), message_id="m-1")


def unpacked(octets: bytes) -> Any:
    head = pamqp.header.ContentHeader()
    head.unmarshal(b"\x00\x3c\x00\x00" + bytes(8) + octets)
    return head.properties


def test_properties_are_as_the_library_reads_them() -> None:
    given = wire.Properties(
        content_type="text/plain",
        headers=cast("Any", entries_of("header", {"price": 0.1})),
        delivery_mode=2,
        priority=3,
        message_id="m-1",
        timestamp=datetime(2030, 1, 1, tzinfo=UTC),
        app_id="shop",
    )
    packed = wire.packed(given, ROOM)
    found = unpacked(packed.marshal())

    assert packed.message_id == "m-1"
    assert (found.content_type, found.delivery_mode, found.priority) == ("text/plain", 2, 3)
    assert (found.headers, found.message_id, found.app_id) == ({"price": 0.1}, "m-1", "shop")


def test_errors_are_cut_to_what_there_is_room_for() -> None:
    traceback, error = "t" * 3000 + "the end", "\u00e4" * 3000 + "what happened"
    given = properties(**{"shop": "north", wire.TRACEBACK: traceback, wire.ERROR: error})
    octets = wire.packed(given, ROOM).marshal()
    found = unpacked(octets).headers

    assert len(octets) <= ROOM
    assert found["shop"] == "north"
    assert wire.TRACEBACK not in found, "what happened matters more"
    assert found[wire.ERROR].startswith("...\u00e4")
    assert found[wire.ERROR].endswith("what happened")


def test_a_traceback_keeps_its_end() -> None:
    given = properties(**{wire.TRACEBACK: "t" * 5000 + "the end", wire.ERROR: "short"})
    octets = wire.packed(given, ROOM).marshal()
    found = unpacked(octets).headers

    assert len(octets) == ROOM
    assert found[wire.TRACEBACK].endswith("the end")
    assert found[wire.ERROR] == "short"


def test_headers_of_the_sender_are_not_cut() -> None:
    with pytest.raises(MessageTooLarge, match=f"takes {ROOM}"):
        wire.packed(properties(**{"shop": "n" * ROOM, wire.ERROR: "short"}), ROOM)
