"""Properties and tables against slow references and against pamqp, on whatever bytes there are."""

from __future__ import annotations

import contextlib
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pamqp import commands

from broker.errors import CommandInvalid, FrameError
from broker.wire import constants, methods
from broker.wire.codec import decode_method
from broker.wire.properties import (
    PropertiesError,
    parse_properties,
    set_headers,
    with_headers,
    with_reply_to,
    without_expiration,
    without_header,
)
from broker.wire.tables import (
    Arguments,
    Field,
    TableError,
    decode_table,
    encode_table,
    fields_equal_for_headers,
    fields_equivalent,
)

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
WIDTHS = {"delivery_mode": 1, "priority": 1, "timestamp": 8}

INTEGERS = {
    "b": (-(2**7), 2**7 - 1),
    "B": (0, 2**8 - 1),
    "s": (-(2**15), 2**15 - 1),
    "u": (0, 2**16 - 1),
    "I": (-(2**31), 2**31 - 1),
    "i": (0, 2**32 - 1),
    "l": (-(2**63), 2**63 - 1),
    "L": (-(2**63), 2**63 - 1),
    "T": (0, 2**64 - 1),
}

texts = st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
keys = st.one_of(st.sampled_from(["CC", "BCC", "a", "x-death", ""]), texts)
doubles = st.floats(allow_nan=False, allow_infinity=False)
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def integers_of(kind: str) -> st.SearchStrategy[Field]:
    low, high = INTEGERS[kind]
    return st.integers(low, high).map(lambda number: Field(kind, number))


scalars = st.one_of(
    st.sampled_from(sorted(INTEGERS)).flatmap(integers_of),
    st.booleans().map(lambda value: Field("t", value)),
    texts.map(lambda text: Field("S", text)),
    st.binary(max_size=12).map(lambda raw: Field("x", raw)),
    doubles.map(lambda value: Field("d", value)),
    floats.map(lambda value: Field("f", value)),
    st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1)).map(
        lambda pair: Field("D", Decimal(f"{pair[1]}E-{pair[0]}"))
    ),
    st.just(Field("V", None)),
)
fields = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: Field("A", items)),
        st.dictionaries(keys, inner, max_size=4).map(lambda table: Field("F", table)),
    ),
    max_leaves=8,
)
tables = st.dictionaries(keys, fields, max_size=5)

# Bytes that are nearly a table: entries with the odds and ends that a map cannot hold, then bent.
LETTERS = b"tbBsuIilLfdDSxTFAVZ\x00"


def bend(raw: bytes, where: int, octet: int) -> bytes:
    if not raw:
        return raw

    place = where % len(raw)
    return raw[:place] + bytes([octet]) + raw[place + 1 :]


entry_lists = st.lists(tables, max_size=3).map(
    lambda parts: b"".join(encode_table(part)[4:] for part in parts)
)
bent_bodies = st.one_of(
    entry_lists,
    st.builds(bend, entry_lists, st.integers(0, 200), st.integers(0, 255)),
    st.builds(bend, entry_lists, st.integers(0, 200), st.sampled_from(list(LETTERS))),
    st.binary(max_size=40),
)
property_values = st.fixed_dictionaries(
    {},
    optional={
        name: (
            st.binary(min_size=WIDTHS[name], max_size=WIDTHS[name])
            if name in WIDTHS
            else bent_bodies.map(lambda body: struct.pack(">I", len(body)) + body)
            if name == "headers"
            else st.binary(max_size=20).map(lambda raw: bytes([len(raw)]) + raw)
        )
        for name in NAMES
    },
)


def join(values: dict[str, bytes]) -> bytes:
    flags = sum(0x8000 >> NAMES.index(name) for name in values)
    return struct.pack(">H", flags) + b"".join(values[name] for name in NAMES if name in values)


property_lists = property_values.map(join)
bent_lists = st.one_of(
    property_lists,
    st.builds(bend, property_lists, st.integers(0, 200), st.integers(0, 255)),
    st.builds(lambda raw, cut: raw[:cut], property_lists, st.integers(0, 100)),
    st.builds(lambda raw, more: raw + more, property_lists, st.binary(max_size=3)),
    st.binary(max_size=40),
)


class Refused(Exception):
    """The reference does not accept it."""


def take(raw: bytes, count: int) -> tuple[bytes, bytes]:
    if len(raw) < count:
        raise Refused

    return raw[:count], raw[count:]


def read_value(raw: bytes) -> bytes:
    """Read one letter and value the slow way; return what follows."""
    letter, raw = take(raw, 1)
    sizes = {1: b"tbB", 2: b"su", 4: b"Iif", 5: b"D", 8: b"lLdT", 0: b"V"}
    for size, letters in sizes.items():
        if letter in letters:
            value, raw = take(raw, size)
            if letter in b"fd" and not math.isfinite(
                struct.unpack(f">{letter.decode()}", value)[0]
            ):
                raise Refused

            return raw

    if letter not in b"SxFA":
        raise Refused

    length, raw = take(raw, 4)
    inner, raw = take(raw, int.from_bytes(length, "big"))
    if letter == b"F":
        read_entries(inner)

    while letter == b"A" and inner:
        inner = read_value(inner)

    return raw


