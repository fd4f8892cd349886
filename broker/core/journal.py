"""Core: what a virtual host tells its log, and what waits until the log has it.

Everything durable that happens in one turn of the loop gathers here and becomes one batch when the
turn ends, unless the batch before is still on its way: then the next turns gather too. A message
that is settled before its batch is handed over is never written. Confirms, and the output of
connections that wait for an answer, leave when the batch is safe (`Journal.batch_safe`).

``Message.record`` says where a message stands: 0, it has no record; PENDING, it gathers here; GONE,
it did and was settled; greater, its position in the log.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final
from zlib import crc32

from broker.core.binding import NO_ROWS
from broker.core.books import Books
from broker.core.declarations import (
    binding_body,
    exchange_body,
    policy_body,
    policy_name_body,
    queue_body,
)
from broker.core.durable import (
    BOUND,
    CLOSED,
    EXCHANGE_DECLARED,
    EXCHANGE_DELETED,
    MESSAGE,
    OPENED,
    POLICY_CLEARED,
    POLICY_SET,
    PURGED,
    QUEUE_DECLARED,
    QUEUE_DELETED,
    RETURNED,
    SETTLED,
    STREAM_TRUNCATED,
    UNBOUND,
    StoredMessage,
    encode_head,
    encode_tail,
)
from broker.core.message import GONE_RECORD, NO_DEADLINE, PENDING, Message
from broker.core.queue.cold import POSITION_MASK
from broker.errors import StoreError
from broker.limits import (
    COLD_READ_BYTES_MAX,
    HOT_SHORT_MAX,
    PENDING_BYTES_MAX,
    STORE_RETRY_MS,
    STORE_SYNC_MS,
)
from broker.store.api import OFFSET_BITS, LogOwner, Segment
from broker.store.records import RECORD_HEADER_BYTES, frame_record, record_end, record_is_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mypy_extensions import i64

    from broker.core.binding import Binding, Destination
    from broker.core.confirms import Confirms
    from broker.core.exchange.base import Exchange
    from broker.core.message import Address
    from broker.core.output import Output
    from broker.core.policy import Policy
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.store.api import Log

__all__ = ["Journal"]

ADDRESSES_MAX: Final = 1_024
"""Addresses of messages that were read back, remembered."""

NO_SEGMENT: Final = -1

ROWS_MAX: Final = 255
"""Holders in one record: their number is one octet."""


class Journal(LogOwner):
    """The durable side of one virtual host.

    Args:
        vhost: whose.
        log: keeps the batches.
        on_failure: told why the broker has to stop.

    Attributes:
        is_dirty: something gathers for the next batch.
        written_until: messages with a smaller position can be read back.
        additions: messages that were ever given to `add`; tells whether a publish left any.
        read_count: messages that were ever read back.
        written_count: messages that were ever handed over to be written.
        is_stalled: there is no space on the disk, and what gathers cannot be written.

    """

    __slots__ = (
        "_actions",
        "_addresses",
        "_commit_end",
        "_confirms",
        "_declarations_held",
        "_held_actions",
        "_held_confirms",
        "_held_outputs",
        "_holders",
        "_is_closed",
        "_is_looked_after",
        "_messages",
        "_next_id",
        "_on_failure",
        "_outputs",
        "_records",
        "_returned",
        "_segment",
        "_segment_number",
        "_settling",
        "_spilling",
        "_touched",
        "_vhost",
        "additions",
        "books",
        "declarations_pending",
        "is_dirty",
        "is_stalled",
        "log",
        "pending_bytes",
        "read_count",
        "written_count",
        "written_until",
    )

    def __init__(self, vhost: VirtualHost, log: Log, on_failure: Callable[[str], None]) -> None:
        self._vhost = vhost
        self.log = log
        self._on_failure = on_failure
        self.is_dirty = False
        self.is_stalled = False
        self._is_closed = False
        self._is_looked_after = False
        self.declarations_pending = False
        self._declarations_held = False
        self.additions: i64 = 0
        self.read_count: i64 = 0
        self.written_count: i64 = 0
        self.pending_bytes: i64 = 0
        self.written_until: i64 = 0
        self._commit_end: i64 = 0
        self._next_id: i64 = 1
        # What gathers: records of declarations, messages with their holders, settlements.
        self._records: list[bytes] = []
        self._messages: list[Message] = []
        self._holders: list[Destination] = []
        self._returned: list[tuple[Destination, Message, int]] = []
        self._settling: list[Destination] = []
        # Who waits: for the batch that gathers, and for the one on its way.
        self._confirms: list[Confirms] = []
        self._outputs: list[Output] = []
        self._actions: list[Callable[[], None]] = []
        self._held_confirms: list[tuple[Confirms, int]] = []
        self._held_outputs: list[Output] = []
        self._held_actions: list[Callable[[], None]] = []
        self._touched: list[Queue] = []
        self._spilling: dict[Queue, None] = {}
        self._segment: Segment | None = None
        self._segment_number: i64 = NO_SEGMENT
        self._addresses: dict[bytes, Address] = {}
        self.books = Books(vhost, self, log)

    def start(self, next_id: int) -> None:
        """Recovery is over: begin to write.

        Args:
            next_id: that no holder has had before.

        """
        self._next_id = next_id
        self.written_until = (1 << 62) - 1
        self.log.start(self)
        # Nothing is being written: everything that has a position can be read.
        self._append(bytes((OPENED,)))
        self.flush()

    def _tick(self) -> None:
        """Now and then: sync what is not synced batch by batch, and see to the space."""
        self._is_looked_after = False
        if self._is_closed:
            return

        self.log.sync_soon()
        has_more = self.books.look_after()
        self.flush()
        if has_more or self.is_dirty or self.log.is_writing or self.log.is_checkpointing:
            self._look_after_soon()

    def _look_after_soon(self) -> None:
        if not self._is_looked_after:
            self._is_looked_after = True
            deadlines = self._vhost.deadlines
            deadlines.schedule(deadlines.now_ms + STORE_SYNC_MS, self._tick)

    # -- declarations

    def mark_dirty(self) -> None:
        """Something gathers: have `flush` called when the turn ends."""
        if not self.is_dirty:
            self.is_dirty = True
            self._vhost.dirty_journals.append(self)
            self._look_after_soon()

    def _append(self, body: bytes) -> None:
        """Have a declaration, or the like, written."""
        self._records.append(frame_record(body))
        self.declarations_pending = True
        self.mark_dirty()

    def _new_id(self) -> int:
        number = int(self._next_id)
        self._next_id += 1
        return number

    @property
    def next_id(self) -> int:
        """The identity that the next holder gets."""
        return int(self._next_id)

    def queue_declared(self, queue: Queue) -> None:
        """A durable queue has come to be."""
        queue.log_id = self._new_id()
        queue.declaration = bytes((QUEUE_DECLARED,)) + queue_body(queue)
        queue.journal_started(self)
        self._append(queue.declaration)

    def queue_deleted(self, queue: Queue) -> None:
        """A durable queue is gone, with all it holds."""
        self._append(bytes((QUEUE_DELETED,)) + int(queue.log_id).to_bytes(4, "little"))
        queue.log_id = 0

    def exchange_declared(self, exchange: Exchange) -> None:
        """A durable exchange has come to be."""
        exchange.log_id = self._new_id()
        exchange.journal = self
        exchange.declaration = bytes((EXCHANGE_DECLARED,)) + exchange_body(exchange)
        self._append(exchange.declaration)

    def exchange_deleted(self, exchange: Exchange) -> None:
        """A durable exchange is gone."""
        self._append(bytes((EXCHANGE_DELETED,)) + int(exchange.log_id).to_bytes(4, "little"))
        exchange.log_id = 0

    def bound(self, binding: Binding) -> None:
        """A durable binding has come to be."""
        self._append(bytes((BOUND,)) + binding_body(binding))

    def unbound(self, binding: Binding) -> None:
        """A durable binding is gone, while both its ends are there."""
        self._append(bytes((UNBOUND,)) + binding_body(binding))

    def policy_set(self, policy: Policy, *, is_operator: bool) -> None:
        """A policy was set or replaced."""
        self._append(bytes((POLICY_SET,)) + policy_body(policy, is_operator=is_operator))

    def policy_cleared(self, name: str, *, is_operator: bool) -> None:
        """A policy is gone."""
        self._append(bytes((POLICY_CLEARED,)) + policy_name_body(name, is_operator=is_operator))

    def stream_truncated(self, holder: Destination, first_offset: int) -> None:
        """A stream has dropped all before an offset."""
        body = int(holder.log_id).to_bytes(4, "little") + first_offset.to_bytes(8, "little")
        self._append(bytes((STREAM_TRUNCATED,)) + body)

    def purged(self, holder: Destination, kept: array[int]) -> None:
        """A queue has dropped all but some.

        Args:
            holder: the queue.
            kept: position and body size of each that stays.

        """
        # Those that have left since the last batch are dropped like all the others.
        holder.settled_rows = NO_ROWS
        head = bytes((PURGED,)) + int(holder.log_id).to_bytes(4, "little")
        self._append(head + kept.tobytes())

    # -- messages

    def add(self, holder: Destination, message: Message) -> None:
        """A message has come to a holder, and is to outlive the broker."""
        message.record = PENDING
        self.additions += 1
        self._messages.append(message)
        self._holders.append(holder)
        self.pending_bytes += len(message.content)
        if not self.is_dirty:
            self.mark_dirty()

    def outlives(self, holder: Destination, message: Message) -> bool:
        """Whether a message is to be there after a restart."""
        return holder.log_id > 0 and (message.is_persistent or holder.keeps_all)

    def page_out(self, holder: Destination, message: Message) -> None:
        """Have a message written that is not to outlive the broker, to free its memory."""
        self.add(holder, message)

    def settled(self, holder: Destination, message: Message) -> None:
        """A message has left its holder for good."""
        record: i64 = message.record
        if record > 0:
            message.record = 0
            self.count_dead(record)
            if holder.log_id > 0 and (message.is_persistent or holder.keeps_all):
                rows = holder.settled_rows
                if not rows:
                    rows = array("Q")
                    holder.settled_rows = rows
                    self._settling.append(holder)

                rows.append(int(record))
                rows.append(int(message.body_size))
                self.mark_dirty()
        elif record == PENDING:
            message.record = GONE_RECORD

    def returned(self, holder: Destination, message: Message, due_wall_ms: int) -> None:
        """A message was given back, and how often that was is to outlive the broker."""
        if message.record:
            self._returned.append((holder, message, due_wall_ms))
            self.mark_dirty()

    def count_dead(self, record: i64) -> None:
        """A message of a segment is of no use any more."""
        number: i64 = record >> OFFSET_BITS
        if number != self._segment_number:
            self._segment_number = number
            self._segment = self.log.segments.get(int(number))

        segment = self._segment
        if segment is not None:
            segment.live -= 1

    def forget(self, messages: list[Message]) -> None:
        """Messages are gone without a word of their own: their holder was purged or deleted."""
        for message in messages:
            record: i64 = message.record
            if record > 0:
                message.record = 0
                self.count_dead(record)
            elif record == PENDING:
                message.record = GONE_RECORD

    def forget_positions(self, positions: Iterable[int]) -> None:
        """The same for messages on disk, by their positions, marked or not."""
        for position in positions:
            self.count_dead(position & POSITION_MASK)

    # -- who waits

    def hold_confirm(self, confirms: Confirms) -> None:
        """The next publish of a channel is answered when what gathers now is safe."""
        confirms.hold()
        if not confirms.is_gathering:
            confirms.is_gathering = True
            self._confirms.append(confirms)

    def hold_output(self, output: Output) -> None:
        """A connection says no more until what has happened up to now is safe."""
        if output.is_gated:
            return

        if self.is_dirty:
            output.is_gated = True
            self._outputs.append(output)
        elif self.log.is_writing:
            output.is_gated = True
            self._held_outputs.append(output)

    def has_declarations(self) -> bool:
        """Whether something was declared or deleted that is not safe yet."""
        return self.declarations_pending or self._declarations_held

    @property
    def is_behind(self) -> bool:
        """Whether more gathers than should: the disk does not keep up."""
        is_late = self.log.is_writing and self.pending_bytes > PENDING_BYTES_MAX
        return is_late and not self.is_stalled

    def when_safe(self, action: Callable[[], None]) -> None:
        """Call something when all that has happened up to now is safe."""
        if self.is_dirty:
            self._actions.append(action)
        elif self.log.is_writing:
            self._held_actions.append(action)
        else:
            action()

    # -- batches

    def flush(self) -> None:
        """The turn ends: hand over what has gathered, unless the last batch is on its way."""
        if self.log.is_writing or self._is_closed:
            return

        if self.is_dirty:
            self._seal()

        if self.books.is_checkpoint_due:
            # Nothing gathers now: the state is what the log has, with the batch just handed over.
            self.books.write_checkpoint()

    def _seal(self) -> None:
        log = self.log
        start: i64 = log.begin_batch()
        pieces = self._records
        self._records = []
        offset: i64 = start
        for piece in pieces:
            offset += len(piece)

        offset = self._seal_messages(pieces, offset)
        offset = self.books.seal_moves(pieces, offset)
        self._commit_end = offset
        self._seal_settlements(pieces)
        size: i64 = 0
        for piece in pieces:
            size += len(piece)

        self.is_dirty = False
        self._declarations_held = self.declarations_pending
        self.declarations_pending = False
        self.pending_bytes = 0
        for confirms in self._confirms:
            confirms.is_gathering = False
            self._held_confirms.append((confirms, int(confirms.last_held)))

        self._confirms.clear()
        self._held_outputs = self._outputs
        self._outputs = []
        self._held_actions = self._actions
        self._actions = []
        self.written_until = start
        log.commit_batch(pieces, size)

    def _seal_messages(self, pieces: list[bytes], offset: i64) -> i64:
        """Add the records of the messages; they learn their positions."""
        messages = self._messages
        if not messages:
            return offset

        holders = self._holders
        self._messages = []
        self._holders = []
        segment = self.log.segments[int(offset >> OFFSET_BITS)]
        wall_offset: i64 = self._vhost.deadlines.wall_offset_ms
        count: i64 = len(messages)
        place: i64 = 0
        last: Destination | None = None
        while place < count:
            message = messages[place]
            if message.record != PENDING:
                place += 1
                continue

            content = message.logged_content()
            stop: i64 = place + 1
            while (
                stop < count
                and stop - place < ROWS_MAX
                and _is_twin(message, messages[stop])
                and holders[stop].log_id > 0
            ):
                stop += 1

            if stop == place + 1 and message.deadline_ms == NO_DEADLINE:
                head = _head_of(message, holders[place])
                crc: i64 = crc32(content, message.address.log_crc)
                message.record = offset
                live: i64 = 1
            else:
                live = 0
                rows: list[bytes] = []
                while place < stop:
                    one = messages[place]
                    if one.record == PENDING:
                        one.record = offset
                        live += 1
                        rows.append(_row(holders[place], one, wall_offset))
                        self._touch(holders[place])

                    place += 1

                place = stop - 1
                head = encode_head(message, live, MESSAGE) + b"".join(rows) + encode_tail(message)
                crc = crc32(content, crc32(head))

            size: i64 = len(head) + len(content)
            pieces.append(_record_header(size, crc))
            pieces.append(head)
            pieces.append(content)
            offset += RECORD_HEADER_BYTES + size
            segment.live += live
            segment.total += live
            self.written_count += 1
            holder = holders[place]
            if holder is not last:
                last = holder
                self._touch(holder)

            place += 1

        return offset

    def _touch(self, holder: Destination) -> None:
        queue = holder.as_queue()
        if queue is not None and queue.awaits_log():
            self._spilling[queue] = None

    def _seal_settlements(self, pieces: list[bytes]) -> None:
        for holder, message, due_wall_ms in self._returned:
            if message.record > 0 and holder.log_id > 0:
                body = (
                    bytes((RETURNED,))
                    + int(holder.log_id).to_bytes(4, "little")
                    + int(message.record).to_bytes(8, "little")
                    + int(message.return_count_logged()).to_bytes(4, "little")
                    + due_wall_ms.to_bytes(8, "little")
                )
                pieces.append(frame_record(body))

        self._returned.clear()
        for holder in self._settling:
            rows = holder.settled_rows
            holder.settled_rows = NO_ROWS
            if rows and holder.log_id > 0:
                head = bytes((SETTLED,)) + int(holder.log_id).to_bytes(4, "little")
                pieces.append(frame_record(head + rows.tobytes()))

        self._settling.clear()

    def batch_safe(self) -> None:
        """What was handed over is safe: who waited for it goes on."""
        self.written_until = self._commit_end
        self._declarations_held = False
        held = self._held_confirms
        self._held_confirms = []
        for confirms, number in held:
            confirms.release(number)

        outputs = self._held_outputs
        self._held_outputs = []
        for output in outputs:
            output.open_gate()

        actions = self._held_actions
        self._held_actions = []
        for action in actions:
            action()

        self.books.batch_safe()
        self._spill()

    def _spill(self) -> None:
        """Have deep queues let go of what can be read back, and streams go on."""
        if not self._spilling:
            return

        for queue in list(self._spilling):
            if queue.is_deleted or not queue.written(self):
                del self._spilling[queue]

    def page_out_all(self) -> None:
        """Memory is short: leave all but a few messages of each queue to the disk."""
        for queue in self._vhost.queues.values():
            if queue.ready_count > HOT_SHORT_MAX:
                queue.journal = self
                if queue.ready.spill(self, queue, HOT_SHORT_MAX):
                    self._spilling[queue] = None

    # -- reading back

    def load(self, holder: Destination, positions: list[int]) -> list[Message]:
        """The messages at the first few of these positions, at least one, for their holder.

        Raises:
            StoreError: the log cannot be read, or is damaged: the broker stops.

        """
        try:
            return self._load(holder, positions)
        except StoreError as error:
            self._on_failure(str(error))
            raise

    def _load(self, holder: Destination, positions: list[int]) -> list[Message]:
        first: i64 = positions[0]
        last: i64 = first
        count: i64 = 0
        for position in positions:
            if position < last or position - first >= COLD_READ_BYTES_MAX:
                break

            last = position
            count += 1

        size: i64 = last - first + SMALL_READ_BYTES
        buffer = self.log.read_at(first, size)
        messages: list[Message] = []
        place: i64 = 0
        while place < count:
            position = positions[place]
            start: i64 = position - first
            if start + RECORD_HEADER_BYTES > len(buffer) or record_end(buffer, start) > len(buffer):
                if messages:
                    break

                buffer = self._read_large(first, buffer)

            messages.append(self._message_at(holder, buffer, start, position))
            place += 1

        self.read_count += count
        return messages

    def _read_large(self, position: i64, buffer: bytes) -> bytes:
        """One record that did not fit into what was read at first."""
        size: i64 = RECORD_HEADER_BYTES
        if len(buffer) >= RECORD_HEADER_BYTES:
            size = record_end(buffer, 0)

        return self.log.read_at(position, size)

    def _message_at(self, holder: Destination, buffer: bytes, start: i64, position: i64) -> Message:
        if not record_is_whole(buffer, start, len(buffer)):
            raise StoreError(f"{self.log.place_of(position)}: the message there is damaged")

        if len(self._addresses) > ADDRESSES_MAX:
            self._addresses.clear()

        body: i64 = start + RECORD_HEADER_BYTES
        stored = StoredMessage(buffer, body, record_end(buffer, start))
        message = stored.to_message(self._addresses)
        message.record = position
        deadline: i64 = stored.deadline_of(holder.log_id)
        if deadline:
            message.deadline_ms = max(deadline - self._vhost.deadlines.wall_offset_ms, 1)

        return message

    # -- trouble

    def log_stalled(self, reason: str) -> None:
        """There is no space: publishers are stopped, and it is tried again."""
        if not self.is_stalled:
            self.is_stalled = True
            self._vhost.log("error", "store.full", {"reason": reason})
            self._vhost.space_changed()

        deadlines = self._vhost.deadlines
        deadlines.schedule(deadlines.now_ms + STORE_RETRY_MS, self.log.retry)

    def log_resumed(self) -> None:
        """There is space again."""
        self.is_stalled = False
        self._vhost.log("info", "store.resumed", {"vhost": self._vhost.name})
        self._vhost.space_changed()

    def log_failed(self, reason: str) -> None:
        """The disk cannot be trusted any more: the broker stops."""
        self._on_failure(reason)

    # -- the end

    def abandon(self) -> None:
        """The virtual host is gone: nothing is written any more, and nobody waits."""
        self._is_closed = True
        self.is_dirty = False
        for output in [*self._outputs, *self._held_outputs]:
            output.open_gate()

        self._outputs = []
        self._held_outputs = []

    def close_cleanly(self) -> None:
        """Everything is settled or given back: say so, as the last record."""
        self._append(bytes((CLOSED,)))


SMALL_READ_BYTES: Final = 4_096
"""Read behind the start of the last message that is wanted, so that it is mostly whole."""


def _is_twin(first: Message, other: Message) -> bool:
    """Whether another message of the batch is the same one, for another queue."""
    return (
        other.content is first.content
        and other.address is first.address
        and other.history is first.history
    )


def _head_of(message: Message, holder: Destination) -> bytes:
    """All in front of the content of a message with one holder and no deadline.

    It is the same for message after message, so it is kept with the address.

    """
    address = message.address
    if message.history is None and (
        address.log_holder is holder
        and address.log_is_persistent == message.is_persistent
        and address.log_priority == message.priority
    ):
        return address.log_head

    head = (
        encode_head(message, 1, MESSAGE)
        + max(int(holder.log_id), 0).to_bytes(4, "little")
        + bytes(8)
        + encode_tail(message)
    )
    # The one for a message with a history is not looked up again, but for its checksum.
    address.log_holder = holder if message.history is None else None
    address.log_is_persistent = message.is_persistent
    address.log_priority = message.priority
    address.log_head = head
    address.log_crc = crc32(head)
    return head


def _row(holder: Destination, message: Message, wall_offset_ms: i64) -> bytes:
    deadline: i64 = message.deadline_ms
    if deadline != NO_DEADLINE:
        deadline += wall_offset_ms

    return max(int(holder.log_id), 0).to_bytes(4, "little") + int(deadline).to_bytes(8, "little")


def _record_header(size: i64, crc: i64) -> bytes:
    return bytes(
        (
            size & 255,
            (size >> 8) & 255,
            (size >> 16) & 255,
            (size >> 24) & 255,
            crc & 255,
            (crc >> 8) & 255,
            (crc >> 16) & 255,
            (crc >> 24) & 255,
        )
    )
