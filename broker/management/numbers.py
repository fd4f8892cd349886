"""Whole numbers in queries, paths and texts (management layer).

One rule for all of them: digits, with a sign if need be, as Erlang reads them. Python's ``int``
takes more: spaces, underscores, digits of other scripts.
"""

from __future__ import annotations

import re
from typing import Final

from broker.management.errors import BadRequest

__all__ = ["DIGITS_MAX", "bounded", "whole_number"]

DIGITS_MAX: Final = 18
"""Of a number that nobody counts further than: it fits where the core has 64 bits."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def whole_number(text: str, digits_max: int = DIGITS_MAX) -> int | None:
    """The number that a text is; None where it is none, or a longer one.

    Args:
        text: the digits.
        digits_max: more characters than that are no number.

    """
    if len(text) > digits_max or not _WHOLE.fullmatch(text):
        return None

    return int(text)


def bounded(name: str, value: int, least: int, most: int) -> int:
    """A number, if it is within its bounds.

    Raises:
        BadRequest: it is not.

    """
    if least <= value <= most:
        return value

    raise BadRequest(f"{name} should be a number between {least} and {most}")
