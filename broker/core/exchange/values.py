"""Core: integers written in keys and headers, and a hash that is the same in every process."""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["INTEGER_KINDS", "hash_octets", "parse_integer"]

INTEGER_KINDS: Final = "bBsuIilL"
"""The type letters of whole numbers, of any width."""

DIGITS_MAX: Final = 20
"""More digits than any bound here has; int() itself takes time to the square of their number."""

INTEGER_TEXT: Final = re.compile(r"([+-]?)0*([0-9]+)")


def parse_integer(text: str) -> int | None:
    """Read a whole number: ASCII digits with an optional sign, and nothing else; None otherwise.

    One of many digits comes out as a number of :data:`DIGITS_MAX`, which is too large for anything.
    """
    found = INTEGER_TEXT.fullmatch(text)
    if found is None:
        return None

    size = int(found[2]) if len(found[2]) <= DIGITS_MAX else 10**DIGITS_MAX
    return -size if found[1] == "-" else size


def hash_octets(data: bytes) -> int:
    """Return 64 bits that depend evenly on all of the data, in every process the same."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
