"""Core: the records that the model's state is kept in, and messages as records.

::

    message   kind, flags, priority, row count, rows, exchange and key, [keys], [history], content
    row       holder (4), deadline (8): the queue, or the exchange that delays it, and when its
              time is over, in milliseconds since 1970; 0 is never. In a stream: when it came
    moved     the same, but that a row has also the position (8) that it had before

A message that went to several queues is one record with a row for each; its content is the frames
as they came. What people declare is kept as AMQP tables, whose fields keep their types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.dead_letter import Death, DeathHistory
from broker.core.message import Address, Message
from broker.limits import TABLE_BYTES_MAX
from broker.store.records import u32_at, u64_at
from broker.wire.tables import Arguments, Field, decode_table, encode_field, encode_table

if TYPE_CHECKING:
    from mypy_extensions import i16, i64

__all__ = [
    "BOUND",
    "CLOSED",
    "DUE_INDEX",
    "EXCHANGE_DECLARED",
    "EXCHANGE_DELETED",
    "HEAD_BYTES",
    "INDEX",
    "MESSAGE",
    "MOVED",
    "MOVED_ROW_BYTES",
    "NEXT_ID",
    "OPENED",
    "POLICY_CLEARED",
    "POLICY_SET",
    "PURGED",
    "QUEUE_DECLARED",
    "QUEUE_DELETED",
    "RETURNED",
    "ROW_BYTES",
    "SETTLED",
    "SETTLED_ROW_BYTES",
    "STREAM_INDEX",
    "STREAM_TRUNCATED",
    "UNBOUND",
    "StoredMessage",
    "encode_head",
    "encode_tail",
    "returned_body",
]

# Kinds of records. Kind 0 belongs to the log itself.
MESSAGE: Final = 1
SETTLED: Final = 2
"""Holder, then rows: position (8) of a message that left it, body size (8)."""

RETURNED: Final = 3
"""Holder, then rows: position, how often given back, when it is ready again (0: it is)."""

PURGED: Final = 4
"""Holder, then rows of those that stay, for they are unacked: position, body size."""

MOVED: Final = 5
INDEX: Final = 6
"""Of a checkpoint: holder, level, how many come first that were delivered before, bytes of all
bodies, then positions in serving order."""

NEXT_ID: Final = 7
"""Of a checkpoint: the identity that the next holder gets."""

STREAM_INDEX: Final = 8
"""Of a checkpoint: holder, then a segment of a stream (core/queue/stream_segment.py)."""

STREAM_TRUNCATED: Final = 9
"""Holder, and the offset that a stream begins with from now on."""

QUEUE_DECLARED: Final = 10
QUEUE_DELETED: Final = 11
EXCHANGE_DECLARED: Final = 12
EXCHANGE_DELETED: Final = 13
BOUND: Final = 14
UNBOUND: Final = 15
POLICY_SET: Final = 16
POLICY_CLEARED: Final = 17
OPENED: Final = 18
"""The broker has started: what follows was not there before."""

CLOSED: Final = 19
"""The broker has stopped in good order: nobody has anything unacked."""

DUE_INDEX: Final = 20
"""Of a checkpoint: holder, then of messages that an exchange delays the numbers of arrival, as many
due times in milliseconds since 1970, and as many positions."""

HAS_HISTORY: Final = 2
IS_PERSISTENT: Final = 1
HAS_KEYS: Final = 4
HAS_PRIORITY: Final = 8

SETTLED_ROW_BYTES: Final = 16
HEAD_BYTES: Final = 4
ROW_BYTES: Final = 12
MOVED_ROW_BYTES: Final = 20
BODY_SIZE_OFFSET: Final = 11
"""Of the eight octets of the body size in a content: frame header, class, weight."""


def encode_head(message: Message, row_count: i64, kind: i64) -> bytes:
    """Kind, flags, priority and row count."""
    flags: i64 = IS_PERSISTENT if message.is_persistent else 0
    if message.history is not None:
        flags |= HAS_HISTORY

    address = message.address
    if address.cc_keys or address.bcc_keys:
        flags |= HAS_KEYS

    priority: i16 = message.priority
    if priority >= 0:
        flags |= HAS_PRIORITY
    else:
        priority = 0

    return bytes((kind, flags, priority, row_count))


def encode_tail(message: Message) -> bytes:
    """Address, keys and history: all between the rows and the content."""
    address = message.address
    history = message.history
    if history is None and not address.cc_keys and not address.bcc_keys:
        return address.wire

    pieces = [address.wire]
    if address.cc_keys or address.bcc_keys:
        keys: Arguments = {}
        for name, values in (("cc", address.cc_keys), ("bcc", address.bcc_keys)):
            if values is not None:
                keys[name] = Field("A", [Field("S", key) for key in values])

        pieces.append(encode_table(keys))

    if history is not None:
        table: Arguments = {
            "first": history.first.to_field(),
            "all": Field("A", [entry.to_field() for entry in _newest(history)]),
        }
        pieces.append(encode_table(table))

    return b"".join(pieces)


def returned_body(holder_id: int, message: Message, due_wall_ms: int) -> bytes:
    """How often a message was given back, and when it is ready again (0: it is)."""
    return (
        bytes((RETURNED,))
        + holder_id.to_bytes(4, "little")
        + int(message.record).to_bytes(8, "little")
        + int(message.return_count_logged()).to_bytes(4, "little")
        + due_wall_ms.to_bytes(8, "little")
    )


def _newest(history: DeathHistory) -> list[Death]:
    """The deaths that there is room for in a table that can be read again, newest first."""
    room = TABLE_BYTES_MAX // 2
    kept: list[Death] = []
    for entry, encoded in zip(history.entries, history.encoded, strict=True):
        room -= len(encoded)
        if room < 0:
            break

        kept.append(entry)

    return kept


class StoredMessage:
    """A message as it lies in a record.

    Args:
        buffer: holds the record.
        start: where its kind stands.
        end: behind its content.

    Attributes:
        kind: MESSAGE or MOVED.
        row_count: how many holders it has.

    """

    __slots__ = ("_buffer", "_end", "_rows", "flags", "kind", "priority", "row_bytes", "row_count")

    def __init__(self, buffer: bytes, start: i64, end: i64) -> None:
        self._buffer = buffer
        self._end: i64 = end
        self.kind: i64 = buffer[start]
        self.flags: i64 = buffer[start + 1]
        self.priority: i16 = buffer[start + 2] if self.flags & HAS_PRIORITY else -1
        self.row_count: i64 = buffer[start + 3]
        self.row_bytes: i64 = MOVED_ROW_BYTES if self.kind == MOVED else ROW_BYTES
        self._rows: i64 = start + HEAD_BYTES

    def is_persistent(self) -> bool:
        """Whether the message is to outlive the broker wherever it stands."""
        return self.flags & IS_PERSISTENT != 0

    def holder(self, place: i64) -> i64:
        """The identity of the holder in a row."""
        return u32_at(self._buffer, self._rows + place * self.row_bytes)

    def deadline(self, place: i64) -> i64:
        """When the time of the message is over, for that holder; milliseconds since 1970, or 0."""
        return u64_at(self._buffer, self._rows + place * self.row_bytes + 4)

    def deadline_of(self, holder: i64) -> i64:
        """The same for a holder by its identity; that of the first row when it is in none."""
        place: i64 = 0
        while place < self.row_count:
            if self.holder(place) == holder:
                return self.deadline(place)

            place += 1

        return self.deadline(0)

    def address_size(self) -> i64:
        """Bytes of exchange and key, as they are encoded."""
        buffer = self._buffer
        start: i64 = self._address_start()
        key: i64 = start + 1 + buffer[start]
        return key + 1 + buffer[key] - start

    def content_size(self) -> i64:
        """Bytes of the content."""
        return self._end - self._content_start()

    def header_frame(self) -> bytes:
        """The first frame of the content, less its end octet."""
        start: i64 = self._content_start()
        return self._buffer[start : start + 7 + _long_at(self._buffer, start + 3)]

    def rest(self) -> bytes:
        """All behind the rows."""
        return self._buffer[self._address_start() : self._end]

    def old_position(self, place: i64) -> i64:
        """Where it was before it was moved."""
        return u64_at(self._buffer, self._rows + place * self.row_bytes + 12)

    def _address_start(self) -> i64:
        return self._rows + self.row_count * self.row_bytes

    def _content_start(self) -> i64:
        buffer = self._buffer
        place: i64 = self._address_start()
        place += 1 + buffer[place]
        place += 1 + buffer[place]
        if self.flags & HAS_KEYS:
            place += 4 + _long_at(buffer, place)

        if self.flags & HAS_HISTORY:
            place += 4 + _long_at(buffer, place)

        return place

    def body_size(self) -> i64:
        """Bytes of the body."""
        place: i64 = self._content_start() + BODY_SIZE_OFFSET
        high: i64 = _long_at(self._buffer, place)
        return (high << 32) | _long_at(self._buffer, place + 4)

    def to_message(self, addresses: dict[bytes, Address]) -> Message:
        """The message itself, with an address out of ``addresses`` where it is among them."""
        buffer = self._buffer
        start: i64 = self._address_start()
        key: i64 = start + 1 + buffer[start]
        place: i64 = key + 1 + buffer[key]
        wire = buffer[start:place]
        address = addresses.get(wire)
        if address is None:
            address = Address(
                buffer[start + 1 : key].decode("utf-8", "surrogateescape"),
                buffer[key + 1 : place].decode("utf-8", "surrogateescape"),
            )
            addresses[wire] = address

        keys: Arguments = {}
        history: DeathHistory | None = None
        if self.flags & HAS_KEYS:
            stop: i64 = place + 4 + _long_at(buffer, place)
            keys = decode_table(buffer, place + 4, stop)
            place = stop

        if self.flags & HAS_HISTORY:
            stop = place + 4 + _long_at(buffer, place)
            history = _history_of(decode_table(buffer, place + 4, stop))
            place = stop

        if self.flags & (HAS_KEYS | HAS_HISTORY):
            # It belongs to this message alone.
            address = Address(
                address.exchange,
                address.routing_key,
                _texts(keys.get("cc")),
                _texts(keys.get("bcc")),
                history,
            )

        is_persistent = self.flags & IS_PERSISTENT != 0
        content = buffer[place : self._end]
        return Message(address, content, self.body_size(), is_persistent, self.priority)


def _long_at(buffer: bytes, start: i64) -> i64:
    """Four octets as AMQP has them, the most significant first."""
    return (
        (buffer[start] << 24)
        | (buffer[start + 1] << 16)
        | (buffer[start + 2] << 8)
        | buffer[start + 3]
    )


def _texts(field: Field | None) -> list[str] | None:
    if field is None:
        return None

    values = field.value
    assert isinstance(values, list)
    return [_text(value) for value in values]


def _text(field: Field | None) -> str:
    assert field is not None
    value = field.value
    assert isinstance(value, str)
    return value


def _history_of(table: Arguments) -> DeathHistory:
    entries_field = table["all"].value
    assert isinstance(entries_field, list)
    entries = [_death_of(one) for one in entries_field]
    first = _death_of(table["first"])
    for entry in entries:
        if entry.queue == first.queue and entry.reason == first.reason:
            first = entry

    return DeathHistory(entries, [encode_field(entry.to_field()) for entry in entries], first)


def _death_of(field: Field) -> Death:
    table = field.value
    assert isinstance(table, dict)
    expiration = table.get("original-expiration")
    time_s = table["time"].value
    times = table["count"].value
    assert isinstance(time_s, int)
    assert isinstance(times, int)
    return Death(
        _text(table["queue"]),
        _text(table["reason"]),
        exchange=_text(table["exchange"]),
        routing_keys=_texts(table["routing-keys"]) or [],
        time_s=time_s,
        original_expiration=None if expiration is None else _text(expiration),
        times=times,
    )
