"""SASL responses (rules C-20, C-21, C-23, C-33)."""

from __future__ import annotations

import pytest

from broker.auth.mechanisms import Credentials, Malformed, Refused, build_mechanisms
from broker.wire.tables import Arguments, Field, encode_table

ANONYMOUS = Credentials("guest", "secret")
MECHANISMS = build_mechanisms(["PLAIN", "AMQPLAIN", "ANONYMOUS"], anonymous=ANONYMOUS)


def table_body(arguments: Arguments) -> bytes:
    return encode_table(arguments)[4:]


def test_mechanisms_keep_the_order_they_are_offered_in() -> None:
    names = ["ANONYMOUS", "PLAIN"]

    assert list(build_mechanisms(names, anonymous=ANONYMOUS)) == names


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param(b"\0bob\0pw", Credentials("bob", "pw"), id="ordinary"),
        pytest.param(b"\0bob\0", Credentials("bob", ""), id="blank password is judged later"),
        pytest.param(b"\0\0", Credentials("", ""), id="both blank"),
        pytest.param(b"\0b\xc3\xb6b\0\xe2\x82\xac", Credentials("böb", "€"), id="utf-8"),
        pytest.param(b"\0b\xff\0\xfe", Credentials("b\udcff", "\udcfe"), id="not utf-8"),
    ],
)
def test_plain_reads_user_and_password(response: bytes, expected: Credentials) -> None:
    """Rule C-20."""
    assert MECHANISMS["PLAIN"].start(response) == expected


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"bob\0pw", id="no leading NUL"),
        pytest.param(b"\0bob", id="no password"),
        pytest.param(b"\0bob\0pw\0", id="third NUL"),
        pytest.param(b"\0bob\0p\0w", id="NUL in the password"),
        pytest.param(b"admin\0bob\0pw", id="authorization identity"),
    ],
)
def test_plain_of_another_form_is_malformed(response: bytes) -> None:
    """Rules C-20, C-33."""
    assert isinstance(MECHANISMS["PLAIN"].start(response), Malformed)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            {"LOGIN": Field("S", "bob"), "PASSWORD": Field("S", "pw")},
            Credentials("bob", "pw"),
            id="strings",
        ),
        pytest.param(
            {"LOGIN": Field("x", b"bob"), "PASSWORD": Field("x", b"\xff")},
            Credentials("bob", "\udcff"),
            id="binaries",
        ),
        pytest.param(
            {"X": Field("l", 1), "PASSWORD": Field("S", "pw"), "LOGIN": Field("S", "bob")},
            Credentials("bob", "pw"),
            id="other keys are ignored",
        ),
        pytest.param(
            {"LOGIN": Field("S", "bob"), "PASSWORD": Field("I", 1)},
            Refused("bob", "LOGIN and PASSWORD must be strings"),
            id="a number is refused, not malformed",
        ),
    ],
)
def test_amqplain_reads_a_table(arguments: Arguments, expected: Credentials | Refused) -> None:
    """Rule C-21."""
    assert MECHANISMS["AMQPLAIN"].start(table_body(arguments)) == expected


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"", id="empty table"),
        pytest.param(table_body({"LOGIN": Field("S", "bob")}), id="no password"),
        pytest.param(table_body({"PASSWORD": Field("S", "pw")}), id="no login"),
        pytest.param(b"\x05LOGINS\0\0\0\xff", id="cut"),
        pytest.param(b"\xff\xff\xff", id="garbage"),
        pytest.param(encode_table({"LOGIN": Field("S", "b")}), id="with a length before it"),
    ],
)
def test_amqplain_of_another_form_is_malformed(response: bytes) -> None:
    """Rules C-21, C-33."""
    assert isinstance(MECHANISMS["AMQPLAIN"].start(response), Malformed)


@pytest.mark.parametrize("response", [b"", b"trace@example.org", b"\0\xff"])
def test_anonymous_ignores_the_response(response: bytes) -> None:
    """Rule C-23."""
    assert MECHANISMS["ANONYMOUS"].start(response) == ANONYMOUS


def test_credentials_do_not_show_the_password() -> None:
    assert repr(Credentials("bob", "hunter2")) == "Credentials('bob', ***)"
