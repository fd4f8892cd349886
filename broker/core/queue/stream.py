"""The stream: a log that consumers read, each from its own place (rules ST).

A consumer with something to read, credit and room stands in a turn and gets one message after the
other, alternating with the rest. One that has read all there is waits under the offset it needs
next, so that an append touches those who wait for it and nobody else. Invariant between calls: the
turn is empty.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.core.queue.argument_rules import STREAM
from broker.core.queue.queue import Queue, QueueDefinition
from broker.core.queue.stream_consumer import StreamConsumer, StreamRequest
from broker.core.queue.stream_filter import NOTHING, filter_value_of
from broker.core.queue.stream_log import StreamLog
from broker.core.queue.stream_recovery import RecoveredStream
from broker.errors import NotImplementedByBroker, PreconditionFailed

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import Consumer, ConsumerOptions, Deliveries
    from broker.core.deadlines import Timer
    from broker.core.journal import Journal
    from broker.core.message import Message
    from broker.core.queue.arguments import QueueSettings
    from broker.core.recovered import Recovered
    from broker.core.vhost import VirtualHost

__all__ = ["StreamQueue"]


class StreamQueue(Queue):
    """A stream of one replica.

    Args:
        vhost: the virtual host it lives in.
        name: its name, unique there.
        definition: what it was declared as.
        settings: what its arguments say.

    """

    __slots__ = ("_retention_timer", "_turn", "_waiting", "log")

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        definition: QueueDefinition,
        settings: QueueSettings,
    ) -> None:
        self.log = StreamLog()
        self._turn: deque[StreamConsumer] = deque()
        self._waiting: dict[int, dict[StreamConsumer, None]] = {}
        self._retention_timer: Timer | None = None
        # These come first: it takes on the settings, with all that follows from them.
        super().__init__(vhost, name, definition, settings)
        self.type = STREAM
        self.keeps_all = True

    def apply_settings(self, settings: QueueSettings) -> None:
        """Take on the settings of arguments and policies, effective at once (rule PO-11)."""
        self.log.limit(
            bytes_max=settings.length_bytes_max,
            age_ms_max=settings.max_age_ms,
            segment_bytes_max=settings.segment_bytes_max,
        )
        super().apply_settings(settings)

    # -- what it refuses

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Rule Q-52: conditions are not looked at."""

    def check_purge(self) -> None:
        """Rule Q-55.

        Raises:
            NotImplementedByBroker: always.

        """
        raise NotImplementedByBroker(f"queue.purge not supported by stream queues {self.resource}")

    def check_get(self) -> None:
        """Rule G-03.

        Raises:
            NotImplementedByBroker: always.

        """
        raise NotImplementedByBroker(f"basic.get not supported by stream queues {self.resource}")

    def check_consume(self, options: ConsumerOptions, *, has_channel_limit: bool) -> None:
        """Rules ST-02..ST-04, QS-08.

        Raises:
            PreconditionFailed: an argument is wrong, or there is no prefetch limit.
            NotImplementedByBroker: what needs no settlement, or the channel has a limit.

        """
        StreamRequest(self.resource, options.arguments or {})
        if options.prefetch == 0:
            raise PreconditionFailed(
                f"consumer prefetch count is not set for stream {self.resource}"
            )

        if options.no_ack:
            raise NotImplementedByBroker(
                f"automatic acknowledgement not supported by stream {self.resource}"
            )

        if has_channel_limit:
            raise NotImplementedByBroker(f"{self.resource} does not support global qos")

    def _check_exclusive(self, consumer: Consumer) -> None:
        """Rule CO-07: nobody is exclusive here."""

    # -- what queue.declare and queue.delete tell

    @property
    def declared_consumer_count(self) -> int:
        """Rule ST-09: RabbitMQ does not count them."""
        return 0

    @property
    def deleted_message_count(self) -> int:
        """RabbitMQ: none, however many there are."""
        return 0

    # -- the log

    def enqueue(self, message: Message, ttl_ms: i64) -> bool:
        """Append a message to the log; times to live mean nothing here (rule TTL-09)."""
        log = self.log
        self.publish_count += 1
        log.append(message, filter_value_of(message), self.vhost.deadlines.now_ms)
        self.ready_count = log.count
        self.ready_bytes = log.body_bytes
        if self._retention_timer is None:
            self._arm_retention()

        if log.safe_offset == log.next_offset:
            self._let_read(log.next_offset - 1)

        return True

    def _let_read(self, start: i64) -> None:
        """Everything from that offset on up to what is safe has not been read by anybody."""
        waiting = self._waiting
        if not waiting:
            return

        safe: i64 = self.log.safe_offset
        offsets = range(int(start), int(safe))
        if len(waiting) < len(offsets):
            offsets_waited_for = sorted([one for one in waiting if one < safe])
        else:
            offsets_waited_for = [one for one in offsets if one in waiting]

        for offset in offsets_waited_for:
            self._turn.extend(waiting.pop(offset))

        if offsets_waited_for:
            self.pump()

    def _drop_over_limit(self) -> None:
        """Drop what is beyond the limits, whole segments (rule ST-07)."""
        log = self.log
        log.retain(self.vhost.deadlines.now_ms)
        self.ready_count = log.count
        self.ready_bytes = log.body_bytes
        self._disarm_retention()
        self._arm_retention()

    # -- what the log is told, and tells

    def journal_started(self, journal: Journal) -> None:
        """It outlives the broker: what is appended is told to the journal."""
        super().journal_started(journal)
        self.log.keep_in(journal, self)

    def awaits_log(self) -> bool:
        """Readers wait until the log has what came (rule ST-09)."""
        return True

    def written(self, journal: Journal) -> bool:
        """The log has what came: readers get it."""
        if self.is_deleted:
            return False

        log = self.log
        start: i64 = log.safe_offset
        log.written()
        self._let_read(start)
        if log.is_held_up:
            self._drop_over_limit()
        elif self._retention_timer is None:
            self._arm_retention()

        return False

    def places_in(self, numbers: set[int]) -> list[int]:
        """Where entries stand that lie in those segments of the log."""
        return self.log.places_in(numbers)

    def move_cold(self, places: dict[int, int]) -> list[int]:
        """Entries have another position now; returns the old ones that are here."""
        return self.log.move(places)

    def append_state(self, records: list[list[bytes]], unacked: list[Message]) -> None:
        """Add what a checkpoint has to tell of the entries; of who has them it is nothing."""
        self.log.append_state(records, self.vhost.deadlines.wall_offset_ms)

    def restore(self, journal: Journal, found: Recovered) -> None:
        """Take over the entries that recovery has found."""
        assert isinstance(found, RecoveredStream)
        found.hand_over(self.log)
        self.ready_count = self.log.count
        self.ready_bytes = self.log.body_bytes

    # -- retention

    def _arm_retention(self) -> None:
        """RabbitMQ looks at ages only when a segment is full; here they are space to be freed."""
        due_ms: i64 = self.log.next_retention()
        if due_ms != NOTHING:
            self._retention_timer = self.vhost.deadlines.schedule(due_ms, self._drop_over_limit)

    def _disarm_retention(self) -> None:
        timer = self._retention_timer
        if timer is not None:
            self.vhost.deadlines.cancel(timer)
            self._retention_timer = None

    def purge(self) -> int:
        """The stream is being deleted: forget everything."""
        count = int(self.ready_count)
        self.log.clear()
        self.ready_count = 0
        self.ready_bytes = 0
        return count

    def discard(self) -> list[Consumer]:
        """The stream is being deleted: forget all messages, return the consumers to tell."""
        self._disarm_retention()
        self._turn.clear()
        self._waiting.clear()
        return super().discard()

    # -- handing messages out

    def pump(self) -> None:
        """Serve those who have something to read: each one message, as long as there is one."""
        turn = self._turn
        log = self.log
        while turn:
            consumer = turn.popleft()
            consumer.is_waiting = False
            if not consumer.is_able():
                consumer.park()
                continue

            offset: i64 = log.find(consumer.position, consumer.wanted)
            if offset == NOTHING:
                consumer.position = max(consumer.position, log.safe_offset)
            else:
                # Before it is delivered: whatever that causes finds everything in its place.
                consumer.position = offset + 1
                self.deliver_count += 1
                self.unacked_count += 1
                consumer.deliver(log.message_at(offset))

            if consumer.credit > 0:
                self.admit(consumer)

        if log.has_read():
            self._forget_read()

    def _forget_read(self) -> None:
        """Let go of what was read back when nobody is behind what is in memory."""
        hot_offset: i64 = self.log.hot_offset
        for consumer in self.consumers:
            assert isinstance(consumer, StreamConsumer)
            if consumer.position < hot_offset:
                return

        self.log.forget_read()

    # -- settlement: all kinds of it give credit back, and nothing else (rule ST-06)

    def rejected(self, message: Message) -> None:
        """An unacked message was refused, which is as good as acknowledged (rule A-06)."""
        self.settled(message)

    def requeue(self, messages: list[Message], is_failure: bool) -> None:
        """Unacked messages were given back: they never left (rule ST-06)."""
        for message in messages:
            self.settled(message)

        self.pump()

    # -- consumers

    def new_consumer(self, deliveries: Deliveries, tag: str, options: ConsumerOptions) -> Consumer:
        """A consumer as `check_consume` has let it pass; it begins where it asks to."""
        request = StreamRequest(self.resource, options.arguments or {})
        consumer = StreamConsumer(self, deliveries, tag, options)
        deadlines = self.vhost.deadlines
        consumer.wanted = request.wanted
        consumer.position = request.start_in(self.log, int(deadlines.now_ms), deadlines.wall_ms)
        return consumer

    def admit(self, consumer: Consumer) -> None:
        """Let a consumer have its turn, or wait for the offset that it needs."""
        assert isinstance(consumer, StreamConsumer)
        consumer.is_waiting = True
        if consumer.position < self.log.safe_offset:
            self._turn.append(consumer)
        else:
            self._waiting.setdefault(int(consumer.position), {})[consumer] = None

    def remove_consumer(self, consumer: Consumer) -> None:
        """Stop serving a consumer; its place in the log is forgotten (rule ST-06)."""
        if consumer.is_waiting and isinstance(consumer, StreamConsumer):
            consumer.is_waiting = False
            position = int(consumer.position)
            waiting = self._waiting.get(position)
            if waiting is not None:
                waiting.pop(consumer, None)
                if not waiting:
                    del self._waiting[position]

        super().remove_consumer(consumer)
