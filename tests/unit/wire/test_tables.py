"""Field tables: rules F-20 and F-21, bounds, plain values, and the two equalities."""

from __future__ import annotations

import re
import struct
from decimal import Decimal

import pytest

from broker.limits import TABLE_BYTES_MAX, TABLE_DEPTH_MAX
from broker.wire.tables import (
    TYPE_NAMES,
    Arguments,
    Field,
    TableError,
    decode_table,
    encode_field,
    encode_table,
    fields_equal_for_headers,
    fields_equivalent,
    table_from_plain,
    table_to_plain,
)


def entry(key: bytes, value: bytes) -> bytes:
    return bytes([len(key)]) + key + value


def decode(body: bytes) -> Arguments:
    return decode_table(body, 0, len(body))


def nested(levels: int, letter: str = "A") -> Field:
    """Return a field with ``levels`` tables or arrays inside one another."""
    field = Field("V", None)
    for _ in range(levels):
        field = Field("A", [field]) if letter == "A" else Field("F", {"k": field})

    return field


# Rule F-20, letter by letter: the bytes and what they mean.
LETTERS = [
    pytest.param(b"t\x01", Field("t", True), id="t-true"),
    pytest.param(b"t\x00", Field("t", False), id="t-false"),
    pytest.param(b"b\xff", Field("b", -1), id="b-signed-8"),
    pytest.param(b"b\x7f", Field("b", 127), id="b-largest"),
    pytest.param(b"B\xff", Field("B", 255), id="B-unsigned-8"),
    pytest.param(b"s\x80\x00", Field("s", -32768), id="s-signed-16-and-no-string"),
    pytest.param(b"u\xff\xff", Field("u", 65535), id="u-unsigned-16"),
    pytest.param(b"I\x80\x00\x00\x00", Field("I", -(2**31)), id="I-signed-32"),
    pytest.param(b"I\x00\x00\x01\x02", Field("I", 258), id="I-byte-order"),
    pytest.param(b"i\xff\xff\xff\xff", Field("i", 2**32 - 1), id="i-unsigned-32"),
    pytest.param(b"l\x80" + bytes(7), Field("l", -(2**63)), id="l-signed-64"),
    pytest.param(b"l\x7f" + b"\xff" * 7, Field("l", 2**63 - 1), id="l-largest"),
    pytest.param(b"L" + b"\xff" * 8, Field("L", -1), id="L-signed-64-too"),
    pytest.param(b"f" + struct.pack(">f", 1.5), Field("f", 1.5), id="f"),
    pytest.param(b"d" + struct.pack(">d", -2.25), Field("d", -2.25), id="d"),
    pytest.param(b"D\x02\x00\x00\x01\x3a", Field("D", Decimal("3.14")), id="D"),
    pytest.param(b"D\xff\xff\xff\xff\xff", Field("D", Decimal("4294967295E-255")), id="D-largest"),
    pytest.param(b"S\x00\x00\x00\x02hi", Field("S", "hi"), id="S"),
    pytest.param(b"S\x00\x00\x00\x02\xc3\xa9", Field("S", "é"), id="S-utf8"),
    pytest.param(b"S\x00\x00\x00\x01\xff", Field("S", "\udcff"), id="S-not-utf8"),
    pytest.param(b"S\x00\x00\x00\x00", Field("S", ""), id="S-empty"),
    pytest.param(b"x\x00\x00\x00\x02\x00\xff", Field("x", b"\x00\xff"), id="x"),
    pytest.param(b"T" + b"\xff" * 8, Field("T", 2**64 - 1), id="T-unsigned-64"),
    pytest.param(b"V", Field("V", None), id="V"),
    pytest.param(b"F\x00\x00\x00\x00", Field("F", {}), id="F-empty"),
    pytest.param(b"A\x00\x00\x00\x00", Field("A", []), id="A-empty"),
    pytest.param(b"F\x00\x00\x00\x03\x01kV", Field("F", {"k": Field("V", None)}), id="F"),
    pytest.param(
        b"A\x00\x00\x00\x03Vt\x01", Field("A", [Field("V", None), Field("t", True)]), id="A"
    ),
]


