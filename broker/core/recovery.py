"""Core: from the records of a log to a virtual host as it was.

Records come in the order of the log. Declarations are done at once, through the same classes as
ever; of messages nothing is kept but positions, eight bytes each, until all has been read: then
every queue gets its own, and reads the messages themselves when they are to be served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.declarations import StoredBinding, StoredExchange, StoredQueue, policy_of
from broker.core.durable import (
    BOUND,
    CLOSED,
    DUE_INDEX,
    EXCHANGE_DECLARED,
    EXCHANGE_DELETED,
    INDEX,
    MESSAGE,
    MOVED,
    NEXT_ID,
    OPENED,
    POLICY_CLEARED,
    POLICY_SET,
    PURGED,
    QUEUE_DECLARED,
    QUEUE_DELETED,
    RETURNED,
    SETTLED,
    SETTLED_ROW_BYTES,
    STREAM_INDEX,
    STREAM_TRUNCATED,
    UNBOUND,
    StoredMessage,
)
from broker.core.exchange.base import remove_incoming_bindings
from broker.core.exchange.delay_recovery import RecoveredDelays
from broker.core.exchange.delayed import DelayedExchange
from broker.core.exchange.registry import create_exchange
from broker.core.journal import Journal
from broker.core.queue.arguments import validate_arguments
from broker.core.queue.registry import create_queue
from broker.core.queue.stream import StreamQueue
from broker.core.queue.stream_recovery import RecoveredStream
from broker.core.recovered import Live, Recovered
from broker.errors import BrokerError, StoreError
from broker.limits import RECOVERY_PROGRESS_COUNT
from broker.store.api import OFFSET_BITS
from broker.store.records import RecordSink, u32_at, u64_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.vhost import VirtualHost
    from broker.store.api import Log

__all__ = ["recover_vhost"]

RETURNED_ROW_BYTES: Final = 20


class _Recovery(RecordSink):
    """Takes the records of a log, and makes a virtual host of them."""

    __slots__ = ("_found", "_message_count", "_vhost", "holders", "is_clean", "next_id", "totals")

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self.holders: dict[int, Recovered] = {}
        self.next_id = 1
        self.is_clean = False
        self.totals: dict[int, int] = {}
        self._message_count: i64 = 0

    def take(self, buffer: bytes, start: i64, end: i64, position: i64) -> None:
        kind: i64 = buffer[start]
        if kind in (MESSAGE, MOVED):
            self._take_message(buffer, start, end, position)
        elif kind == SETTLED:
            self._take_settled(buffer, start, end)
        else:
            self._take_other(kind, buffer, start + 1, end)

    def _take_message(self, buffer: bytes, start: i64, end: i64, position: i64) -> None:
        stored = StoredMessage(buffer, start, end)
        number = int(position >> OFFSET_BITS)
        self.totals[number] = self.totals.get(number, 0) + int(stored.row_count)
        self._message_count += 1
        if self._message_count % RECOVERY_PROGRESS_COUNT == 0:
            fields: dict[str, object] = {
                "vhost": self._vhost.name,
                "messages": int(self._message_count),
            }
            self._vhost.log("info", "store.recovering", fields)

        place: i64 = 0
        while place < stored.row_count:
            found = self.holders.get(int(stored.holder(place)))
            if found is not None:
                if stored.kind == MOVED:
                    found.move(int(stored.old_position(place)), int(position))
                elif stored.is_persistent() or found.holder.keeps_all:
                    found.add(stored, place, position)

            place += 1

    def _take_settled(self, buffer: bytes, start: i64, end: i64) -> None:
        found = self.holders.get(int(u32_at(buffer, start + 1)))
        if found is None:
            return

        place: i64 = start + 5
        while place < end:
            found.settle(int(u64_at(buffer, place)), u32_at(buffer, place + 8))
            place += SETTLED_ROW_BYTES

    def _take_other(self, kind: i64, buffer: bytes, start: i64, end: i64) -> None:
        if kind in (QUEUE_DECLARED, EXCHANGE_DECLARED, BOUND, UNBOUND):
            self._take_declaration(kind, buffer, int(start), int(end))
        elif kind in (POLICY_SET, POLICY_CLEARED):
            self._take_policy(buffer, int(start), int(end))
        elif kind == OPENED:
            self.is_clean = False
        elif kind == CLOSED:
            self.is_clean = True
        elif kind == NEXT_ID:
            self.next_id = max(self.next_id, int(u64_at(buffer, start)))
        else:
            self._take_of_holder(kind, buffer, start, end)

    def _take_of_holder(self, kind: i64, buffer: bytes, start: i64, end: i64) -> None:
        number = int(u32_at(buffer, start))
        found = self.holders.get(number)
        if found is None:
            return

        place: i64 = start + 4
        if kind == RETURNED:
            due = int(u64_at(buffer, place + 12))
            found.give_back(int(u64_at(buffer, place)), int(u32_at(buffer, place + 8)), due)
        elif kind == PURGED:
            kept: dict[int, int] = {}
            while place < end:
                kept[int(u64_at(buffer, place))] = int(u64_at(buffer, place + 8))
                place += SETTLED_ROW_BYTES

            found.purge(kept)
        elif kind == INDEX:
            level = found.level(buffer[place])
            found.has_deadlines |= buffer[place + 1] != 0
            level.redelivered_count += u64_at(buffer, place + 4)
            found.body_bytes += u64_at(buffer, place + 12)
            level.positions.frombytes(buffer[place + 20 : end])
        elif kind == STREAM_INDEX:
            found.take_stream_index(buffer, place, end)
        elif kind == DUE_INDEX:
            found.take_due_index(buffer, place, end)
        elif kind == STREAM_TRUNCATED:
            found.truncate(u64_at(buffer, place))
        elif kind in (QUEUE_DELETED, EXCHANGE_DELETED):
            del self.holders[number]
            self._delete(found.holder)

    # -- declarations

    def _take_declaration(self, kind: i64, buffer: bytes, start: int, end: int) -> None:
        vhost = self._vhost
        if kind == QUEUE_DECLARED:
            stored = StoredQueue(buffer, start, end)
            settings = validate_arguments(
                stored.type, stored.name, vhost.name, stored.definition.arguments
            )
            queue = create_queue(
                stored.type, vhost, stored.name, stored.definition, settings=settings
            )
            self._know(queue, stored.log_id, bytes((QUEUE_DECLARED,)) + buffer[start:end])
            vhost.add_queue(queue)
        elif kind == EXCHANGE_DECLARED:
            stored_exchange = StoredExchange(buffer, start, end)
            exchange = create_exchange(stored_exchange.settings)
            declaration = bytes((EXCHANGE_DECLARED,)) + buffer[start:end]
            self._know(exchange, stored_exchange.log_id, declaration)
            vhost.add_exchange(exchange)
        else:
            self._take_binding(StoredBinding(buffer, start, end), is_bound=kind == BOUND)

    def _know(self, holder: Destination, log_id: int, declaration: bytes) -> None:
        holder.log_id = log_id
        holder.declaration = declaration
        if isinstance(holder, StreamQueue):
            self.holders[log_id] = RecoveredStream(holder)
        elif isinstance(holder, DelayedExchange):
            self.holders[log_id] = RecoveredDelays(holder)
        else:
            self.holders[log_id] = Recovered(holder)

        self.next_id = max(self.next_id, log_id + 1)

    def _take_binding(self, stored: StoredBinding, *, is_bound: bool) -> None:
        vhost = self._vhost
        source = vhost.exchanges.get(stored.source)
        destination: Destination | None = None
        if stored.is_queue:
            destination = vhost.queues.get(stored.destination)
        else:
            destination = vhost.exchanges.get(stored.destination)

        if source is None or destination is None:
            return

        if is_bound:
            source.add_binding(destination, stored.routing_key, stored.arguments)
        else:
            source.remove_binding(destination, stored.routing_key, stored.arguments)

        vhost.topology_changed()

    def _delete(self, holder: Destination) -> None:
        """What goes with it has records of its own, but for bindings."""
        vhost = self._vhost
        holder.log_id = 0
        remove_incoming_bindings(holder)
        queue = holder.as_queue()
        if queue is not None:
            del vhost.queues[queue.name]
            queue.discard()
            return

        exchange = vhost.exchanges.get(holder.name)
        if exchange is holder:
            exchange.drop_all_bindings()
            vhost.forget_exchange(exchange)

    def _take_policy(self, buffer: bytes, start: int, end: int) -> None:
        name, is_operator, policy = policy_of(buffer, start, end)
        policies = self._vhost.policies
        if policy is None:
            policies.clear_policy(name, is_operator=is_operator)
        else:
            policies.set_policy(policy, is_operator=is_operator)


def _take_stock(recovery: _Recovery, log: Log) -> int:
    """All has been read: know what is left, and where; returns how many messages.

    Raises:
        StoreError: a segment with some of them is missing, or ends before them.

    """
    live = Live()
    count = 0
    for found in recovery.holders.values():
        found.finish()
        found.count_live(live)
        count += found.count

    for number, messages in live.counts.items():
        path = log.place_of(number << OFFSET_BITS).rpartition(" at ")[0]
        known = log.segments.get(number)
        if known is None:
            raise StoreError(f"{path} is missing, with {messages} messages")

        if live.last[number] >= (number << OFFSET_BITS) + known.size:
            raise StoreError(
                f"{path} is cut short at offset {known.size}: there were messages behind that"
            )

    for number, segment in log.segments.items():
        segment.live = live.counts.get(number, 0)
        segment.total = max(segment.total, recovery.totals.get(number, 0), segment.live)

    return count


def recover_vhost(vhost: VirtualHost, log: Log, on_failure: Callable[[str], None]) -> Journal:
    """Make a virtual host, that has nothing yet, what its log says it was; and go on logging.

    Args:
        vhost: fresh.
        log: not started yet.
        on_failure: told why the broker has to stop, when the disk fails later on.

    Raises:
        StoreError: the log is damaged, or says what this broker does not understand.

    """
    recovery = _Recovery(vhost)
    try:
        log.replay(recovery)
    except StoreError:
        raise
    except BrokerError as error:
        raise StoreError(f"the log of virtual host {vhost.name}: {error}") from error

    is_old = bool(log.segments)
    journal = Journal(vhost, log, on_failure)
    count = _take_stock(recovery, log)
    vhost.journal = journal
    for found in recovery.holders.values():
        found.holder.journal_started(journal)

    # Where there is no space, these make some before the first batch needs it.
    log.remove_segments(journal.books.dead_segments())
    journal.start(recovery.next_id)
    for found in recovery.holders.values():
        if not recovery.is_clean:
            for level in found.levels.values():
                level.redelivered_count = len(level.positions)

        found.holder.restore(journal, found)

    vhost.apply_policies()
    for queue in list(vhost.queues.values()):
        queue.settle_down()

    if is_old:
        fields: dict[str, object] = {
            "vhost": vhost.name,
            "messages": count,
            "clean": recovery.is_clean,
        }
        vhost.log("info", "store.recovered", fields)

    return journal
