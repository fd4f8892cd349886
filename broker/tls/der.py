"""Reads DER, in which certificates are written. Layer: tls; pure.

Invariant: whatever bytes come in, either elements that lie within them come out, or a DERError.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["DERError", "Element", "elements_in", "first_element", "object_identifier"]

SHORT_LENGTH_MAX: Final = 0x7F
LENGTH_OCTETS_MAX: Final = 4
"""Four octets give the length of 4 GiB; a certificate has a few kilobytes."""

MULTI_OCTET_TAG: Final = 0x1F
ARCS_MAX: Final = 64
"""Numbers in one object identifier; real ones have about ten."""

ARC_MAX: Final = 2**128 - 1
"""The largest number in one: a UUID fits (X.667)."""


class DERError(ValueError):
    """These bytes are not DER, or not what was expected."""


class Element(NamedTuple):
    """One element.

    Attributes:
        tag: class, form and number as one octet, 0x30 for a SEQUENCE.
        content: without tag and length.
        end: where the next one begins.

    """

    tag: int
    content: bytes
    end: int


def first_element(data: bytes, at: int = 0) -> Element:
    """Read the element that begins at a place.

    Raises:
        DERError: none does.

    """
    if at + 2 > len(data):
        raise DERError("an element is cut off")

    tag = data[at]
    if tag & MULTI_OCTET_TAG == MULTI_OCTET_TAG:
        raise DERError("a tag has several octets")

    size = data[at + 1]
    start = at + 2
    if size > SHORT_LENGTH_MAX:
        octets = size & SHORT_LENGTH_MAX
        if not 1 <= octets <= LENGTH_OCTETS_MAX:
            raise DERError("a length has no or too many octets")

        size = int.from_bytes(data[start : start + octets], "big")
        start += octets

    end = start + size
    if end > len(data):
        raise DERError("an element is cut off")

    return Element(tag, data[start:end], end)


def elements_in(content: bytes) -> list[Element]:
    """Read the elements that a content is made of.

    Raises:
        DERError: it is made of something else.

    """
    found: list[Element] = []
    at = 0
    while at < len(content):
        element = first_element(content, at)
        found.append(element)
        at = element.end

    return found


def object_identifier(content: bytes) -> str:
    """The dotted form of an object identifier: ``2.5.4.3``.

    Raises:
        DERError: it is none.

    """
    arcs: list[int] = []
    number = 0
    for octet in content:
        number = (number << 7) | (octet & 0x7F)
        if number > ARC_MAX or len(arcs) > ARCS_MAX:
            raise DERError("an object identifier is too long")

        if octet & 0x80 == 0:
            arcs.append(number)
            number = 0

    if not arcs or content[-1] & 0x80:
        raise DERError("an object identifier is cut off")

    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))