@pytest.mark.parametrize(("raw", "field"), LETTERS)
def test_letter_decodes_to_its_value_and_back(raw: bytes, field: Field) -> None:
    table = decode(entry(b"key", raw))

    assert table == {"key": field}
    assert type(table["key"].value) is type(field.value)
    assert encode_table(table) == struct.pack(">I", 4 + len(raw)) + entry(b"key", raw)
    assert encode_field(field) == raw


def test_every_letter_has_a_name_and_a_case_above() -> None:
    tried = {str(case.values[1].kind) for case in LETTERS if isinstance(case.values[1], Field)}

    assert tried == set(TYPE_NAMES)
    assert "".join(sorted(TYPE_NAMES)) == "ABDFILSTVbdfilstux"


def test_any_nonzero_octet_is_true() -> None:
    assert decode(b"\x01kt\x05") == {"k": Field("t", True)}


def test_first_of_duplicate_keys_wins() -> None:
    """Rule F-21."""
    assert decode(b"\x01kb\x01\x01jV\x01kb\x02") == {"k": Field("b", 1), "j": Field("V", None)}


def test_keys_keep_their_order_and_their_bytes() -> None:
    body = b"\x01zV\x00V\x01\xffV\x01aV"

    table = decode(body)

    assert list(table) == ["z", "", "\udcff", "a"]
    assert encode_table(table)[4:] == body


def test_decoding_keeps_to_its_bounds() -> None:
    assert decode_table(b"##\x01kb\x07##", 2, 6) == {"k": Field("b", 7)}
    assert decode_table(b"##", 1, 1) == {}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"\x01kZ", "unknown type letter 'Z'", id="unknown-letter"),
        pytest.param(b"\x01k\x00", r"unknown type letter '\x00'", id="nul-is-no-void"),
        pytest.param(b"\x01k", "cut short", id="no-letter"),
        pytest.param(b"\x02k", "cut short", id="key-cut"),
        pytest.param(b"\x01kI\x00\x00\x00", "cut short", id="integer-cut"),
        pytest.param(b"\x01kS\x00\x00\x00\x05hell", "cut short", id="string-cut"),
        pytest.param(b"\x01kS\xff\xff\xff\xff", "cut short", id="string-of-4-gib"),
        pytest.param(b"\x01kx\x00\x00\x00\x01", "cut short", id="binary-cut"),
        pytest.param(b"\x01kF\x00\x00\x00\x01", "cut short", id="inner-table-cut"),
        pytest.param(b"\x01kA\x00\x00\x00\x01b\x01", "cut short", id="value-past-its-array"),
        pytest.param(b"\x01kF\x00\x00\x00\x02\x01jV", "cut short", id="entry-past-its-table"),
        pytest.param(b"\x01kD\x00\x00\x00\x00", "cut short", id="decimal-cut"),
        pytest.param(
            b"\x01kd" + struct.pack(">d", float("nan")), "not a finite number", id="double-nan"
        ),
        pytest.param(
            b"\x01kf" + struct.pack(">f", float("-inf")), "not a finite number", id="float-inf"
        ),
    ],
)
def test_bad_table_is_refused_with_the_reason(body: bytes, text: str) -> None:
    with pytest.raises(TableError) as caught:
        decode(body)

    assert text in caught.value.explanation
    assert caught.value.code == 501


@pytest.mark.parametrize("letter", ["A", "F"])
def test_nesting_is_bounded(letter: str) -> None:
    deepest = encode_table({"k": nested(TABLE_DEPTH_MAX - 1, letter)})
    too_deep = encode_table({"k": nested(TABLE_DEPTH_MAX, letter)})

    assert decode_table(deepest, 4, len(deepest)) == {"k": nested(TABLE_DEPTH_MAX - 1, letter)}
    with pytest.raises(TableError, match="nested deeper"):
        decode_table(too_deep, 4, len(too_deep))


def test_hostile_nesting_does_not_overrun_the_stack() -> None:
    body = b""
    for _ in range(20_000):
        body = b"A" + struct.pack(">I", len(body)) + body

    with pytest.raises(TableError, match="nested deeper"):
        decode(b"\x01k" + body)


