"""Core: from the records of a log to a virtual host as it was.

Records come in the order of the log. Declarations are done at once, through the same classes as
ever; of messages nothing is kept but positions, eight bytes each, until all has been read: then
every queue gets its own, and reads the messages themselves when they are to be served.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.core.declarations import StoredBinding, StoredExchange, StoredQueue, policy_of
from broker.core.durable import (
    BOUND,
    CLOSED,
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
    STREAM_INDEX,
    STREAM_TRUNCATED,
    UNBOUND,
    StoredMessage,
)
from broker.core.exchange.base import remove_incoming_bindings
from broker.core.exchange.registry import create_exchange
from broker.core.journal import Journal
from broker.core.queue.arguments import validate_arguments
from broker.core.queue.registry import create_queue
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

__all__ = ["Recovered", "recover_vhost"]

SETTLED_ROW_BYTES: Final = 12
RETURNED_ROW_BYTES: Final = 20
TRIM_COUNT: Final = 65_536
"""Settled positions at the front of a level, before they are let go of."""


class _Level:
    """Positions in serving order; those before `head` are settled."""

    __slots__ = ("head", "positions", "redelivered_count")

    def __init__(self) -> None:
        self.positions: array[int] = array("Q")
        self.head: i64 = 0
        self.redelivered_count: i64 = 0

    def trim(self, gone: set[int]) -> None:
        """Pass over what is settled at the front."""
        positions = self.positions
        head: i64 = self.head
        count: i64 = len(positions)
        while head < count and positions[head] in gone:
            gone.discard(positions[head])
            head += 1
            self.redelivered_count -= 1

        if head > TRIM_COUNT and head * 2 > count:
            del positions[: int(head)]
            head = 0

        self.head = head

    def settle(self, position: int) -> bool:
        """Take a position from the front; False when it does not stand there."""
        head: i64 = self.head
        if head < len(self.positions) and self.positions[head] == position:
            self.head = head + 1
            self.redelivered_count -= 1
            return True

        return False


class Recovered:
    """What recovery has found of one holder of messages: a queue, or an exchange that delays.

    Attributes:
        returned: position -> how often given back, and when it is ready again; in that order.
        body_bytes: of all bodies.
        first_offset: of a stream; -1 where the log does not tell.
        times: of a stream: when each message came, in milliseconds since 1970.

    """

    __slots__ = (
        "_gone",
        "_latest",
        "_origins",
        "body_bytes",
        "first_offset",
        "holder",
        "levels",
        "returned",
        "times",
    )

    def __init__(self, holder: Destination) -> None:
        self.holder = holder
        self.levels: dict[int, _Level] = {}
        self.returned: dict[int, tuple[int, int]] = {}
        self.body_bytes: i64 = 0
        self.first_offset: i64 = -1
        self.times: array[int] = array("q")
        self._gone: set[int] = set()
        # Of messages that were moved: where they are now, and what they are known as here.
        self._latest: dict[int, int] = {}
        self._origins: dict[int, int] = {}

    def add(self, position: i64, priority: i64, body_size: i64) -> None:
        """A message has come."""
        self.level(self.holder.level_of(priority)).positions.append(int(position))
        self.body_bytes += body_size

    def level(self, number: int) -> _Level:
        """The positions of one level."""
        level = self.levels.get(number)
        if level is None:
            level = _Level()
            self.levels[number] = level

        return level

    def settle(self, position: int, body_size: i64) -> None:
        """A message has left."""
        if self._origins:
            position = self._origins.get(position, position)

        self.body_bytes -= body_size
        gone = self._gone
        for level in self.levels.values():
            if level.settle(position):
                if gone:
                    level.trim(gone)

                return

        gone.add(position)

    def give_back(self, position: int, count: int, due_wall_ms: int) -> None:
        """A message was given back once more: it stands behind those that were before it."""
        position = self._origins.get(position, position)
        self.returned.pop(position, None)
        self.returned[position] = (count, due_wall_ms)

    def move(self, old: int, new: int) -> None:
        """A message lies in another place now."""
        origin = self._origins.pop(old, old)
        self._origins[new] = origin
        self._latest[origin] = new

    def purge(self, kept: set[int]) -> None:
        """Only these are left."""
        known = {self._origins.get(position, position) for position in kept}
        for level in self.levels.values():
            left = [one for one in level.positions[int(level.head) :] if one in known]
            level.positions = array("Q", left)
            level.head = 0
            level.redelivered_count = 0

        self.body_bytes = 0

    def finish(self) -> None:
        """All has been read: leave what is there, and where it is now."""
        gone = self._gone
        latest = self._latest
        returned = self.returned
        for level in self.levels.values():
            level.redelivered_count = max(level.redelivered_count, 0)
            positions = level.positions
            if level.head:
                positions = positions[int(level.head) :]
                level.head = 0

            if gone or returned:
                kept = array("Q")
                for place, one in enumerate(positions):
                    if one not in gone and one not in returned:
                        kept.append(one)
                    elif place < level.redelivered_count:
                        level.redelivered_count -= 1

                positions = kept

            if latest:
                positions = array("Q", [latest.get(one, one) for one in positions])

            level.positions = positions

        for position in [one for one in returned if one in gone]:
            del returned[position]

        if latest:
            self.returned = {latest.get(one, one): about for one, about in returned.items()}

    def count_live(self, live: dict[int, int]) -> None:
        """Count the messages of each segment."""
        for level in self.levels.values():
            _count_live(level.positions, live)

        for position in self.returned:
            number = position >> OFFSET_BITS
            live[number] = live.get(number, 0) + 1

    @property
    def count(self) -> int:
        """How many messages there are."""
        return sum([len(one.positions) for one in self.levels.values()]) + len(self.returned)


def _count_live(positions: array[int], live: dict[int, int]) -> None:
    """Neighbours mostly lie in the same segment."""
    number: i64 = -1
    count: i64 = 0
    for position in positions:
        segment: i64 = position >> OFFSET_BITS
        if segment != number:
            if count:
                live[int(number)] = live.get(int(number), 0) + int(count)

            number = segment
            count = 0

        count += 1

    if count:
        live[int(number)] = live.get(int(number), 0) + int(count)


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
                    found.add(position, stored.priority, stored.body_size())
                    if found.first_offset >= 0:
                        found.times.append(int(stored.deadline(place)))

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
            kept: set[int] = set()
            while place < end:
                kept.add(int(u64_at(buffer, place)))
                place += 8

            found.purge(kept)
        elif kind == INDEX:
            level = found.level(int(u32_at(buffer, place)))
            level.redelivered_count += u64_at(buffer, place + 4)
            found.body_bytes += u64_at(buffer, place + 12)
            level.positions.frombytes(buffer[place + 20 : end])
        elif kind == STREAM_INDEX:
            self._take_stream_index(found, buffer, place, end)
        elif kind == STREAM_TRUNCATED:
            found.first_offset = u64_at(buffer, place)
        elif kind in (QUEUE_DELETED, EXCHANGE_DELETED):
            del self.holders[number]
            self._delete(found.holder)

    def _take_stream_index(self, found: Recovered, buffer: bytes, start: i64, end: i64) -> None:
        """First offset, bytes of bodies, then for each message its time and its position."""

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
        StoreError: a segment with some of them is missing.

    """
    live: dict[int, int] = {}
    count = 0
    for found in recovery.holders.values():
        found.finish()
        found.count_live(live)
        count += found.count

    for number in live:
        if number not in log.segments:
            path = log.place_of(number << OFFSET_BITS).rpartition(" at ")[0]
            raise StoreError(f"{path} is missing, with {live[number]} messages")

    for number, segment in log.segments.items():
        segment.live = live.get(number, 0)
        segment.total = max(segment.total, recovery.totals.get(number, 0), live.get(number, 0))

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
