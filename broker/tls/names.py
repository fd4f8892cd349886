"""Names in certificates, as they are shown and as users are called. Layer: tls; pure.

Invariant: two different distinguished names are never rendered as the same text.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.tls.certificate import Certificate, Name

__all__ = ["USER_SOURCES", "distinguished_name", "user_name_of", "validity_text"]

LABELS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.4": "SN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "TITLE",
    "2.5.4.42": "GIVENNAME",
    "2.5.4.43": "INITIALS",
    "2.5.4.44": "GENERATIONQUALIFIER",
    "2.5.4.65": "PSEUDONYM",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
}
"""What RabbitMQ calls these attributes; it writes the others as their numbers."""

COMMON_NAME: Final = "2.5.4.3"
SPECIAL: Final = frozenset('"+,;<>\\')
PRINTABLE: Final = range(0x20, 0x7E)

ALTERNATIVE: Final = "san_"
USER_SOURCES: Final = (
    "distinguished_name",
    "common_name",
    "san_dns",
    "san_email",
    "san_uri",
    "san_ip",
)
"""What of a certificate may be the name of a user."""


def distinguished_name(name: Name) -> str:
    """Write a name as RFC 4514 does and RabbitMQ shows it: ``CN=shop,OU=clients,O=Example``."""
    return ",".join("+".join(map(_pair, reversed_part)) for reversed_part in reversed(name))


def _pair(attribute: tuple[str, str | bytes]) -> str:
    kind, value = attribute
    label = LABELS.get(kind, kind)
    if isinstance(value, bytes):
        return f"{label}=#{value.hex()}"

    return f"{label}={_escaped(value.encode('utf-8', 'surrogatepass'))}"


def _escaped(value: bytes) -> str:
    """RFC 4514 §2.4, and as RabbitMQ does everything that is not ASCII in hexadecimal."""
    last = len(value) - 1
    out = []
    for at, octet in enumerate(value):
        letter = chr(octet)
        is_edge = (at == 0 and letter in " #") or (at == last and letter == " ")
        if is_edge or letter in SPECIAL:
            out.append(f"\\{letter}")
        elif octet in PRINTABLE:
            out.append(letter)
        else:
            out.append(f"\\{octet:02X}")

    return "".join(out)


def user_name_of(certificate: Certificate, source: str, index: int = 0) -> str | None:
    """The name of the user that a certificate stands for; None where it has none.

    Args:
        certificate: verified by somebody else.
        source: one of USER_SOURCES.
        index: which of several alternative names, from 0.

    """
    if source == "distinguished_name":
        return distinguished_name(certificate.subject) or None

    if source == "common_name":
        # Several are joined: to take one would let a certificate say who it is in two ways.
        names = [
            value
            for part in certificate.subject
            for kind, value in part
            if kind == COMMON_NAME and isinstance(value, str)
        ]
        return ",".join(names) or None

    wanted = source.removeprefix(ALTERNATIVE)
    found = [text for kind, text in certificate.alternative_names if kind == wanted]
    return found[index] or None if index < len(found) else None


def validity_text(certificate: Certificate) -> str:
    """From when to when, as RabbitMQ shows it."""
    return f"{_stamp(certificate.not_before_s)} - {_stamp(certificate.not_after_s)}"


def _stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
