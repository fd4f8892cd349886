"""Core: the space that a log takes: checkpoints, and what lets go of segments.

A checkpoint tells the state as of one batch, so that recovery begins there; what it needs of older
segments is messages alone. So a segment before the checkpoint goes when its last message is gone;
and when few of many are left in one, they are copied forward, so that a message which nobody
acknowledges pins itself and not the megabytes around it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.core.declarations import binding_body, policy_body
from broker.core.durable import (
    BOUND,
    MOVED,
    NEXT_ID,
    POLICY_SET,
    StoredMessage,
)
from broker.errors import StoreError
from broker.limits import CHECKPOINT_BYTES, MOVED_BYTES_MAX
from broker.store.api import OFFSET_BITS
from broker.store.records import (
    RECORD_HEADER_BYTES,
    frame_record,
    record_end,
    record_is_whole,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.store.api import Log, Segment

__all__ = ["Books"]

POSITION_BYTES: Final = 8
SHORT_IDLE_BYTES: Final = 4_096
"""For fewer there is no checkpoint, however short the space is."""

COSTS: Final = 4
"""A checkpoint is due when the log has grown by this many times what the last one cost."""

SPARSE: Final = 4
"""A segment is sparse when less than one in so many of its messages, or bytes, is left."""

CHECKPOINT_MS: Final = 1_000
CHECKPOINT_IDLE_BYTES: Final = 1_048_576
"""Of segments with nothing of use in them, that are worth a checkpoint by themselves."""

FEW: Final = 64
"""So few messages may be little of a segment whatever their share in number is."""

SMALL_BYTES: Final = 4_096
"""What is read of a record at first: mostly it is no longer."""


class _Move:
    """A message on its way to another place in the log."""

    __slots__ = ("holder", "new", "old", "raw")

    def __init__(self, holder: Destination, old: int, raw: bytes) -> None:
        self.holder = holder
        self.old = old
        self.raw = raw
        self.new = 0


class Books:
    """What one journal keeps account of.

    Args:
        vhost: whose.
        journal: the one.
        log: the one.

    Attributes:
        is_checkpoint_due: the next time that nothing gathers, a checkpoint is to be written.

    """

    __slots__ = (
        "_checkpoint_ms",
        "_idle_bytes",
        "_journal",
        "_log",
        "_moves",
        "_moving",
        "_other_bytes",
        "_vhost",
        "is_checkpoint_due",
    )

    def __init__(self, vhost: VirtualHost, journal: Journal, log: Log) -> None:
        self._vhost = vhost
        self._journal = journal
        self._log = log
        # What the last checkpoint had beside positions of messages.
        self._other_bytes: i64 = 0
        self._checkpoint_ms: i64 = 0
        self._idle_bytes: i64 = 0
        self._moves: list[_Move] = []
        self._moving: list[_Move] = []
        self.is_checkpoint_due = False

    def look_after(self) -> bool:
        """See whether something can go, or has to be done for that; whether to look again."""
        log = self._log
        if log.is_checkpointing or self._journal.is_stalled:
            return True

        dead = self.dead_segments()
        if dead:
            # What emptied them may still gather: they go when that is safe.
            self._journal.when_safe(lambda: self._remove(dead))

        if self._is_worth_a_checkpoint():
            self.is_checkpoint_due = True
        elif not self._moves and not self._moving:
            try:
                self._choose_moves()
            except StoreError as error:
                self._journal.log_failed(str(error))

        is_waiting = self._journal.is_short or self._idle_bytes >= CHECKPOINT_IDLE_BYTES
        return bool(dead or is_waiting or self._moves or self._moving)

    def dead_segments(self) -> list[int]:
        """Those in which nothing is of use any more, to recovery neither."""
        log = self._log
        return [
            int(segment.number)
            for segment in log.segments.values()
            if segment.live == 0 and segment.number < log.checkpoint_number
        ]

    def _remove(self, numbers: list[int]) -> None:
        segments = self._log.segments
        self._log.remove_segments([number for number in numbers if number in segments])

    def _is_worth_a_checkpoint(self) -> bool:
        log = self._log
        grown: i64 = 0
        idle: i64 = 0
        newest: i64 = 0
        for segment in log.segments.values():
            newest = max(newest, segment.number)

        for segment in log.segments.values():
            if segment.number >= log.checkpoint_number:
                grown += segment.size
                if segment.live == 0 and (segment.number < newest or segment.total > 0):
                    idle += segment.size

        self._idle_bytes = idle
        cost: i64 = self._other_bytes + self._position_bytes()
        is_time = self._vhost.deadlines.now_ms - self._checkpoint_ms >= CHECKPOINT_MS
        if self._journal.is_short:
            # Whatever gives space back is worth it, and what fails is not tried again at once.
            return is_time and idle > max(cost, SHORT_IDLE_BYTES)

        if grown >= max(CHECKPOINT_BYTES, COSTS * cost):
            return True

        # For the space alone once a second will do.
        return is_time and idle >= max(CHECKPOINT_IDLE_BYTES, COSTS * cost)

    # -- checkpoints

    def write_checkpoint(self) -> None:
        """Hand the state over, as it is now."""
        self.is_checkpoint_due = False
        if self._log.is_checkpointing or self._moving:
            return

        records = self.state()
        cost: i64 = 0
        for pieces in records:
            for piece in pieces:
                cost += len(piece)

        self._other_bytes = max(cost - self._position_bytes(), 0)
        self._checkpoint_ms = self._vhost.deadlines.now_ms
        self._log.write_checkpoint(records)

    def _position_bytes(self) -> i64:
        """Of the positions of all messages there are."""
        count: i64 = 0
        for segment in self._log.segments.values():
            count += segment.live

        return POSITION_BYTES * count

    def state(self) -> list[list[bytes]]:
        """All that outlives the broker, as bodies of records in pieces."""
        records = self._declarations()
        unacked = self._unacked()
        for queue in self._vhost.queues.values():
            if queue.log_id > 0:
                queue.append_state(records, unacked.get(queue, []))

        for exchange in self._vhost.exchanges.values():
            if exchange.log_id > 0:
                exchange.append_held(records)

        return records

    def _declarations(self) -> list[list[bytes]]:
        """What people have declared: ends of bindings before those."""
        vhost = self._vhost
        policies = vhost.policies
        bodies = [bytes((NEXT_ID,)) + self._journal.next_id.to_bytes(8, "little")]
        head = bytes((POLICY_SET,))
        bodies += [head + policy_body(one, is_operator=False) for one in policies.policies]
        bodies += [head + policy_body(one, is_operator=True) for one in policies.operator_policies]
        bodies += [one.declaration for one in vhost.exchanges.values() if one.log_id > 0]
        bodies += [one.declaration for one in vhost.queues.values() if one.log_id > 0]
        for exchange in vhost.exchanges.values():
            bindings = [one for one in exchange.bindings.values() if one.durable]
            bodies += [bytes((BOUND,)) + binding_body(one) for one in bindings]

        return [[body] for body in bodies]

    def _unacked(self) -> dict[Queue, list[Message]]:
        """The messages that consumers have, by queue, in serving order."""
        found: dict[Queue, list[Message]] = {}
        for deliveries in self._vhost.deliveries:
            for message in deliveries.outstanding():
                consumer = message.consumer
                if consumer is None or message.record <= 0:
                    continue

                if self._journal.outlives(consumer.queue, message):
                    found.setdefault(consumer.queue, []).append(message)

        for messages in found.values():
            messages.sort(key=_position_of)

        return found

    def unacked_rows(self, queue: Queue) -> array[int]:
        """Positions and body sizes of the messages of a queue that consumers have."""
        rows = array("Q")
        for message in self._unacked().get(queue, []):
            rows.append(int(message.record))
            rows.append(int(message.body_size))

        return rows

    # -- moving messages forward

    def _choose_moves(self) -> None:
        """Read what is left in sparse segments, some of them, to be written again."""
        victims = self._sparse_segments()
        if not victims:
            return

        is_short = self._journal.is_short
        if is_short:
            # What is begun must be finished with the little space there is: no file goes before.
            emptiest = min(victims.values(), key=_live_of)
            victims = {int(emptiest.number): emptiest}

        moves: dict[int, list[_Move]] = {number: [] for number in victims}
        most = min(MOVED_BYTES_MAX, int(self._log.spare_bytes))
        size = 0
        for holder, position in self._positions_in(victims):
            raw = self._read(position)
            moves[position >> OFFSET_BITS].append(_Move(holder, position, raw))
            size += len(raw)
            if size >= most:
                break

        is_too_much = is_short and size >= most
        for number, found in moves.items():
            left = sum([len(move.raw) for move in found])
            if left * SPARSE < victims[number].size and not is_too_much:
                self._moves += found
            else:
                # Few, but large: it is not worth while until some more are gone.
                victims[number].dense_at = victims[number].live

        if self._moves:
            self._journal.mark_dirty()

    def look_again(self) -> None:
        """There is space again: what was too much to be moved may not be any more."""
        for segment in self._log.segments.values():
            segment.dense_at = -1

    def move_out(self, numbers: set[int]) -> bool:
        """Have what is left in these segments written again, as much as goes into one batch.

        For segments that are damaged, and are to go for good (`leveret store repair`).

        Returns whether there was something; then call `Journal.flush`, and this again.

        """
        segments = self._log.segments
        victims = {one: segments[one] for one in numbers if one in segments}
        size = 0
        for holder, position in self._positions_in(victims):
            raw = self._read(position)
            self._moves.append(_Move(holder, position, raw))
            size += len(raw)
            if size >= MOVED_BYTES_MAX:
                break

        if not self._moves:
            return False

        self._journal.mark_dirty()
        return True

    def _sparse_segments(self) -> dict[int, Segment]:
        """Old segments in which little is left, as far as counting tells."""
        log = self._log
        found: dict[int, Segment] = {}
        for number, segment in log.segments.items():
            live: i64 = segment.live
            if segment.number >= log.checkpoint_number or live <= 0 or live == segment.dense_at:
                continue

            if live * SPARSE < segment.total or live <= FEW:
                found[number] = segment

        return found

    def _read(self, position: int) -> bytes:
        """The record at a position.

        Raises:
            StoreError: it cannot be read, or is damaged.

        """
        raw = self._log.read_at(position, RECORD_HEADER_BYTES + SMALL_BYTES)
        stop = int(record_end(raw, 0))
        if stop > len(raw):
            raw = self._log.read_at(position, stop)

        if not record_is_whole(raw, 0, len(raw)):
            raise StoreError(f"{self._log.place_of(position)}: the message there is damaged")

        return raw[:stop]

    def _positions_in(self, victims: dict[int, Segment]) -> list[tuple[Destination, int]]:
        """Who has messages in these segments, and where exactly."""
        found: list[tuple[Destination, int]] = []
        written: i64 = self._journal.written_until
        for holder, message in self._hot_messages():
            record: i64 = message.record
            if 0 < record < written and int(record >> OFFSET_BITS) in victims:
                found.append((holder, int(record)))

        numbers = set(victims)
        for holder in self._holders():
            found += [(holder, one) for one in holder.places_in(numbers)]

        return found

    def _holders(self) -> list[Destination]:
        """Whoever may have messages on disk alone."""
        return [*self._vhost.queues.values(), *self._vhost.exchanges.values()]

    def _hot_messages(self) -> list[tuple[Destination, Message]]:
        """All messages in memory that may have a record, with their holders."""
        found: list[tuple[Destination, Message]] = []
        vhost = self._vhost
        for queue in vhost.queues.values():
            if queue.journal is not None:
                found += [(queue, message) for message in queue.hot_messages()]

        for exchange in vhost.exchanges.values():
            found += [(exchange, message) for message in exchange.stored_messages()]

        for deliveries in vhost.deliveries:
            for message in deliveries.outstanding():
                consumer = message.consumer
                if consumer is not None:
                    found.append((consumer.queue, message))

        return found

    def seal_moves(self, pieces: list[bytes], offset: i64) -> i64:
        """Add the records of messages that move to a batch; returns where it ends then."""
        moves = self._moves
        if not moves:
            return offset

        self._moves = []
        segment = self._log.segments[int(offset >> OFFSET_BITS)]
        for move in moves:
            record = frame_record(_moved_body(move))
            move.new = int(offset)
            move.raw = b""
            pieces.append(record)
            offset += len(record)
            segment.live += 1
            segment.total += 1

        self._moving = moves
        return offset

    def batch_safe(self) -> None:
        """The records of messages that moved are safe: from now on they are where these stand."""
        moves = self._moving
        if not moves:
            return

        self._moving = []
        self._relocate(moves)

    def _relocate(self, moves: list[_Move]) -> None:
        left: dict[tuple[int, int], int] = {}
        for move in moves:
            left[(id(move.holder), move.old)] = move.new

        count_dead = self._journal.count_dead
        for holder, message in self._hot_messages():
            new = left.pop((id(holder), int(message.record)), None)
            if new is not None:
                count_dead(message.record)
                message.record = new

        for holder in self._holders():
            own = {old: new for (owner, old), new in left.items() if owner == id(holder)}
            if own:
                for old in holder.move_cold(own):
                    del left[(id(holder), old)]
                    count_dead(old)

        # What was settled meanwhile is settled for good: nobody needs the copy.
        for new in left.values():
            count_dead(new)


def _live_of(segment: Segment) -> int:
    return int(segment.live)


def _position_of(message: Message) -> int:
    return int(message.position)


def _moved_body(move: _Move) -> bytes:
    """The record of a message with its one holder, and where it was before."""
    raw = move.raw
    stored = StoredMessage(raw, RECORD_HEADER_BYTES, len(raw))
    holder_id = max(int(move.holder.log_id), 0)
    head = bytes((MOVED,)) + raw[RECORD_HEADER_BYTES + 1 : RECORD_HEADER_BYTES + 3] + b"\x01"
    deadline = int(stored.deadline_of(holder_id))
    row = (
        holder_id.to_bytes(4, "little")
        + deadline.to_bytes(8, "little")
        + move.old.to_bytes(8, "little")
    )
    return head + row + stored.rest()