def read_entries(body: bytes) -> list[tuple[bytes, bytes]]:
    """Read a table's entries: each one's key, and all its bytes."""
    entries = []
    while body:
        length, rest = take(body, 1)
        key, rest = take(rest, length[0])
        rest = read_value(rest)
        entries.append((key, body[: len(body) - len(rest)]))
        body = rest

    return entries


def read_properties(raw: bytes) -> dict[str, bytes]:
    """Read a property list the slow way: each property and its bytes."""
    flags, rest = take(raw, 2)
    values = {}
    for place, name in enumerate(NAMES):
        if not int.from_bytes(flags, "big") & (0x8000 >> place):
            continue

        if name in WIDTHS:
            size = WIDTHS[name]
        elif name == "headers":
            size = 4 + int.from_bytes(take(rest, 4)[0], "big")
        else:
            size = 1 + take(rest, 1)[0][0]

        values[name], rest = take(rest, size)
        if name == "headers":
            read_entries(values[name][4:])

    if rest:
        raise Refused

    return values


@given(raw=bent_lists)
@example(raw=b"\x20\x00\x00\x00\x00\x02\x00V")
@example(raw=b"\xff\xff")
def test_parsing_accepts_what_the_slow_reference_accepts(raw: bytes) -> None:
    try:
        values = read_properties(raw)
    except Refused:
        with pytest.raises(PropertiesError):
            parse_properties(raw)

        return

    properties = parse_properties(raw)
    assert properties.raw == join(values)
    assert properties.is_cleaned == (properties.raw != raw)
    assert properties.delivery_mode == int.from_bytes(values.get("delivery_mode", b"\x00"), "big")
    assert properties.priority == (values["priority"][0] if "priority" in values else -1)
    for name in ("reply_to", "expiration", "user_id"):
        found = getattr(properties, name)
        if name in values:
            assert found.encode("utf-8", "surrogateescape") == values[name][1:]
        else:
            assert found is None

    entries = read_entries(values.get("headers", b"")[4:])
    assert properties.has_cc == any(key == b"CC" for key, _ in entries)
    assert properties.has_bcc == any(key == b"BCC" for key, _ in entries)
    assert (properties.headers_start >= 0) == ("headers" in values)
    assert set(properties.to_plain()) == set(values)
    named = [key.encode("utf-8", "surrogateescape") for key in properties.headers()]
    assert named == list(dict.fromkeys(key for key, _ in entries))


@given(body=bent_bodies)
def test_table_decodes_exactly_when_it_may_stand_in_properties(body: bytes) -> None:
    try:
        read_entries(body)
    except Refused:
        with pytest.raises(TableError):
            decode_table(body, 0, len(body))
    else:
        decode_table(body, 0, len(body))


@given(table=tables)
def test_table_comes_back_as_it_was(table: Arguments) -> None:
    raw = encode_table(table)
    back = decode_table(b"#" + raw, 5, 1 + len(raw))

    assert back == table
    assert list(back) == list(table)
    assert encode_table(back) == raw


@given(field=fields)
def test_field_equals_itself(field: Field) -> None:
    assert fields_equal_for_headers(field, field)
    assert fields_equivalent(field, field)


@given(a=fields, b=fields)
def test_equality_has_no_direction_and_equivalence_is_the_stricter(a: Field, b: Field) -> None:
    assert fields_equal_for_headers(a, b) == fields_equal_for_headers(b, a)
    assert fields_equivalent(a, b) == fields_equivalent(b, a)
    if fields_equivalent(a, b):
        assert fields_equal_for_headers(a, b)


def edit_and_read(raw: bytes, edited: bytes) -> tuple[dict[str, bytes], dict[str, bytes]]:
    parse_properties(edited)
    return read_properties(raw), read_properties(edited)


