"""A message's own time to live, as text in its properties (rule P-07)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_string, erl_tuple
from broker.errors import PreconditionFailed

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["parse_expiration"]

TTL_MS_MAX: Final = 315_360_000_000
"""Ten years, in milliseconds, as for the queue arguments (rules P-07, Q-25)."""

TEXT_SHORT_MAX: Final = 12
DIGITS: Final = "0123456789"


def parse_expiration(text: str) -> i64:
    """Milliseconds, from a text of digits with an optional sign.

    Raises:
        PreconditionFailed: it is no such number, or out of range.

    """
    digits = text
    if text[:1] in ("+", "-"):
        digits = text[1:]

    count = 0
    while count < len(digits) and digits[count] in DIGITS:
        count += 1

    if count == 0:
        raise _invalid(text, "no_integer")

    if count < len(digits):
        raise _invalid(text, erl_tuple("leftover_string", erl_string(digits[count:])))

    # A short string holds 255 digits at most, far below what int() would refuse.
    value = int(digits)
    if text[0] == "-" and value:
        raise _invalid(text, erl_tuple("value_negative", f"-{value}"))

    if value > TTL_MS_MAX:
        raise _invalid(text, erl_tuple("value_too_large", str(value)))

    return value


def _invalid(text: str, fault: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid expiration '{text}': {fault}")
