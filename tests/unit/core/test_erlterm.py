"""Erlang terms in texts: rules T-10..T-14, with the answers of a live RabbitMQ 4.3."""

from __future__ import annotations

from decimal import Decimal

import pytest

from broker.core.erlterm import (
    erl_atom,
    erl_binary,
    erl_field,
    erl_float,
    erl_list,
    erl_plain,
    erl_string,
    erl_tuple,
    raw_text,
    resource_text,
)
from broker.wire.tables import Field

BINARIES = [
    (b"", "<<>>"),
    (b"text", '<<"text">>'),
    (b"a\tb\n", '<<"a\\tb\\n">>'),
    (b"\x1b\x08\x0c\x0b\r", '<<"\\e\\b\\f\\v\\r">>'),
    (b'"\\', '<<"\\"\\\\">>'),
    (b"it's", '<<"it\'s">>'),
    (b"a\x00", "<<97,0>>"),
    (b"\x7f", "<<127>>"),
    (b"\x01", "<<1>>"),
    (b"\xc2\x80", "<<194,128>>"),
    (b"\xc2\x9f", "<<194,159>>"),
    (b"\xc2\xa0", '<<"\xa0"/utf8>>'),
    (b"\xc3\xa9", '<<"é"/utf8>>'),
    (b"\xe9", '<<"é">>'),
    (b"\xff\xfe", '<<"ÿþ">>'),
    (b"\x80", "<<128>>"),
    ('ω"\n'.encode(), '<<"ω\\"\\n"/utf8>>'),
    ("\u2028".encode(), '<<"\u2028"/utf8>>'),
    ("\ufffe".encode(), "<<239,191,190>>"),
    ("\uffff".encode(), "<<239,191,191>>"),
    ("\ue000".encode(), '<<"\ue000"/utf8>>'),
    ("\U0001f600".encode(), '<<"\U0001f600"/utf8>>'),
]


@pytest.mark.parametrize(("data", "expected"), BINARIES, ids=[f"T-11-{b!r}" for b, _ in BINARIES])
def test_binary_is_text_when_printable_and_numbers_otherwise(data: bytes, expected: str) -> None:
    assert erl_binary(data) == expected


FLOATS = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (5.0, "5.0"),
    (-0.5, "-0.5"),
    (100.0, "100.0"),
    (120.0, "120.0"),
    (1000.0, "1.0e3"),
    (-1000.0, "-1.0e3"),
    (1230.0, "1230.0"),
    (12300.0, "1.23e4"),
    (123456.0, "123456.0"),
    (1234567.0, "1234567.0"),
    (1200000.0, "1.2e6"),
    (12345678.9, "12345678.9"),
    (0.01, "0.01"),
    (0.001, "0.001"),
    (0.0001, "0.0001"),
    (0.00012, "1.2e-4"),
    (1e-5, "1.0e-5"),
    (1.2345e-5, "1.2345e-5"),
    (1e15, "1.0e15"),
    (1e16, "1.0e16"),
    (1e22, "1.0e22"),
    (1.5e300, "1.5e300"),
    (5e-324, "5.0e-324"),
    (2.0**53, "9.007199254740992e15"),
    (2.0**54, "1.8014398509481984e16"),
    (0.10000000149011612, "0.10000000149011612"),
]


@pytest.mark.parametrize(("value", "expected"), FLOATS, ids=[f"T-10-{f}" for _, f in FLOATS])
def test_float_is_the_shorter_of_two_notations(value: float, expected: str) -> None:
    assert erl_float(value) == expected
    assert float(expected) == value


ATOMS = [
    ("direct", "direct"),
    ("a_B9@", "a_B9@"),
    ("x-delayed-message", "'x-delayed-message'"),
    ("Direct", "'Direct'"),
    ("9a", "'9a'"),
    ("", "''"),
    ("it's", "'it\\'s'"),
    ("a\n", "'a\n'"),
]