def without_key(values: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {key: value for key, value in values.items() if key != name}


good_lists = property_values.map(
    lambda values: join({key: value for key, value in values.items() if key != "headers"})
)
lists_with_headers = st.one_of(good_lists, st.builds(with_headers, good_lists, entry_lists))


@given(raw=lists_with_headers, text=texts)
def test_reply_to_and_expiration_are_edited_alone(raw: bytes, text: str) -> None:
    before, after = edit_and_read(raw, with_reply_to(raw, text))
    assert without_key(before, "reply_to") == without_key(after, "reply_to")
    assert after["reply_to"][1:] == text.encode("utf-8", "surrogateescape")

    before, after = edit_and_read(raw, without_expiration(raw))
    assert after == without_key(before, "expiration")


@given(raw=lists_with_headers, body=st.one_of(st.none(), entry_lists))
def test_headers_are_edited_alone(raw: bytes, body: bytes | None) -> None:
    before, after = edit_and_read(raw, with_headers(raw, body))

    assert without_key(before, "headers") == without_key(after, "headers")
    assert after.get("headers") == (None if body is None else struct.pack(">I", len(body)) + body)


@given(raw=lists_with_headers, changes=tables)
def test_other_headers_keep_their_bytes_when_some_are_set(raw: bytes, changes: Arguments) -> None:
    before, after = edit_and_read(raw, set_headers(raw, changes))

    assert without_key(before, "headers") == without_key(after, "headers")
    changed = {key.encode("utf-8", "surrogateescape") for key in changes}
    old = read_entries(before.get("headers", b"")[4:])
    new = read_entries(after.get("headers", b"")[4:])
    assert [entry for entry in new if entry[0] not in changed] == [
        entry for entry in old if entry[0] not in changed
    ]
    assert sorted(key for key, _ in new if key in changed) == sorted(changed)
    headers = parse_properties(join(after)).headers()
    assert {key: headers[key] for key in changes} == changes


@given(raw=lists_with_headers, key=keys)
def test_other_headers_keep_their_bytes_when_one_is_removed(raw: bytes, key: str) -> None:
    before, after = edit_and_read(raw, without_header(raw, key))

    assert before.keys() == after.keys()
    assert without_key(before, "headers") == without_key(after, "headers")
    removed = key.encode("utf-8", "surrogateescape")
    old = read_entries(before.get("headers", b"")[4:])
    assert read_entries(after.get("headers", b"")[4:]) == [
        entry for entry in old if entry[0] != removed
    ]


plain_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


# pamqp raises for small negative numbers: it packs a signed octet as an unsigned one.
pamqp_integers = st.integers(-(2**63), 2**63 - 1).filter(lambda number: not -128 <= number < 0)


@given(
    values=st.fixed_dictionaries(
        {},
        optional={
            "content_type": plain_texts,
            "content_encoding": plain_texts,
            "delivery_mode": st.sampled_from([1, 2]),
            "priority": st.integers(0, 255),
            "correlation_id": plain_texts,
            "reply_to": plain_texts,
            "expiration": plain_texts,
            "message_id": plain_texts,
            "message_type": plain_texts,
            "user_id": plain_texts,
            "app_id": plain_texts,
            "headers": st.dictionaries(
                plain_texts,
                st.one_of(plain_texts, pamqp_integers, st.booleans(), floats),
                max_size=4,
            ),
        },
    )
)
def test_what_pamqp_writes_reads_the_same(values: dict[str, object]) -> None:
    written = commands.Basic.Properties()
    for name, value in values.items():
        setattr(written, name, value)

    found = parse_properties(written.marshal()).to_plain()

    # pamqp takes an empty text for an absent property, and writes every float with 32 bits.
    expected = {name: value for name, value in values.items() if value != ""}
    if "message_type" in expected:
        expected["type"] = expected.pop("message_type")

    assert found == expected


@given(
    index=st.sampled_from([*sorted(constants.METHOD_NAMES), 0, 0xFFFFFFFF]),
    arguments=st.one_of(
        st.binary(max_size=60),
        bent_bodies.map(lambda body: b"\x00\x00\x01q\x00" + struct.pack(">I", len(body)) + body),
    ),
)
def test_decoding_a_method_returns_or_raises_a_broker_error(index: int, arguments: bytes) -> None:
    with contextlib.suppress(FrameError, CommandInvalid):
        decode_method(index, struct.pack(">I", index) + arguments)


names = st.text(st.characters(codec="utf-8"), max_size=40)
bits = st.booleans()


@given(queue=names, flags=st.tuples(bits, bits, bits, bits, bits), table=tables)
def test_method_decodes_as_pamqp_decodes_it(
    queue: str, flags: tuple[bool, bool, bool, bool, bool], table: Arguments
) -> None:
    raw = queue.encode()
    packed = sum(1 << place for place, flag in enumerate(flags) if flag)
    arguments = b"\x00\x00" + bytes([len(raw)]) + raw + bytes([packed])
    reference = commands.Queue.Declare()
    reference.unmarshal(arguments + bytes(4))

    ours = decode_method(
        constants.QUEUE_DECLARE,
        struct.pack(">I", constants.QUEUE_DECLARE) + arguments + encode_table(table),
    )

    assert ours == methods.QueueDeclare(
        queue=reference.queue,
        passive=reference.passive,
        durable=reference.durable,
        exclusive=reference.exclusive,
        auto_delete=reference.auto_delete,
        nowait=reference.nowait,
        arguments=table,
    )
