"""Makes records of a damaged log that recovery can take. Layer: rim.

What is whole is handed on as it is, in the order of the log. What refers to a record that cannot be
read is taken out: of the lists of a checkpoint, of settlements, of what was given back. Without a
whole checkpoint the messages are found in the segments; and a queue whose declaration is lost, but
not its messages, is declared anew.
"""

from __future__ import annotations

from array import array
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.declarations import StoredExchange, StoredQueue
from broker.core.durable import (
    BOUND,
    CLOSED,
    DUE_INDEX,
    EXCHANGE_DECLARED,
    EXCHANGE_DELETED,
    HEAD_BYTES,
    INDEX,
    MESSAGE,
    MOVED,
    MOVED_ROW_BYTES,
    NEXT_ID,
    POLICY_SET,
    PURGED,
    QUEUE_DECLARED,
    QUEUE_DELETED,
    RETURNED,
    ROW_BYTES,
    SETTLED,
    SETTLED_ROW_BYTES,
    STREAM_INDEX,
    StoredMessage,
)
from broker.core.exchange.due import without_lost_messages
from broker.store.records import RECORD_HEADER_BYTES, record_end, u32_at, u64_at
from broker.store.replay import META_KIND
from broker.upkeep.stream_salvage import without_lost_entries
from broker.wire.tables import Field, encode_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.store.records import RecordSink
    from broker.upkeep.readable import Readable, Record

__all__ = ["Salvage"]

DECLARATIONS: Final = {NEXT_ID, POLICY_SET, EXCHANGE_DECLARED, QUEUE_DECLARED, BOUND}
"""What a checkpoint begins with."""

ABOUT_MESSAGES: Final = {MESSAGE, MOVED, SETTLED, PURGED, RETURNED}
INDEXES: Final = {INDEX, STREAM_INDEX, DUE_INDEX, META_KIND}
NAMED_ANEW: Final = "leveret.recovered."

HOLDER_START: Final = 1
ROWS_START: Final = 5
INDEX_POSITIONS_START: Final = 25
INDEX_REDELIVERED: Final = slice(9, 17)
HOLDER_BYTES: Final = 4
DEADLINE_BYTES: Final = 8


