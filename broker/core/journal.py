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

from broker.core.books import Books
from broker.core.declared import DeclarationJournal
from broker.core.durable import CLOSED, OPENED
from broker.core.message import GONE_RECORD, PENDING, Message
from broker.core.queue.cold import POSITION_MASK
from broker.core.reading import LogReader
from broker.core.sealing import MessageSeal, seal_returned, seal_settled
from broker.errors import StoreError
from broker.limits import HOT_SHORT_MAX, STORE_RETRY_MS, STORE_SYNC_MS
from broker.store.api import OFFSET_BITS, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.confirms import Confirms
    from broker.core.output import Output
    from broker.core.vhost import VirtualHost
    from broker.store.api import Log

__all__ = ["Journal"]

NO_SEGMENT: Final = -1


class Journal(DeclarationJournal):
    """The durable side of one virtual host.

    Args:
        vhost: whose.
        log: keeps the batches.
        on_failure: told why the broker has to stop.

    Attributes:
        is_dirty: something gathers for the next batch.
        written_until: messages with a smaller position can be read back.
        additions: messages that were ever given to `add`; tells whether a publish left any.
        written_count: messages that were ever handed over to be written.
        is_stalled: there is no space on the disk, and what gathers cannot be written.
        is_short: there is none but what was kept back for that.

    """

    __slots__ = (
        "_actions",
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
        "_on_failure",
        "_outputs",
        "_reader",
        "_returned",
        "_segment",
        "_segment_number",
        "_settling",
        "_spilling",
        "_vhost",
        "additions",
        "books",
        "is_dirty",
        "is_short",
        "is_stalled",
        "log",
        "pending_bytes",
        "written_count",
        "written_until",
    )

    def __init__(self, vhost: VirtualHost, log: Log, on_failure: Callable[[str], None]) -> None:
        super().__init__()
        self._vhost = vhost
        self.log = log
        self._reader = LogReader(log, vhost.deadlines)
        self._on_failure = on_failure
        self.is_dirty = False
        self.is_stalled = False
        self._is_closed = False
        self._is_looked_after = False
        self.is_short = False
        self._declarations_held = False
        self.additions: i64 = 0
        self.written_count: i64 = 0
        self.pending_bytes: i64 = 0
        self.written_until: i64 = 0
        self._commit_end: i64 = 0
        # What gathers beside declarations: messages with their holders, settlements.
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
        self._spilling: dict[Destination, None] = {}
        self._segment: Segment | None = None
        self._segment_number: i64 = NO_SEGMENT
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

    def adopt(self, holder: Destination) -> None:
        """From now on a holder of messages tells what happens to them."""
        holder.journal_started(self)

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

    @property
    def read_count(self) -> i64:
        """Messages that were ever read back."""
        return self._reader.count

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
        is_late = self.log.is_writing and self.pending_bytes > self.log.pending_bytes_max
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
        """Make a batch of what has gathered, and hand it over.

        Declarations come first, then messages, moved ones, what was given back, what was settled.
        A queue that was purged or deleted has none of the messages behind: those that it had are
        GONE, and those that came to it later are to stay. A message is moved before it is settled,
        so a settlement may name the old place: recovery knows both.

        """
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
        seal_returned(pieces, self._returned)
        self._returned.clear()
        seal_settled(pieces, self._settling)
        self._settling.clear()
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
        """Add the records of the messages; returns the position behind them."""
        messages = self._messages
        if not messages:
            return offset

        holders = self._holders
        self._messages = []
        self._holders = []
        segment = self.log.segments[int(offset >> OFFSET_BITS)]
        seal = MessageSeal(pieces, offset, segment, self._vhost.deadlines.wall_offset_ms)
        seal.add_all(messages, holders)
        self.written_count += seal.count
        last: Destination | None = None
        for holder in holders:
            if holder is not last:
                last = holder
                self._touch(holder)

        return seal.offset

    def _touch(self, holder: Destination) -> None:
        if holder.awaits_log():
            self._spilling[holder] = None

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

        for holder in list(self._spilling):
            if not holder.written(self):
                del self._spilling[holder]

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
            return self._reader.load(holder, positions)
        except StoreError as error:
            self._on_failure(str(error))
            raise

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

    def log_short(self, is_short: bool) -> None:
        """Publishers wait while the space that was kept back is in use; the others may go on."""
        self.is_short = is_short
        name = "store.short" if is_short else "store.enough"
        self._vhost.log("warning" if is_short else "info", name, {"vhost": self._vhost.name})
        self._vhost.space_changed()
        if is_short:
            self._regain_later()
        else:
            self.books.look_again()

    def _regain_later(self) -> None:
        deadlines = self._vhost.deadlines
        deadlines.schedule(deadlines.now_ms + STORE_RETRY_MS, self._regain)

    def _regain(self) -> None:
        if self.is_short and not self._is_closed:
            self.log.regain()
            self._regain_later()

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
