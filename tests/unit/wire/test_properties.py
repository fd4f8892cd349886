"""Message properties: what parsing notes and refuses (rule F-18), and edits (rule P-30)."""

from __future__ import annotations

import struct

import pytest

from broker.errors import AMQPConnectionError, PreconditionFailed
from broker.limits import TABLE_BYTES_MAX, TABLE_DEPTH_MAX
from broker.wire.properties import (
    PropertiesError,
    parse_properties,
    set_headers,
    with_headers,
    with_reply_to,
    without_expiration,
    without_header,
)
from broker.wire.tables import Arguments, Field, TableError, encode_table

NAMES = [
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
]


def short(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return bytes([len(raw)]) + raw


def long(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def make(**values: object) -> bytes:
    """Encode properties; bytes are the value as it stands."""
    flags = 0
    parts = []
    for place, name in enumerate(NAMES):
        if name not in values:
            continue

        value = values[name]
        flags |= 0x8000 >> place
        if isinstance(value, bytes):
            parts.append(value)
        elif isinstance(value, dict):
            parts.append(encode_table(value))
        elif isinstance(value, int):
            parts.append(struct.pack(">Q" if name == "timestamp" else ">B", value))
        else:
            parts.append(short(str(value)))

    return struct.pack(">H", flags) + b"".join(parts)


def with_table(body: bytes) -> bytes:
    return b"\x20\x00" + long(body)


CC = Field("A", [Field("S", "a"), Field("l", 5), Field("S", "b")])
EVERYTHING = {
    "content_type": "application/json",
    "content_encoding": "",
    "headers": {"k": Field("I", 5), "CC": CC},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c",
    "reply_to": "r\udcff",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 2**64 - 1,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "z",
}


def test_every_property_is_noted() -> None:
    raw = make(**EVERYTHING)

    properties = parse_properties(raw)

    assert properties.raw is raw
    assert not properties.is_cleaned
    assert properties.flags == 0xFFFC
    assert properties.delivery_mode == 2
    assert properties.is_persistent
    assert properties.priority == 9
    assert properties.reply_to == "r\udcff"
    assert properties.expiration == "60000"
    assert properties.user_id == "guest"
    assert properties.has_cc
    assert not properties.has_bcc
    table = raw[properties.headers_start : properties.headers_end]
    assert long(table) == encode_table({"k": Field("I", 5), "CC": CC})
    assert properties.to_plain() == EVERYTHING | {"headers": {"k": 5, "CC": ["a", 5, "b"]}}


def test_no_property_is_noted() -> None:
    properties = parse_properties(b"\x00\x00")

    assert properties.flags == 0
    assert properties.delivery_mode == 0
    assert not properties.is_persistent
    assert properties.priority == -1
    assert properties.reply_to is None
    assert properties.expiration is None
    assert properties.user_id is None
    assert (properties.headers_start, properties.headers_end) == (-1, -1)
    assert properties.headers() == {}
    assert properties.cc_keys() == properties.bcc_keys() == []
    assert properties.to_plain() == {}


@pytest.mark.parametrize("name", NAMES)
def test_property_is_found_alone(name: str) -> None:
    value = EVERYTHING[name]
    plain = parse_properties(make(**{name: value})).to_plain()

    assert plain == {name: {"k": 5, "CC": ["a", 5, "b"]} if name == "headers" else value}


@pytest.mark.parametrize("name", ["reply_to", "expiration", "user_id"])
def test_empty_property_is_present(name: str) -> None:
    """Rules P-10, X-04."""
    properties = parse_properties(make(**{name: ""}))

    assert getattr(properties, name) == ""
    assert properties.to_plain() == {name: ""}


@pytest.mark.parametrize(("mode", "is_persistent"), [(0, False), (1, False), (2, True), (3, False)])
def test_only_delivery_mode_2_is_persistent(mode: int, is_persistent: bool) -> None:
    """Rule P-31."""
    properties = parse_properties(make(delivery_mode=mode))

    assert properties.delivery_mode == mode
    assert properties.is_persistent is is_persistent


def test_text_that_is_no_utf8_is_passed_on() -> None:
    """Rule F-18."""
    raw = make(content_type="\udcff", user_id="\udcc3")

    properties = parse_properties(raw)

    assert properties.raw == raw
    assert properties.user_id == "\udcc3"


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_meaningless_flag_bits_are_ignored_and_not_sent_on(bits: int) -> None:
    """Rule F-18 [4.3]: no second word of flags follows bit 0."""
    raw = make(delivery_mode=2, priority=4)
    marked = raw[:1] + bytes([raw[1] | bits]) + raw[2:]

    properties = parse_properties(marked)

    assert properties.raw == raw
    assert properties.is_cleaned
    assert properties.flags == 0x1800
    assert properties.priority == 4


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00", id="half-the-flags"),
        pytest.param(b"\x00\x00\x00", id="left-over"),
        pytest.param(make(delivery_mode=2) + b"\x00", id="left-over-behind-a-value"),
        pytest.param(b"\x10\x01\x00\x00\x02", id="second-word-of-flags"),
        pytest.param(b"\x20\x00\x00\x00\x00", id="table-length-cut"),
        pytest.param(b"\x20\x00\x00\x00\x00\x01", id="table-cut"),
        pytest.param(b"\x20\x00\xff\xff\xff\xff", id="table-of-4-gib"),
        pytest.param(with_table(b"\x01k"), id="no-letter"),
        pytest.param(with_table(b"\x05kV"), id="key-cut"),
        pytest.param(with_table(b"\x01kZ"), id="unknown-letter"),
        pytest.param(with_table(b"\x01k\x00"), id="nul-is-no-void"),
        pytest.param(with_table(b"\x01kI\x00\x00\x00"), id="integer-cut"),
        pytest.param(with_table(b"\x01kt"), id="bool-cut"),
        pytest.param(with_table(b"\x01kS\x00\x00\x00"), id="string-length-cut"),
        pytest.param(with_table(b"\x01kS\x00\x00\x00\x02a"), id="string-cut"),
        pytest.param(with_table(b"\x01kA\x00\x00\x00\x01I"), id="value-past-its-array"),
        pytest.param(with_table(b"\x01kF\x00\x00\x00\x02\x01jV"), id="entry-past-its-table"),
        pytest.param(with_table(b"\x01kF" + long(b"\x01j")), id="no-letter-within"),
        pytest.param(with_table(b"\x01kA" + long(b"Z")), id="unknown-letter-within"),
        pytest.param(with_table(b"\x01kd" + struct.pack(">d", float("nan"))), id="double-nan"),
        pytest.param(with_table(b"\x01kd" + struct.pack(">d", float("-inf"))), id="double-inf"),
        pytest.param(with_table(b"\x01kf" + struct.pack(">f", float("nan"))), id="float-nan"),
        pytest.param(with_table(b"\x01kf" + struct.pack(">f", float("inf"))), id="float-inf"),
        pytest.param(
            with_table(b"\x01kA" + long(b"d" + struct.pack(">d", float("inf")))), id="inf-within"
        ),
    ],
)
def test_bad_list_is_an_internal_error_that_tells_only_the_log(raw: bytes) -> None:
    """Rules F-18, T-04."""
    with pytest.raises(PropertiesError) as caught:
        parse_properties(raw)

    assert isinstance(caught.value, AMQPConnectionError)
    assert caught.value.code == 541
    assert caught.value.reply_text == "INTERNAL_ERROR"
    assert (caught.value.class_id, caught.value.method_id) == (0, 0)
    assert str(caught.value).startswith("cannot decode message properties: ")