def test_size_is_bounded() -> None:
    with pytest.raises(TableError, match="larger than"):
        decode(bytes(TABLE_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(Field("b", 128), id="too-large"),
        pytest.param(Field("B", -1), id="negative"),
        pytest.param(Field("S", b"bytes"), id="bytes-for-text"),
        pytest.param(Field("I", "5"), id="text-for-a-number"),
        pytest.param(Field("t", 1), id="number-for-a-bool"),
        pytest.param(Field("V", 0), id="value-for-void"),
        pytest.param(Field("q", 1), id="unknown-letter"),
        pytest.param(Field("D", Decimal(-1)), id="negative-decimal"),
        pytest.param(Field("D", Decimal("1E+3")), id="decimal-with-a-positive-exponent"),
        pytest.param(Field("D", Decimal(2**32)), id="decimal-too-large"),
        pytest.param(Field("D", Decimal("NaN")), id="decimal-nan"),
    ],
)
def test_value_that_its_letter_cannot_hold_is_not_encoded(field: Field) -> None:
    with pytest.raises(ValueError, match=r"type|fit"):
        encode_table({"k": field})


def test_key_longer_than_a_short_string_is_not_encoded() -> None:
    assert len(encode_table({"k" * 255: Field("V", None)})) == 4 + 1 + 255 + 1
    with pytest.raises(ValueError, match="longer than 255"):
        encode_table({"é" * 128: Field("V", None)})


