from __future__ import annotations

import pytest

from broker.core.expiration import parse_expiration
from broker.errors import PreconditionFailed


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("10000", 10_000),
        ("+5", 5),
        ("0070000", 70_000),
        ("-0", 0),
        ("315360000000", 315_360_000_000),
    ],
)
def test_digits_are_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_expiration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no_integer"),
        ("foobar", "no_integer"),
        ("+", "no_integer"),
        (" 5", "no_integer"),
        ("٣", "no_integer"),
        ("10000foobar", '{leftover_string,"foobar"}'),
        ("5 ", '{leftover_string," "}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-10", "{value_negative,-10}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_anything_else_is_refused(text: str, fault: str) -> None:
    """Rule P-07."""
    with pytest.raises(PreconditionFailed) as caught:
        parse_expiration(text)

    assert caught.value.explanation == f"invalid expiration '{text}': {fault}"