def test_list_cut_anywhere_is_refused() -> None:
    raw = make(**EVERYTHING)

    for cut in range(len(raw)):
        with pytest.raises(PropertiesError):
            parse_properties(raw[:cut])


@pytest.mark.parametrize("value", [3.4e38, -3.4e38, 1e-45, 0.0])
def test_large_and_small_floats_are_finite(value: float) -> None:
    raw = make(headers={"f": Field("f", value), "d": Field("d", value * 1e200)})

    assert parse_properties(raw).headers()["d"] == Field("d", value * 1e200)


def test_nesting_and_size_are_bounded_as_for_tables() -> None:
    field = Field("V", None)
    for level in range(TABLE_DEPTH_MAX - 1):
        field = Field("A", [field]) if level % 2 else Field("F", {"k": field})

    assert parse_properties(make(headers={"k": field})).headers() == {"k": field}
    with pytest.raises(TableError, match="nested deeper"):
        parse_properties(make(headers={"k": Field("A", [field])}))

    with pytest.raises(TableError, match="larger than"):
        parse_properties(with_table(bytes(TABLE_BYTES_MAX + 1)))


def test_headers_are_decoded_once() -> None:
    properties = parse_properties(make(headers={"k": Field("I", 5)}))

    assert properties.headers() == {"k": Field("I", 5)}
    assert properties.headers() is properties.headers()


@pytest.mark.parametrize(
    ("headers", "has_cc", "has_bcc"),
    [
        pytest.param({"CC": CC}, True, False, id="cc"),
        pytest.param({"BCC": CC}, False, True, id="bcc"),
        pytest.param({"a": CC, "BCC": CC, "CC": CC}, True, True, id="both"),
        pytest.param({"cc": CC, "Cc": CC, "bcc": CC, "XCC": CC, "BCD": CC}, False, False, id="not"),
        pytest.param({"k": Field("F", {"CC": CC, "BCC": CC})}, False, False, id="within"),
    ],
)
def test_copies_are_noticed_at_the_top_alone(
    headers: Arguments, has_cc: bool, has_bcc: bool
) -> None:
    properties = parse_properties(make(headers=headers))

    assert (properties.has_cc, properties.has_bcc) == (has_cc, has_bcc)
    assert properties.cc_keys() == (["a", "b"] if has_cc else [])
    assert properties.bcc_keys() == (["a", "b"] if has_bcc else [])


