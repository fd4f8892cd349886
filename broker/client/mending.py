"""Toolkit: makes readable, on its way in, what a broker delivers and the library cannot read.

A publisher may write names and short texts that are not UTF-8, and times that are in no calendar.
The library gives up the connection over such a message, which is then delivered to the next one,
for ever. So octets that are no UTF-8 become question marks, and a time beyond the year 9999 the
last one before it.

A frame is held until it is whole, so none is begun that is larger than what was agreed on: the
library waits for four gigabytes where somebody announces them.

Invariant: frames keep their size, and those that the library can read stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarl import URL

__all__ = ["MendingReader", "MendingTransport", "mended"]

FRAME_HEAD: Final = Struct(">BHL")
SIZE: Final = Struct(">L")
LONG: Final = Struct(">Q")
FLAGS: Final = Struct(">H")

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8

FRAME_BYTES: Final = 131_072
"""What is agreed on nearly everywhere, and as much as there is to be said before that."""
UNLIMITED_BYTES: Final = 16 * 1024 * 1024
"""Of a frame that is held, where there is no limit."""

TUNE: Final = b"\x00\x0a\x00\x1e"
TUNE_LIMIT_AT: Final = 6

TIME_MAX: Final = 253_402_300_799_000
"""The end of the year 9999, in milliseconds: the library takes large numbers for those."""

NOT_UTF8: Final = re.compile("[\udc80-\udcff]")

FLAGS_AT: Final = 12
NEEDS_WALK: Final = 0x2040
"""Headers, and a time: with neither of them, octets of ASCII are nothing but texts."""
HAS_MORE_FLAGS: Final = 0x0001
TIME_LIMIT: Final = TIME_MAX >> 40
"""What the third octet of a time is below, if the two before it are zero, and it is in the calendar
whatever the others are."""
TEXT_LETTER: Final = b"S"[0]

TEXT: Final = "text"
TABLE: Final = "table"
TIME: Final = "time"

PROPERTIES: Final[tuple[tuple[int, str | int], ...]] = (
    (0x8000, TEXT),  # content-type
    (0x4000, TEXT),  # content-encoding
    (0x2000, TABLE),  # headers
    (0x1000, 1),  # delivery-mode
    (0x0800, 1),  # priority
    (0x0400, TEXT),  # correlation-id
    (0x0200, TEXT),  # reply-to
    (0x0100, TEXT),  # expiration
    (0x0080, TEXT),  # message-id
    (0x0040, TIME),  # timestamp
    (0x0020, TEXT),  # type
    (0x0010, TEXT),  # user-id
    (0x0008, TEXT),  # app-id
    (0x0004, TEXT),  # cluster-id
)
METHODS: Final[dict[bytes, tuple[str | int, ...]]] = {
    # Brokers cut long reasons, in the middle of a letter too.
    b"\x00\x0a\x00\x32": (2, TEXT),  # connection.close
    b"\x00\x14\x00\x28": (2, TEXT),  # channel.close
    b"\x00\x3c\x00\x32": (2, TEXT, TEXT, TEXT),  # basic.return
    b"\x00\x3c\x00\x3c": (TEXT, 9, TEXT, TEXT),  # basic.deliver
    b"\x00\x3c\x00\x47": (9, TEXT, TEXT),  # basic.get-ok
}
FIXED: Final = {
    **dict.fromkeys(b"V\0", 0),
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"su", 2),
    **dict.fromkeys(b"Iif", 4),
    b"D"[0]: 5,
    **dict.fromkeys(b"lLd", 8),
}
"""How long a value is that follows its letter."""


class MendingTransport(TransportFactory):
    """Connects once, as the library does, and mends what comes in."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._writer: asyncio.StreamWriter | None = None
        """Kept until it is cut: the library lets go of it, open, where the broker closes."""

        self._connecting: asyncio.Future[Any] | None = None
        self._is_cut = False

    def abort(self) -> None:
        """Cut the connection, or have none made: what the library waits for ends by that."""
        self._is_cut = True
        if self._transport is not None:
            self._transport.abort()
        elif self._connecting is not None:
            self._connecting.cancel()

    async def create(
        self, url: URL, **kwargs: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        provider = kwargs.pop("ssl_context_provider")
        context = await provider.get_context() if url.scheme == "amqps" else None
        assert url.host is not None
        assert url.port is not None
        loop = asyncio.get_running_loop()
        reader = MendingReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        connecting = self._connecting = asyncio.ensure_future(
            loop.create_connection(lambda: protocol, url.host, url.port, ssl=context, **kwargs)
        )
        try:
            transport, _ = await connecting
        except OSError as problem:
            raise AMQPConnectionError(*problem.args) from problem

        self._transport = transport
        if self._is_cut:
            transport.abort()
            # Nobody waits for it. Of anything else the library would complain.
            raise asyncio.CancelledError

        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer


class MendingReader(asyncio.StreamReader):
    """What the library reads from: frames that have been mended."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = b""
        """The beginning of a frame that is to be looked at as a whole."""
        self._passing = 0
        """How many octets are to come of one that need not be."""
        self._is_amqp = True
        self._agreed = FRAME_BYTES
        """The size of frames that was agreed on; 0: any."""

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        if self.exception() is None:
            super().feed_data(self._mended(bytes(data)))

    def _mended(self, data: bytes) -> bytes | bytearray:
        """Return what can be passed on."""
        if self._begun:
            data, self._begun = self._begun + data, b""

        size = len(data)
        position = self._passing
        changed: bytearray | None = None
        while self._is_amqp and size - position >= FRAME_HEAD.size:
            kind, _, payload_size = FRAME_HEAD.unpack_from(data, position)
            start = position + FRAME_HEAD.size
            end = start + payload_size + 1
            if kind in {METHOD, HEADER}:
                if end > size:
                    self._check(payload_size, UNLIMITED_BYTES)
                    break

                payload = data[start:end]
                whole = mended(kind, payload)
                if whole is not payload:
                    changed = changed or bytearray(data)
                    changed[start:end] = whole
                elif payload.startswith(TUNE):
                    self._note_agreed(payload)
            elif kind in {BODY, HEARTBEAT}:
                self._check(payload_size, sys.maxsize)
            else:  # it speaks another version, and says which
                self._is_amqp = False
                break

            position = end

        self._passing = max(0, position - size)
        passed = data if changed is None else changed
        if self._is_amqp and position < size:
            self._begun = data[position:]
            return passed[:position]

        return passed

    def _note_agreed(self, tune: bytes) -> None:
        with contextlib.suppress(StructError):
            self._agreed = SIZE.unpack_from(tune, TUNE_LIMIT_AT)[0]

    def _check(self, size: int, unlimited: int) -> None:
        """Refuse a frame that is too large, as an error of the connection.

        Some more is let pass: headers grow at a broker, by what it writes of dead letters, and it
        sends them whatever they have become. Refused, they would come again, for ever.
        """
        limit = 2 * max(self._agreed, FRAME_BYTES) if self._agreed else unlimited
        if size > limit:
            self.set_exception(
                ConnectionError(f"a frame of {size} bytes, and {self._agreed} were agreed on")
            )

    def feed_eof(self) -> None:
        if self._begun:
            super().feed_data(self._begun)
            self._begun = b""

        super().feed_eof()


def mended(kind: int, payload: bytes) -> bytes:
    """Return what a frame carries, so that the library can read it.

    What is malformed stays as it is.
    """
    try:
        if kind == HEADER:
            flags: int = FLAGS.unpack_from(payload, FLAGS_AT)[0]
            if flags & HAS_MORE_FLAGS:
                return payload

            parts = _PARTS.get(flags) or _parts_of(flags)
            if _is_fine(payload, flags, parts):
                return payload

            walk = _Walk(payload, FLAGS_AT + 2)
            walk.over(parts)
            return walk.data

        arguments = METHODS.get(payload[:4])
        if arguments is None or payload[4:-1].isascii():
            return payload

        walk = _Walk(payload, 4)
        walk.over(arguments)
    except (IndexError, KeyError, RecursionError, StructError):
        return payload

    return walk.data


_PARTS: Final[dict[int, tuple[str | int, ...]]] = {}
"""What properties consist of that have these flags. They cannot be set in too many ways."""


def _parts_of(flags: int) -> tuple[str | int, ...]:
    parts = _PARTS[flags] = tuple(what for bit, what in PROPERTIES if flags & bit)
    return parts


def _is_fine(payload: bytes, flags: int, parts: tuple[str | int, ...]) -> bool:
    """Say whether there is nothing to be mended, as far as that is to be seen at a glance.

    That is so where all is ASCII, and no time out of the calendar. Of one that is in it the first
    two octets are zero, and so are those after each T that is the letter of one.
    """
    if not flags & NEEDS_WALK:
        return payload[FLAGS_AT + 2 : -1].isascii()

    position = time_at = FLAGS_AT + 2
    for part in parts:
        if part is TEXT:
            position += 1 + payload[position]
        elif part is TABLE:
            start = position + SIZE.size
            position = start + SIZE.unpack_from(payload, position)[0]
            letters = payload.count(b"T", start, position)
            if letters != payload.count(b"T\0\0", start, position) and not _is_timeless(
                payload, start, position
            ):
                return False
        elif part is TIME:
            if payload[position] or payload[position + 1] or payload[position + 2] >= TIME_LIMIT:
                return False

            if not payload[FLAGS_AT + 2 : position].isascii():
                return False

            position += LONG.size
            time_at = position
        else:
            position += int(part)

    return payload[time_at:-1].isascii()


def _is_timeless(payload: bytes, position: int, end: int) -> bool:
    """Say whether a table has no times, nor anything that they could be in."""
    while position < end:
        position += 1 + payload[position]
        letter = payload[position]
        if letter == TEXT_LETTER:
            position += 1 + SIZE.size + SIZE.unpack_from(payload, position + 1)[0]
        elif letter in FIXED:
            position += 1 + FIXED[letter]
        else:
            return False

    return position == end


class _Walk:
    """Goes through values one after the other, and mends them."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self._position = position

    def over(self, parts: Any) -> None:
        """Go over parts: each a kind, or so many octets that need no mending."""
        for part in parts:
            if part is TEXT:
                self._text()
            elif part is TABLE:
                self._table()
            elif part is TIME:
                self._time()
            else:
                self._position += part

    def _text(self) -> None:
        start = self._position + 1
        end = self._position = start + self.data[self._position]
        if end >= len(self.data):  # the last octet ends the frame
            raise IndexError(end)

        octets = self.data[start:end]
        if octets.isascii():
            return

        text = octets.decode("utf-8", "surrogateescape")
        if NOT_UTF8.search(text) is not None:
            self._put(start, NOT_UTF8.sub("?", text).encode())

    def _time(self) -> None:
        if LONG.unpack_from(self.data, self._position)[0] > TIME_MAX:
            self._put(self._position, LONG.pack(TIME_MAX))

        self._position += LONG.size

    def _table(self) -> None:
        size = self._size()
        end = self._position + size
        while self._position < end:
            self._text()
            self._value()

    def _array(self) -> None:
        size = self._size()
        end = self._position + size
        while self._position < end:
            self._value()

    def _value(self) -> None:
        letter = self.data[self._position]
        self._position += 1
        size = FIXED.get(letter)
        if size is not None:
            self._position += size
        elif letter in b"Sx":
            octets = self._size()
            self._position += octets
        elif letter == b"F"[0]:
            self._table()
        elif letter == b"A"[0]:
            self._array()
        elif letter == b"T"[0]:
            self._time()
        else:
            raise KeyError(letter)

    def _size(self) -> int:
        size: int = SIZE.unpack_from(self.data, self._position)[0]
        self._position += SIZE.size
        return size

    def _put(self, position: int, octets: bytes) -> None:
        self.data = self.data[:position] + octets + self.data[position + len(octets) :]
