"""Password hashes: RabbitMQ's formats, made and verified (rule C-25)."""

from __future__ import annotations

import hashlib
from typing import Final

import pytest

from broker.auth.passwords import (
    HASHING_ALGORITHMS,
    PasswordHash,
    dummy_hash,
    make_password_hash,
    new_password_hash,
    parse_password_hash,
    verify_password,
)

GUEST_SHA256 = "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+"
"""Made by another broker for the password guest."""


def test_a_hash_made_elsewhere_verifies() -> None:
    assert verify_password("guest", parse_password_hash(GUEST_SHA256))
    assert not verify_password("Guest", parse_password_hash(GUEST_SHA256))


@pytest.mark.parametrize("algorithm", HASHING_ALGORITHMS)
def test_what_is_made_verifies_after_a_round_through_text(algorithm: str) -> None:
    made = new_password_hash("pässwörd", algorithm, bytes)
    read = parse_password_hash(made.to_text(), algorithm)

    assert read == made
    assert verify_password("pässwörd", read)
    assert not verify_password("passwort", read)


def test_the_salt_changes_the_hash() -> None:
    assert make_password_hash("x", b"aaaa").digest != make_password_hash("x", b"bbbb").digest


@pytest.mark.parametrize("expected", [None, parse_password_hash(GUEST_SHA256)])
def test_a_blank_password_never_verifies(expected: PasswordHash | None) -> None:
    assert not verify_password("", expected)


def test_a_blank_password_does_not_verify_even_against_its_own_hash() -> None:
    own = PasswordHash(HASHING_ALGORITHMS[0], b"salt", hashlib.sha256(b"salt").digest())

    assert not verify_password("", own)


def test_bytes_that_are_no_text_can_be_a_password() -> None:
    password = b"\xff\xfe".decode("utf-8", "surrogateescape")

    assert verify_password(password, make_password_hash(password, b"salt"))


@pytest.mark.parametrize(
    ("text", "algorithm", "complaint"),
    [
        pytest.param("hunter2!", HASHING_ALGORITHMS[0], "not base64", id="no base64"),
        pytest.param("aHVudGVyMg==", HASHING_ALGORITHMS[0], "7 bytes are not the 36", id="short"),
        pytest.param(GUEST_SHA256, HASHING_ALGORITHMS[1], "right for .*sha256", id="other hash"),
        pytest.param(GUEST_SHA256, "bcrypt", "unknown hashing algorithm", id="unknown hash"),
    ],
)
def test_a_malformed_hash_is_refused_without_showing_it(
    text: str, algorithm: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_password_hash(text, algorithm)

    assert text not in str(caught.value)


def test_a_blank_password_or_a_wrong_salt_makes_no_hash() -> None:
    with pytest.raises(ValueError, match="blank"):
        make_password_hash("", b"salt")

    with pytest.raises(ValueError, match="4 bytes"):
        make_password_hash("x", b"")


def test_a_hash_does_not_show_itself() -> None:
    made = make_password_hash("x", b"salt")

    assert "salt" not in repr(made)
    assert made.digest.hex() not in repr(made)


# -- argon2id

SLOW: Final = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$ERzJaKDS+Fg0qees2753hA"


def test_argon2_says_itself_what_it_is() -> None:
    """Definitions that name no algorithm mean sha256, unless the hash knows better."""
    made = new_password_hash("secret", "argon2id", bytes)
    assert made.to_text().startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert parse_password_hash(made.to_text()) == made
    assert made.is_slow
    assert "secret" not in repr(made)
    assert made.digest.hex() not in repr(made)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("$argon2id$", "not of the form", id="nothing"),
        pytest.param(
            "$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "form", id="i"
        ),
        pytest.param(SLOW.replace("m=64", "m=999999"), "more than m=262144", id="memory"),
        pytest.param(SLOW.replace("t=1", "t=99"), "t=16", id="passes"),
        pytest.param(SLOW.replace("p=1", "p=99"), "p=4", id="lanes"),
        pytest.param(SLOW.replace("t=1", "t=0"), "costs nothing", id="no-pass"),
        pytest.param(SLOW.replace("m=64", "m=7"), "costs nothing", id="no-memory"),
        pytest.param(SLOW + "AAA", "salt or digest is not base64", id="cut"),
    ],
)
def test_argon2_with_other_costs_or_forms_is_refused(text: str, complaint: str) -> None:
    """A definition must not make the broker spend a gigabyte for each login."""
    parse_password_hash(SLOW)
    with pytest.raises(ValueError, match=complaint):
        parse_password_hash(text)


@pytest.mark.parametrize("algorithm", HASHING_ALGORITHMS)
def test_nobody_has_the_password_of_a_dummy(algorithm: str) -> None:
    assert not verify_password("x", dummy_hash(algorithm))
