"""Every bound the broker sets itself, with its unit in the name and its reason beside it.

Layer: none; anything may import it, it imports nothing. A bound that an operator may choose is
configuration and only has its default or its hard cap here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "LINGER_BYTES_MAX",
    "LINGER_S",
    "OUTPUT_BYTES_HIGH",
    "OUTPUT_BYTES_LOW",
    "SHORT_STRING_BYTES_MAX",
    "TABLE_BYTES_MAX",
    "TABLE_DEPTH_MAX",
    "TOPIC_CACHED_DESTINATIONS_MAX",
    "TOPIC_CACHED_KEYS_MAX",
]

SHORT_STRING_BYTES_MAX: Final = 255
"""A short string has one length octet (AMQP 0-9-1 §4.2.5.3)."""

TABLE_DEPTH_MAX: Final = 64
"""Tables and arrays inside one another, the outermost table being 1. Decoding recurses, so without
a bound a 128 KiB frame could nest some 20,000 deep and overrun the stack. Programs nest about
four deep (x-death is two); JSON parsers stop between 100 and 1,000."""

TABLE_BYTES_MAX: Final = 1_048_576
"""Encoded size of one field table. A table is part of one frame, so the default frame_max of
128 KiB bounds it first; this bound holds where an operator raised frame_max or switched it off.
A decoded entry can take fifty times its encoded size."""

OUTPUT_BYTES_HIGH: Final = 256 * 1024
"""Unsent output of one socket at which its consumers get nothing more. Enough to keep a fast client
busy while the loop turns; a thousand stalled clients then hold 256 MiB at most, plus one budget."""

OUTPUT_BYTES_LOW: Final = 64 * 1024
"""Unsent output at which deliveries to that socket go on."""

LINGER_S: Final = 2.0
"""How long a socket that the broker has closed waits for its peer to read the last words and close
too. Two seconds outlast a few lost packets; nothing but a file descriptor waits with it."""

LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Input that is read and thrown away meanwhile, so that a flooding peer is not served for free."""

TOPIC_CACHED_KEYS_MAX: Final = 1_024
"""Routing keys a topic exchange remembers the destinations of (NATS keeps as many subjects).
Finding them again takes a few microseconds, so a full cache is simply emptied."""

TOPIC_CACHED_DESTINATIONS_MAX: Final = 256
"""Longest list of destinations worth remembering per routing key. With the bound above a cache is
two megabytes at most; the lists of a ``#`` bound to 100,000 queues would be 800."""
