"""What is in a datagram: syslog, GELF, or just bytes. Layer: net; pure.

Invariant: whatever comes, there is a reading of it or a ``Malformed`` with the reason; never more
memory than the bounds allow, whatever a compressed datagram or the parts of a message promise.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.config.datagram_templates import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ChunkStore",
    "Malformed",
    "Reading",
    "read_gelf",
    "read_raw",
    "read_syslog",
]

FACILITIES: Final = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "security", "console", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
)  # fmt: skip
SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
PRIORITY_MAX: Final = 191

CHUNK_MAGIC: Final = b"\x1e\x0f"
CHUNK_HEADER_BYTES: Final = 12
CHUNKS_MAX: Final = 128
CHUNKED_MAX: Final = 256
"""Messages in parts that are waited for at a time; the oldest goes first."""

CHUNK_WAIT_S: Final = 5.0
"""GELF: parts that come later than that belong to nothing."""

_PRIORITY: Final = re.compile(rb"<(\d{1,3})>")
_MODERN: Final = re.compile(rb"1 \S+ (\S+) (\S+) ")
_LEGACY: Final = re.compile(rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (\S+) ([^\s:\[]+)")


class Malformed(Exception):
    """A datagram is not what it should be; the text says why."""


class Reading(NamedTuple):
    """A datagram that was understood.

    Attributes:
        body: what is to be published.
        fields: for the routing key and the headers.

    """

    body: bytes
    fields: dict[str, str]


def read_raw(data: bytes) -> Reading:
    """Any bytes."""
    return Reading(data, {})


def read_syslog(data: bytes) -> Reading:
    """RFC 5424, or what programs have sent since long before it (RFC 3164).

    Raises:
        Malformed: it does not begin with a priority.

    """
    match = _PRIORITY.match(data)
    priority = int(match[1]) if match is not None else -1
    if match is None or priority > PRIORITY_MAX:
        raise Malformed("no syslog priority")

    facility, severity = divmod(priority, 8)
    fields = {"facility": FACILITIES[facility], "severity": SEVERITIES[severity]}
    header = _MODERN.match(data, match.end()) or _LEGACY.match(data, match.end())
    if header is not None:
        fields["hostname"] = _word(header[1])
        fields["program"] = _word(header[2])

    return Reading(data, fields)


def read_gelf(data: bytes, size_max: int) -> Reading:
    """A GELF message, compressed or not; its parts, where it came in parts, are joined already.

    Args:
        data: of one message.
        size_max: bytes that it may have when it is unpacked.

    Raises:
        Malformed: it is too large or no JSON object.

    """
    body = _unpacked(data, size_max)
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("no JSON") from None

    if not isinstance(record, dict):
        raise Malformed("no JSON object")

    fields = {}
    host = record.get("host")
    if isinstance(host, str) and host:
        fields["host"] = _plain(host)

    level = record.get("level")
    if isinstance(level, int) and 0 <= level < len(SEVERITIES):
        fields["severity"] = SEVERITIES[level]

    return Reading(body, fields)


def _unpacked(data: bytes, size_max: int) -> bytes:
    if data[:2] == b"\x1f\x8b":
        window = zlib.MAX_WBITS | 16
    elif data[:1] == b"\x78":
        window = zlib.MAX_WBITS
    else:
        return data

    unpacker = zlib.decompressobj(window)
    try:
        body = unpacker.decompress(data, size_max + 1)
    except zlib.error:
        raise Malformed("damaged compression") from None

    if len(body) > size_max:
        raise Malformed("larger than allowed when it is unpacked")

    if not unpacker.eof:
        raise Malformed("cut off compression")

    return body


class ChunkStore:
    """Joins GELF messages that came in parts.

    Args:
        clock: tells the time in seconds.
        size_max: bytes of a whole message.

    """

    def __init__(self, clock: Callable[[], float], size_max: int) -> None:
        self._clock = clock
        self._size_max = size_max
        self._pending: OrderedDict[tuple[str, bytes], tuple[float, dict[int, bytes]]] = (
            OrderedDict()
        )
        self.lost_count = 0

    def take(self, source: str, data: bytes) -> bytes | None:
        """Take a datagram; returns a whole message, or None while parts are missing.

        Raises:
            Malformed: a part that can be of no message.

        """
        if data[:2] != CHUNK_MAGIC:
            return data

        if len(data) <= CHUNK_HEADER_BYTES:
            raise Malformed("an empty part")

        number, count = data[10], data[11]
        if not 0 < count <= CHUNKS_MAX or number >= count:
            raise Malformed("a part with an impossible number")

        self._forget_old()
        key = (source, data[2:10])
        _, parts = self._pending.setdefault(key, (self._clock(), {}))
        parts[number] = data[CHUNK_HEADER_BYTES:]
        if sum(map(len, parts.values())) > self._size_max:
            del self._pending[key]
            raise Malformed("larger than allowed when it is joined")

        if len(parts) < count:
            return None

        del self._pending[key]
        return b"".join(parts[place] for place in sorted(parts))

    def _forget_old(self) -> None:
        pending = self._pending
        oldest_s = self._clock() - CHUNK_WAIT_S
        while pending and next(iter(pending.values()))[0] < oldest_s:
            pending.popitem(last=False)
            self.lost_count += 1

        while len(pending) >= CHUNKED_MAX:
            pending.popitem(last=False)
            self.lost_count += 1


def _word(raw: bytes) -> str:
    text = _plain(raw.decode("utf-8", "replace"))
    return UNKNOWN if text == "-" else text


def _plain(text: str) -> str:
    """Text from the network, as it may stand in a key and a header."""
    return text.encode("utf-8", "replace").decode("utf-8")[:255]