class Salvage:
    """One log's records, as far as they can be had.

    Args:
        readable: what there is.

    Attributes:
        readable: what there is.
        lost: how many messages are known to be lost, by the names of their queues.
        declared_anew: names of queues whose declarations were lost.

    """

    def __init__(self, readable: Readable) -> None:
        self.readable = readable
        self._is_indexed = readable.has_sound_checkpoint
        self.lost: Counter[str] = Counter()
        self.declared_anew: list[str] = []
        self._names: dict[int, str] = {}
        self._gone: set[int] = set()
        # What was settled and cannot be read: holder and position.
        self._settled: set[tuple[int, int]] = set()
        # The declarations handed over last, by kind and name.
        self._alive: dict[tuple[int, str], int] = {}
        # Where messages were that were moved, and lie now.
        self._moved: dict[int, int] = {}
        # Of holders that nobody declares: how many messages say so of each queue's name.
        self._unknown: dict[int, Counter[str]] = {}
        self._explore()

    # -- the first reading

    def _explore(self) -> None:
        """Learn what refers to what."""
        for record in self.readable.checkpoint_records():
            self._note_declaration(record)

        for number in sorted(self.readable.segments):
            if not self._is_fed(number):
                continue

            for record in self.readable.records(number):
                kind = record.kind
                if kind in (MESSAGE, MOVED):
                    self._note_message(record)
                elif kind == SETTLED:
                    self._note_settled(record)
                else:
                    self._note_declaration(record)

        known = set(self._names) | self._gone | {0}
        self._unknown = {one: keys for one, keys in self._unknown.items() if one not in known}

    def _is_fed(self, number: int) -> bool:
        """Whether recovery takes the records of that segment, and not their positions alone."""
        return not self._is_indexed or number >= self.readable.first_due

    def _note_declaration(self, record: Record) -> None:
        kind = record.kind
        start = record.start + 1
        if kind == QUEUE_DECLARED:
            queue = StoredQueue(record.buffer, start, record.end)
            self._names[queue.log_id] = queue.name
        elif kind == EXCHANGE_DECLARED:
            exchange = StoredExchange(record.buffer, start, record.end)
            self._names[exchange.log_id] = exchange.settings.name
        elif kind in (QUEUE_DELETED, EXCHANGE_DELETED):
            self._gone.add(int(u32_at(record.buffer, start)))

    def _note_message(self, record: Record) -> None:
        stored = StoredMessage(record.buffer, record.start, record.end)
        for place in range(int(stored.row_count)):
            if stored.kind == MOVED:
                self._moved[int(stored.old_position(place))] = record.position

            holder = int(stored.holder(place))
            if holder not in self._names and stored.is_persistent():
                keys = self._unknown.setdefault(holder, Counter())
                address = stored.to_message({}).address
                keys[address.routing_key if address.exchange == "" else ""] += 1

    def _note_settled(self, record: Record) -> None:
        """What was settled since cannot be lost."""
        body = record.body
        for place in range(ROWS_START, len(body), SETTLED_ROW_BYTES):
            position = int(u64_at(body, place))
            if not self.readable.has(position):
                self._settled.add((int(u32_at(body, HOLDER_START)), position))

    # -- the second reading

    def replay(self, sink: RecordSink) -> None:
        """Hand over all there is."""
        readable = self.readable
        old = [one for one in sorted(readable.segments) if one < readable.first_due]
        has_all = self._is_indexed or readable.has_all_declarations(DECLARATIONS)
        known: set[int] = set()
        if not has_all:
            for number in old:
                self._feed(sink, readable.records(number), known, are_declarations=True)

        self._feed(sink, readable.checkpoint_records(), known, are_declarations=True)
        for number, body in self._declarations_anew():
            known.add(number)
            sink.take(body, 0, len(body), 0)

        if self._is_indexed:
            self._feed_index(sink)
        else:
            for number in old:
                self._feed(sink, readable.records(number), known, are_declarations=False)

        for number in sorted(readable.segments):
            if number >= readable.first_due:
                self._feed_all(sink, readable.records(number))

    def _feed(
        self,
        sink: RecordSink,
        records: Iterator[Record],
        known: set[int],
        *,
        are_declarations: bool,
    ) -> None:
        """Hand over declarations, each thing once; or else what is said of messages."""
        for record in records:
            if not are_declarations:
                if record.kind in ABOUT_MESSAGES:
                    self._take(sink, record)

                continue

            if record.kind in ABOUT_MESSAGES or record.kind in INDEXES:
                continue

            if record.kind in (QUEUE_DECLARED, EXCHANGE_DECLARED):
                holder = self._declared_id(record)
                if holder in known:
                    continue

                known.add(holder)

            self._take(sink, record)

    def _declared_id(self, record: Record) -> int:
        start = record.start + 1
        if record.kind == QUEUE_DECLARED:
            return StoredQueue(record.buffer, start, record.end).log_id

        return StoredExchange(record.buffer, start, record.end).log_id

    def _feed_index(self, sink: RecordSink) -> None:
        """Hand over what the checkpoint says of messages."""
        streams: dict[int, list[bytes]] = {}
        for record in self.readable.checkpoint_records():
            if record.kind == STREAM_INDEX:
                holder = int(u32_at(record.buffer, record.start + HOLDER_START))
                streams.setdefault(holder, []).append(record.body)
            elif record.kind in (INDEX, DUE_INDEX, RETURNED):
                self._take(sink, record)

        for holder, bodies in streams.items():
            for body in self._stream_index(holder, bodies):
                sink.take(body, 0, len(body), 0)

    def _stream_index(self, holder: int, bodies: list[bytes]) -> list[bytes]:
        found, lost = without_lost_entries(holder, bodies, partial(self._can_follow, holder))
        if lost:
            self.lost[self._names.get(holder, "")] += lost

        return found

    def _feed_all(self, sink: RecordSink, records: Iterator[Record]) -> None:
        for record in records:
            self._take(sink, record)

    def _take(self, sink: RecordSink, record: Record) -> None:
        """Hand over one record, without what refers to nothing any more."""
        kind = record.kind
        body: bytes | None = None
        if kind == CLOSED:
            # Something is lost, so nobody knows what was outstanding.
            return

        if kind in (QUEUE_DECLARED, EXCHANGE_DECLARED):
            self._end_namesake(sink, record)
        elif kind == MESSAGE:
            body = self._message_body(record)
        elif kind == MOVED:
            body = self._moved_body(record)
        elif kind in (SETTLED, PURGED):
            body = self._settled_body(record)
        elif kind == RETURNED:
            holder = int(u32_at(record.buffer, record.start + HOLDER_START))
            position = int(u64_at(record.buffer, record.start + ROWS_START))
            if not self._can_follow(holder, position):
                return
        elif kind == INDEX:
            body = self._index_body(record)
        elif kind == DUE_INDEX:
            body = self._due_index_body(record)

        if body is None:
            sink.take(record.buffer, record.start, record.end, record.position)
        else:
            sink.take(body, 0, len(body), record.position)

    def _end_namesake(self, sink: RecordSink, record: Record) -> None:
        """There is one thing of a name: that another was deleted before is lost."""
        holder = self._declared_id(record)
        key = (record.kind, self._names[holder])
        before = self._alive.get(key)
        if before is not None and before != holder:
            kind = QUEUE_DELETED if record.kind == QUEUE_DECLARED else EXCHANGE_DELETED
            body = bytes((kind,)) + before.to_bytes(4, "little")
            sink.take(body, 0, len(body), 0)

        self._alive[key] = holder

    def _can_follow(self, holder: int, position: int) -> bool:
        """Whether a holder's message can be read, at a position or where it was moved to."""
        return self.readable.has_message(position, holder) or position in self._moved

    def _message_body(self, record: Record) -> bytes | None:
        """In a queue that is declared anew nobody knows what a deadline meant: it has none.

        For an exchange that delays it was the time when the message is due.

        """
        stored = StoredMessage(record.buffer, record.start, record.end)
        places = [
            place
            for place in range(int(stored.row_count))
            if int(stored.holder(place)) in self._unknown and stored.deadline(place)
        ]
        if not places:
            return None

        body = bytearray(record.body)
        for place in places:
            start = HEAD_BYTES + ROW_BYTES * place + HOLDER_BYTES
            body[start : start + DEADLINE_BYTES] = bytes(DEADLINE_BYTES)

        return bytes(body)

    def _moved_body(self, record: Record) -> bytes | None:
        """A message whose old place is not there any more has come anew."""
        stored = StoredMessage(record.buffer, record.start, record.end)
        old = int(stored.old_position(0))
        if self._is_indexed or self.readable.has(old):
            return None

        body = record.body
        rows = [
            body[start : start + ROW_BYTES]
            for start in range(
                HEAD_BYTES,
                HEAD_BYTES + int(stored.row_count) * MOVED_ROW_BYTES,
                MOVED_ROW_BYTES,
            )
        ]
        return bytes((MESSAGE,)) + body[1:HEAD_BYTES] + b"".join(rows) + stored.rest()

    def _settled_body(self, record: Record) -> bytes | None:
        body = record.body
        holder = int(u32_at(body, HOLDER_START))
        kept = [
            body[place : place + SETTLED_ROW_BYTES]
            for place in range(ROWS_START, len(body), SETTLED_ROW_BYTES)
            if self._can_follow(holder, int(u64_at(body, place)))
        ]
        if len(kept) * SETTLED_ROW_BYTES == len(body) - ROWS_START:
            return None

        return body[:ROWS_START] + b"".join(kept)

    def _due_index_body(self, record: Record) -> bytes:
        holder = int(u32_at(record.body, HOLDER_START))
        body, lost = without_lost_messages(record.body, partial(self._can_follow, holder))
        if lost:
            self.lost[self._names.get(holder, "")] += lost

        return body

    def _index_body(self, record: Record) -> bytes | None:
        body = record.body
        positions = array("Q")
        positions.frombytes(body[INDEX_POSITIONS_START:])
        holder = int(u32_at(body, HOLDER_START))
        kept = array("Q", [one for one in positions if self._can_follow(holder, one)])
        if len(kept) == len(positions):
            return None

        self._note_lost(holder, positions)
        redelivered = int.from_bytes(body[INDEX_REDELIVERED], "little")
        redelivered -= sum(not self._can_follow(holder, one) for one in positions[:redelivered])
        size = sum(self._body_size(holder, one) for one in kept)
        return (
            body[: INDEX_REDELIVERED.start]
            + redelivered.to_bytes(8, "little")
            + size.to_bytes(8, "little")
            + kept.tobytes()
        )

    def _note_lost(self, holder: int, positions: array[int]) -> None:
        """Count those that cannot be read, but for what was settled since."""
        gone = [one for one in positions if not self._can_follow(holder, one)]
        lost = sum(1 for one in gone if (holder, one) not in self._settled)
        if lost:
            self.lost[self._names.get(holder, "")] += lost

    def _body_size(self, holder: int, position: int) -> int:
        readable = self.readable
        if not readable.has_message(position, holder):
            position = self._moved[position]

        raw = readable.read_at(position, RECORD_HEADER_BYTES)
        size = int(record_end(raw, 0))
        return int(
            StoredMessage(readable.read_at(position, size), RECORD_HEADER_BYTES, size).body_size()
        )

    # -- queues whose declarations are lost

    def _declarations_anew(self) -> Iterator[tuple[int, bytes]]:
        taken = set(self._names.values())
        for holder, keys in sorted(self._unknown.items()):
            name = keys.most_common(1)[0][0]
            if not name or name in taken:
                name = f"{NAMED_ANEW}{holder}"

            taken.add(name)
            self._names[holder] = name
            self.declared_anew.append(name)
            yield holder, _queue_declaration(holder, name)


def _queue_declaration(holder: int, name: str) -> bytes:
    """The record of a durable classic queue."""
    return bytes((QUEUE_DECLARED,)) + encode_table(
        {
            "id": Field("l", holder),
            "name": Field("S", name),
            "type": Field("S", "classic"),
            "auto-delete": Field("t", False),
            "arguments": Field("F", {}),
        }
    )