def test_plain_values_get_the_types_of_definitions() -> None:
    """Rule DE-11."""
    plain: dict[str, object] = {
        "int": 5,
        "float": 2.5,
        "str": "x",
        "bool": True,
        "dict": {"a": 1},
        "list": [1, "b"],
        "bytes": b"\xff",
    }

    table = table_from_plain(plain)

    assert table == {
        "int": Field("l", 5),
        "float": Field("d", 2.5),
        "str": Field("S", "x"),
        "bool": Field("t", True),
        "dict": Field("F", {"a": Field("l", 1)}),
        "list": Field("A", [Field("l", 1), Field("S", "b")]),
        "bytes": Field("x", b"\xff"),
    }
    assert type(table["bool"].value) is bool
    assert table_to_plain(table) == plain


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        pytest.param({"k": None}, "'k': null", id="null"),
        pytest.param({"a": [1, {"b": None}]}, "'a[1].b': null", id="null-within"),
        pytest.param({"k": 2**63}, "'k': 9223372036854775808 does not fit 64 bits", id="large"),
        pytest.param({"k": float("inf")}, "'k': inf", id="infinity"),
        pytest.param({"k": object()}, "'k': a object", id="no-value"),
        pytest.param({"k" * 256: 1}, "longer than 255", id="long-name"),
    ],
)
def test_plain_value_no_field_can_hold_is_refused_by_its_key(
    plain: dict[str, object], text: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        table_from_plain(plain)


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_plain_nesting_is_bounded(kind: str) -> None:
    value: object = 1
    for _ in range(TABLE_DEPTH_MAX - 1):
        value = {"k": value} if kind == "dict" else [value]

    encoded = encode_table(table_from_plain({"k": value}))
    assert decode_table(encoded, 4, len(encoded)) == table_from_plain({"k": value})
    with pytest.raises(ValueError, match="nested deeper"):
        table_from_plain({"k": [value]})


ONE = Field("l", 1)
TWO = Field("l", 2)

# Asked of RabbitMQ 4.3 with a headers exchange; its two accidents with timestamps (rule E-96) and
# with the order of entries in a nested table are not among them.
HEADER_PAIRS = [
    pytest.param(Field("I", 5), Field("l", 5), True, id="integers-of-any-width"),
    pytest.param(Field("b", 5), Field("i", 6), False, id="different-integers"),
    pytest.param(Field("d", 5.0), Field("l", 5), False, id="integer-never-equals-float"),
    pytest.param(Field("f", 1.5), Field("d", 1.5), True, id="float-and-double"),
    pytest.param(Field("t", True), Field("l", 1), False, id="bool-is-no-integer"),
    pytest.param(Field("t", True), Field("t", True), True, id="bools"),
    pytest.param(Field("T", 5), Field("T", 5), True, id="timestamps"),
    pytest.param(Field("T", 5), Field("l", 5), True, id="timestamp-and-integer"),
    pytest.param(Field("S", "q"), Field("x", b"q"), True, id="longstr-and-binary"),
    pytest.param(Field("S", "\udcff"), Field("x", b"\xff"), True, id="undecodable-bytes"),
    pytest.param(Field("S", "q"), Field("S", "Q"), False, id="case-counts"),
    pytest.param(Field("S", "5"), Field("l", 5), False, id="text-is-no-number"),
    pytest.param(Field("F", {}), Field("A", []), True, id="empty-table-and-empty-array"),
    pytest.param(Field("F", {"a": ONE}), Field("A", [ONE]), False, id="table-and-array"),
    pytest.param(Field("F", {}), Field("A", [ONE]), False, id="empty-table-and-array"),
    pytest.param(Field("D", Decimal("1.0")), Field("D", Decimal("1.0")), True, id="decimals"),
    pytest.param(Field("D", Decimal("1.0")), Field("D", Decimal("1.00")), False, id="scale-counts"),
    pytest.param(Field("D", Decimal(5)), Field("l", 5), False, id="decimal-is-no-integer"),
    pytest.param(Field("V", None), Field("V", None), True, id="voids"),
    pytest.param(Field("S", "undefined"), Field("V", None), False, id="text-and-void"),
    pytest.param(Field("A", [ONE]), Field("A", [ONE]), True, id="arrays"),
    pytest.param(Field("A", [ONE]), Field("A", [ONE, ONE]), False, id="array-lengths"),
    pytest.param(Field("A", [ONE]), Field("A", [Field("I", 1)]), False, id="type-within-array"),
    pytest.param(Field("A", [ONE]), Field("A", [Field("L", 1)]), True, id="l-and-L-are-one-type"),
    pytest.param(
        Field("A", [Field("S", "q")]), Field("A", [Field("x", b"q")]), False, id="binary-within"
    ),
    pytest.param(
        Field("A", [Field("F", {})]), Field("A", [Field("A", [])]), False, id="empties-within"
    ),
    pytest.param(Field("F", {"a": ONE}), Field("F", {"a": ONE}), True, id="tables"),
    pytest.param(Field("F", {"a": ONE}), Field("F", {"a": TWO}), False, id="table-values"),
    pytest.param(Field("F", {"a": ONE}), Field("F", {"b": ONE}), False, id="table-keys"),
    pytest.param(
        Field("F", {"a": ONE}), Field("F", {"a": ONE, "b": TWO}), False, id="table-lengths"
    ),
    pytest.param(
        Field("F", {"a": ONE}), Field("F", {"a": Field("I", 1)}), False, id="type-within-table"
    ),
]


@pytest.mark.parametrize(("a", "b", "is_equal"), HEADER_PAIRS)
def test_headers_match_by_value(a: Field, b: Field, is_equal: bool) -> None:
    """Rule E-93."""
    assert fields_equal_for_headers(a, b) is is_equal
    assert fields_equal_for_headers(b, a) is is_equal


@pytest.mark.parametrize(
    ("a", "b", "is_equal"),
    [
        pytest.param(Field("I", 10), Field("l", 10), True, id="integers-of-any-width"),
        pytest.param(Field("b", 10), Field("u", 10), True, id="narrow-integers"),
        pytest.param(Field("l", 10), Field("l", 11), False, id="different-integers"),
        pytest.param(Field("l", 10), Field("d", 10.0), False, id="integer-and-float"),
        pytest.param(Field("f", 1.5), Field("d", 1.5), True, id="float-and-double"),
        pytest.param(Field("D", Decimal(10)), Field("l", 10), False, id="decimal-and-integer"),
        pytest.param(Field("D", Decimal(10)), Field("D", Decimal(10)), True, id="decimals"),
        pytest.param(Field("T", 10), Field("l", 10), False, id="timestamp-and-integer"),
        pytest.param(Field("S", "a"), Field("x", b"a"), False, id="longstr-and-binary"),
        pytest.param(Field("S", "a"), Field("S", "a"), True, id="longstrs"),
        pytest.param(Field("t", True), Field("l", 1), False, id="bool-and-integer"),
        pytest.param(Field("F", {}), Field("A", []), False, id="empty-table-and-empty-array"),
    ],
)
def test_declared_arguments_are_equivalent_by_class(a: Field, b: Field, is_equal: bool) -> None:
    """Rule Q-12."""
    assert fields_equivalent(a, b) is is_equal
    assert fields_equivalent(b, a) is is_equal