@pytest.mark.parametrize(("name", "expected"), ATOMS, ids=[f"T-12-{name!r}" for name, _ in ATOMS])
def test_atom_is_quoted_unless_it_is_an_identifier(name: str, expected: str) -> None:
    assert erl_atom(name) == expected


def test_string_tuple_and_list_need_no_spaces() -> None:
    """Rules T-10, T-12."""
    assert erl_string("expected integer, got longstr") == '"expected integer, got longstr"'
    assert erl_string('a"b\\\n') == '"a\\"b\\\\\\n"'
    assert erl_tuple("value_negative", "-1") == "{value_negative,-1}"
    assert erl_list(["1", "2"]) == "[1,2]"


def test_long_terms_stay_on_one_line() -> None:
    """Rule T-15 is RabbitMQ's habit, not ours."""
    assert "\n" not in erl_tuple("value_too_large", "9" * 200)


FIELDS = [
    (Field("t", True), "true"),
    (Field("t", False), "false"),
    (Field("I", -5), "-5"),
    (Field("T", 5), "5"),
    (Field("d", 5.0), "5.0"),
    (Field("D", Decimal("10.5")), "{1,105}"),
    (Field("D", Decimal((0, (1, 0, 0), -1))), "{1,100}"),
    (Field("D", Decimal(5)), "{0,5}"),
    (Field("S", "a"), '<<"a">>'),
    (Field("x", b"\x00"), "<<0>>"),
    (Field("S", "\udcff\udcfe"), '<<"ÿþ">>'),
    (Field("V", None), "undefined"),
    (Field("F", {}), "[]"),
    (Field("A", []), "[]"),
    (Field("A", [Field("I", 5), Field("S", "a")]), '[{signedint,5},{longstr,<<"a">>}]'),
    (Field("A", [Field("V", None), Field("t", True)]), "[{void,undefined},{bool,true}]"),
    (
        Field("F", {"m": Field("S", "a"), "k": Field("l", 5)}),
        '[{<<"m">>,longstr,<<"a">>},{<<"k">>,long,5}]',
    ),
    (Field("F", {"é": Field("V", None)}), '[{<<"é"/utf8>>,void,undefined}]'),
]


@pytest.mark.parametrize(("field", "expected"), FIELDS, ids=[text for _, text in FIELDS])
def test_field_value_as_a_term(field: Field, expected: str) -> None:
    assert erl_field(field) == expected


def test_raw_text_shows_text_bare_and_the_rest_as_terms() -> None:
    """Rule T-13; bytes that are not UTF-8 show as latin-1 [4.3]."""
    assert raw_text(Field("S", 'it\'s "x"\n')) == 'it\'s "x"\n'
    assert raw_text(Field("S", "éω")) == "éω"
    assert raw_text(Field("S", "\udcff\udcfe")) == "ÿþ"
    assert raw_text(Field("x", b"\x00\xff")) == "\x00ÿ"
    assert raw_text(Field("I", 10)) == "10"
    assert raw_text(Field("t", False)) == "false"


PLAIN: list[tuple[object, str]] = [
    (None, "null"),
    (True, "true"),
    (-1, "-1"),
    (1.5, "1.5"),
    ("x", '<<"x">>'),
    ("", "<<>>"),
    ({}, "#{}"),
    (
        [1, "a", {}, {"b": 1, "a": True}, None, 1.5],
        '[1,<<"a">>,#{},#{<<"a">> => true,<<"b">> => 1},null,1.5]',
    ),
]


@pytest.mark.parametrize(("value", "expected"), PLAIN, ids=[f"PO-09-{text}" for _, text in PLAIN])
def test_json_value_as_a_term(value: object, expected: str) -> None:
    assert erl_plain(value) == expected


def test_resources_are_named_with_their_virtual_host() -> None:
    assert resource_text("queue", "q", "/") == "queue 'q' in vhost '/'"
