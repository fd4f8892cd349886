"""Core: what a name may be, whoever gives it: a client, the HTTP API, a file."""

from __future__ import annotations

from broker.errors import PreconditionFailed
from broker.limits import SHORT_STRING_BYTES_MAX

__all__ = ["check_name", "fits_short_string"]


def check_name(kind: str, name: str) -> None:
    """Demand that a name can be written on the wire (AMQP 0-9-1 §4.2.5.3).

    AMQP itself has no room for more, but other ways in do.

    Raises:
        PreconditionFailed: it is too long, or is no text that has octets.

    """
    try:
        if fits_short_string(name):
            return
    except UnicodeEncodeError:
        raise PreconditionFailed(f"{kind} {name!r} is no text that can be written") from None

    size = len(_octets_of(name))
    raise PreconditionFailed(
        f"{kind} '{name[:32]}...' has {size} bytes, it may have {SHORT_STRING_BYTES_MAX}"
    )


def fits_short_string(text: str) -> bool:
    """Whether a name or a key can stand where frames have a short string for it."""
    return len(_octets_of(text)) <= SHORT_STRING_BYTES_MAX


def _octets_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
