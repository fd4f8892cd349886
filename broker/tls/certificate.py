"""What a certificate says (RFC 5280). Layer: tls; pure.

Nothing is verified here: that is OpenSSL's. What it has verified is read here a second time, since
Python tells of a certificate neither in the form of RFC 4514 nor all of it.

Invariant: whatever bytes come in, either a Certificate comes out or a CertificateError.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import hashlib
import ipaddress
import re
from typing import Final, NamedTuple

from broker.tls.der import DERError, Element, elements_in, first_element, object_identifier

__all__ = [
    "Certificate",
    "CertificateError",
    "Name",
    "certificates_in",
    "parse_certificate",
]

Attribute = tuple[str, str | bytes]
"""An object identifier and its value; bytes where that is no text."""

Name = tuple[tuple[Attribute, ...], ...]
"""A distinguished name in the order in which it is written in the certificate."""

SEQUENCE: Final = 0x30
SET: Final = 0x31
INTEGER: Final = 0x02
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
VERSION: Final = 0xA0
EXTENSIONS: Final = 0xA3
OCTET_STRING: Final = 0x04

ENCODINGS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",  # NumericString
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # TeletexString, as everybody reads it
    0x16: "ascii",  # IA5String
    0x1A: "ascii",  # VisibleString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}

ALTERNATIVE_NAMES: Final = "2.5.29.17"
NAME_KINDS: Final = {0x81: "email", 0x82: "dns", 0x86: "uri", 0x87: "ip"}
"""RFC 5280 §4.2.1.6; the others have no text that could name a user."""

NAMES_MAX: Final = 1_000
"""Alternative names that are read; a certificate that OpenSSL takes has 100 KB at most."""

CENTURY_TURN: Final = 50
"""RFC 5280 §4.1.2.5.1: a year of two digits below 50 is in the 21st century."""

_PEM: Final = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)-----END ", re.ASCII
)
_TIME: Final = re.compile(rb"(\d{2}|\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z")


class CertificateError(ValueError):
    """These bytes are no certificate."""


class Certificate(NamedTuple):
    """The part of a certificate that people ask for.

    Attributes:
        subject: who it is for.
        issuer: who says so.
        serial: its number.
        not_before_s: seconds since 1970.
        not_after_s: likewise.
        alternative_names: kind (``dns``, ``email``, ``uri``, ``ip``) and text of each.
        fingerprint: SHA-256 of the whole, in hexadecimal.

    """

    subject: Name
    issuer: Name
    serial: int
    not_before_s: int
    not_after_s: int
    alternative_names: tuple[tuple[str, str], ...]
    fingerprint: str


def certificates_in(text: bytes) -> list[Certificate]:
    """Read the certificates of a PEM file, in their order.

    Raises:
        CertificateError: one of them is damaged.

    """
    found = []
    for match in _PEM.finditer(text):
        try:
            der = base64.b64decode(b"".join(match[1].split()), validate=True)
        except binascii.Error:
            raise CertificateError("a certificate in it is not in base64") from None

        found.append(parse_certificate(der))

    return found


def parse_certificate(der: bytes) -> Certificate:
    """Read one certificate.

    Raises:
        CertificateError: it is none.

    """
    try:
        return _parse(der)
    except (DERError, IndexError, ValueError) as problem:
        raise CertificateError(f"a certificate cannot be read: {problem}") from None


def _parse(der: bytes) -> Certificate:
    whole = _expect(first_element(der), SEQUENCE)
    parts = elements_in(_expect(first_element(whole), SEQUENCE))
    if parts[0].tag == VERSION:
        del parts[0]

    # What stands between them is the algorithm of the signature, and behind them the key.
    serial, _, issuer, validity, subject, _, *rest = parts
    begin, end = elements_in(_expect(validity, SEQUENCE))
    names: tuple[tuple[str, str], ...] = ()
    for part in rest:
        if part.tag == EXTENSIONS:
            names = _alternative_names(part)

    return Certificate(
        subject=_name(subject),
        issuer=_name(issuer),
        serial=int.from_bytes(_expect(serial, INTEGER), "big", signed=True),
        not_before_s=_time(begin),
        not_after_s=_time(end),
        alternative_names=names,
        fingerprint=hashlib.sha256(der).hexdigest(),
    )


def _expect(element: Element, tag: int) -> bytes:
    if element.tag != tag:
        raise DERError(f"expected tag {tag:#04x}, got {element.tag:#04x}")

    return element.content


def _name(element: Element) -> Name:
    relative = elements_in(_expect(element, SEQUENCE))
    return tuple(tuple(map(_attribute, elements_in(_expect(one, SET)))) for one in relative)


def _attribute(element: Element) -> Attribute:
    kind, value = elements_in(_expect(element, SEQUENCE))
    return object_identifier(_expect(kind, 0x06)), _text(value)


def _text(value: Element) -> str | bytes:
    encoding = ENCODINGS.get(value.tag)
    if encoding is None:
        return value.content

    try:
        return value.content.decode(encoding)
    except UnicodeDecodeError:
        return value.content


def _time(element: Element) -> int:
    match = _TIME.fullmatch(element.content)
    if match is None or element.tag not in (UTC_TIME, GENERALIZED_TIME):
        raise DERError("a time is none")

    year, month, day, hour, minute, second = map(int, match.groups())
    if element.tag == UTC_TIME:
        year += 2000 if year < CENTURY_TURN else 1900

    return calendar.timegm((year, month, day, hour, minute, second))


def _alternative_names(element: Element) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for extension in elements_in(_expect(first_element(element.content), SEQUENCE)):
        identifier, *_, value = elements_in(_expect(extension, SEQUENCE))
        if object_identifier(_expect(identifier, 0x06)) != ALTERNATIVE_NAMES:
            continue

        names = _expect(first_element(_expect(value, OCTET_STRING)), SEQUENCE)
        for name in elements_in(names)[:NAMES_MAX]:
            kind = NAME_KINDS.get(name.tag)
            if kind is not None:
                found.append((kind, _general_name(kind, name.content)))

    return tuple(found)


def _general_name(kind: str, content: bytes) -> str:
    if kind == "ip":
        return str(ipaddress.ip_address(content)) if len(content) in (4, 16) else content.hex()

    # IA5String by the book; what is not ASCII must not look as if it were.
    return content.decode("ascii", "backslashreplace")