@pytest.mark.parametrize(
    ("field", "type_name"),
    [
        pytest.param(Field("I", 5), "signedint", id="integer"),
        pytest.param(Field("S", "a"), "longstr", id="text"),
        pytest.param(Field("F", {}), "table", id="table"),
        pytest.param(Field("V", None), "void", id="void"),
    ],
)
def test_copies_that_are_no_array_are_refused(field: Field, type_name: str) -> None:
    """Rule P-08."""
    properties = parse_properties(make(headers={"CC": field, "BCC": field}))

    for keys, name in ((properties.cc_keys, "CC"), (properties.bcc_keys, "BCC")):
        with pytest.raises(PreconditionFailed) as caught:
            keys()

        assert caught.value.explanation == (
            f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name}}}'
        )


# A table no map could hold: order, a duplicate, a true that is 5. Edits must not tidy it.
ODD_ENTRIES = b"\x01zt\x05\x01aI\x00\x00\x00\x01\x01zV"
ODD = make(**EVERYTHING | {"headers": long(ODD_ENTRIES)})


def odd_with(entries: bytes) -> bytes:
    return make(**EVERYTHING | {"headers": long(entries)})


def without(name: str) -> bytes:
    return make(**{key: value for key, value in EVERYTHING.items() if key != name})


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        pytest.param(with_headers(ODD, b"\x01kV"), odd_with(b"\x01kV"), id="headers-replaced"),
        pytest.param(with_headers(ODD, b""), odd_with(b""), id="headers-emptied"),
        pytest.param(with_headers(ODD, None), without("headers"), id="headers-removed"),
        pytest.param(
            with_headers(without("headers"), ODD_ENTRIES), ODD, id="headers-added-in-their-place"
        ),
        pytest.param(with_headers(b"\x00\x00", None), b"\x00\x00", id="headers-never-there"),
        pytest.param(
            without_expiration(ODD),
            make(
                **{key: value for key, value in EVERYTHING.items() if key != "expiration"}
                | {"headers": long(ODD_ENTRIES)}
            ),
            id="expiration-removed",
        ),
        pytest.param(without_expiration(b"\x00\x00"), b"\x00\x00", id="expiration-never-there"),
        pytest.param(
            with_reply_to(ODD, "amq.x"),
            make(**EVERYTHING | {"headers": long(ODD_ENTRIES), "reply_to": "amq.x"}),
            id="reply-to-replaced",
        ),
        pytest.param(
            with_reply_to(without("reply_to"), "r\udcff"),
            make(**EVERYTHING),
            id="reply-to-added-in-its-place",
        ),
        pytest.param(
            without_header(ODD, "a"), odd_with(b"\x01zt\x05\x01zV"), id="one-header-removed"
        ),
        pytest.param(
            without_header(ODD, "z"), odd_with(b"\x01aI\x00\x00\x00\x01"), id="both-of-a-name"
        ),
        pytest.param(without_header(ODD, "none"), ODD, id="header-never-there"),
        pytest.param(without_header(b"\x00\x00", "BCC"), b"\x00\x00", id="no-table-to-empty"),
        pytest.param(
            set_headers(ODD, {"a": Field("S", "x")}),
            odd_with(b"\x01zt\x05\x01aS\x00\x00\x00\x01x\x01zV"),
            id="header-replaced-in-its-place",
        ),
        pytest.param(
            set_headers(ODD, {"z": Field("V", None)}),
            odd_with(b"\x01zV\x01aI\x00\x00\x00\x01"),
            id="nothing-of-that-name-remains-behind",
        ),
        pytest.param(
            set_headers(ODD, {"n": Field("V", None), "m": Field("b", 1)}),
            odd_with(ODD_ENTRIES + b"\x01nV\x01mb\x01"),
            id="headers-appended-in-order",
        ),
        pytest.param(
            set_headers(make(priority=1), {"n": Field("V", None)}),
            make(headers={"n": Field("V", None)}, priority=1),
            id="table-made-for-the-first-header",
        ),
        pytest.param(set_headers(b"\x00\x00", {}), b"\x00\x00", id="nothing-to-set"),
    ],
)
def test_edit_leaves_all_else_as_it_came(edited: bytes, expected: bytes) -> None:
    assert edited == expected
    parse_properties(edited)


def test_table_that_held_only_bcc_stays_and_is_empty() -> None:
    """Rule P-41."""
    edited = without_header(make(headers={"BCC": CC}, priority=3), "BCC")

    assert edited == make(headers={}, priority=3)
    assert not parse_properties(edited).has_bcc


def test_texts_too_long_for_a_short_string_are_refused() -> None:
    assert parse_properties(with_reply_to(b"\x00\x00", "r" * 255)).reply_to == "r" * 255
    with pytest.raises(ValueError, match="longer than 255"):
        with_reply_to(b"\x00\x00", "é" * 128)

    with pytest.raises(ValueError, match="longer than 255"):
        set_headers(b"\x00\x00", {"é" * 128: Field("V", None)})
