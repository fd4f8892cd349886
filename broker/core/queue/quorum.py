"""The quorum queue, as far as a single node shows it (rules QQ).

What a client sees of it beside a classic queue: returned messages come first, in the order of their
return, and are given up after a number of returns; priorities need no declaration; its single
active consumer gives way to one of higher priority; its dead letters may be kept until taken.

Invariant between calls: as for every queue, and while the single active consumer is to give way
nobody stands in the rotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.dispatch import Rotation
from broker.core.index import append_returned
from broker.core.message import NO_DEADLINE, PENDING, Message, content_with_properties
from broker.core.queue.argument_rules import QUORUM
from broker.core.queue.certain import CertainDeadLetters
from broker.core.queue.delays import Delays
from broker.core.queue.queue import Queue, QueueDefinition
from broker.core.queue.ready import PriorityReady, Ready, is_expired
from broker.errors import NotImplementedByBroker, ResourceLocked
from broker.wire.properties import set_headers
from broker.wire.tables import Field

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import Consumer, ConsumerOptions
    from broker.core.journal import Journal
    from broker.core.queue.arguments import QueueSettings
    from broker.core.recovered import Recovered
    from broker.core.vhost import VirtualHost

__all__ = ["QuorumQueue", "QuorumReady", "ReturnedMessage"]

DELIVERY_LIMIT: Final = 20
"""Returns that a message survives unless the queue says otherwise (rule QQ-02)."""

PRIORITY_MAX: Final = 31
PRIORITY_ABSENT: Final = 4
"""The level of messages that name none (rule QQ-05)."""

DELAY_MS_MAX: Final = 315_360_000_000
"""Ten years: arguments for delays may hold any number (rule QQ-09)."""

FULL_TENTHS: Final = 10
RELIEVED_TENTHS: Final = 8
"""A queue that refuses takes messages again at eight tenths of its limits (rule Q-85)."""


class ReturnedMessage(Message):
    """A message that was given back at least once: it tells in its headers how often (QQ-04).

    Attributes:
        plain_content: as it was published: what leaves for another queue takes no count along
            (rule DL-17).
        return_count: returns that count against the delivery limit.
        acquired_count: all of them; those of an earlier life only as far as they count.

    """

    __slots__ = ("acquired_count", "plain_content", "return_count")

    def __init__(self, message: Message) -> None:
        super().__init__(
            message.address,
            message.content,
            message.body_size,
            message.is_persistent,
            message.priority,
        )
        self.position = message.position
        self.deadline_ms = message.deadline_ms
        self.redelivered = True
        self.plain_content: bytes = message.content
        self.return_count: i64 = 0
        self.acquired_count: i64 = 0
        self.take_record(message)

    def logged_content(self) -> bytes:
        """The content as the log keeps it: as it was published."""
        return self.plain_content

    def return_count_logged(self) -> i64:
        """How often it was given back."""
        return self.return_count

    def count_return(self, is_counted: bool) -> None:
        """It has been given back once more; whether that counts is up to the release (QQ-03)."""
        if is_counted:
            self.return_count += 1

        self.acquired_count += 1
        self._tell_counts()

    def take_count(self, count: int) -> None:
        """It was given back that often in an earlier life."""
        self.return_count = self.acquired_count = count
        if count > 0:
            self._tell_counts()

    def _tell_counts(self) -> None:
        headers = {"x-acquired-count": Field("l", int(self.acquired_count))}
        if self.return_count > 0:
            headers["x-delivery-count"] = Field("l", int(self.return_count))

        self.content = self.plain_content
        raw = set_headers(self.properties().raw, headers)
        self.content = content_with_properties(self.plain_content, raw)

    def twin(self) -> Message:
        """The same message of the same queue, as another object."""
        twin = ReturnedMessage(self)
        twin.plain_content = self.plain_content
        twin.return_count = self.return_count
        twin.acquired_count = self.acquired_count
        return twin


class QuorumReady(PriorityReady):
    """Returned messages first come first, then strictly by priority (rules QQ-05, QQ-10)."""

    __slots__ = ("_back",)

    def __init__(self) -> None:
        super().__init__(PRIORITY_MAX, PRIORITY_ABSENT)
        self._back = Ready()

    def put_back(self, message: Message) -> None:
        """Add a message to those that were returned."""
        self._back.append(message)

    def head(self) -> Message | None:
        """The next message to be served, left where it is."""
        back = self._back.head()
        return super().head() if back is None else back

    def pop(self) -> Message | None:
        """Take the next message to be served."""
        back = self._back.pop()
        return super().pop() if back is None else back

    def pop_expired(self, now_ms: i64) -> Message | None:
        """Take the head of any level, if its time is over (rule TTL-10)."""
        expired = self._back.pop_expired(now_ms)
        if expired is not None:
            return expired

        for level in self._filled_levels():
            head = self._levels[level].head()
            if head is not None and is_expired(head, now_ms):
                return self._pop_of(level)

        return None

    def next_deadline(self) -> i64:
        """The earliest deadline of the heads of all levels, or NO_DEADLINE."""
        earliest: i64 = self._back.next_deadline()
        for level in self._filled_levels():
            deadline: i64 = self._levels[level].next_deadline()
            if deadline != NO_DEADLINE and (earliest == NO_DEADLINE or deadline < earliest):
                earliest = deadline

        return earliest

    def _filled_levels(self) -> list[int]:
        filled = self._filled
        return [level for level in self._levels if filled >> level & 1]

    def front(self) -> list[Message]:
        """The messages that were given back, in serving order."""
        return self._back.hot()

    def sweep(self) -> None:
        """Forget the messages that are marked as gone."""
        super().sweep()
        self._back.sweep()

    def messages(self) -> list[Message]:
        """All messages in serving order."""
        return self._back.messages() + super().messages()

    def clear(self) -> None:
        """Forget all messages."""
        super().clear()
        self._back.clear()


class QuorumQueue(Queue):
    """A quorum queue of one member.

    Args:
        vhost: the virtual host it lives in.
        name: its name, unique there.
        definition: what it was declared as.
        settings: what its arguments say.

    """

    __slots__ = (
        "_certain",
        "_delays",
        "_delivery_limit",
        "_is_certain",
        "_is_fading",
        "_is_full",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        definition: QueueDefinition,
        settings: QueueSettings,
    ) -> None:
        self.vhost = vhost
        self._certain = CertainDeadLetters(self)
        self._delays = Delays(self, self._delayed_are_due)
        self._delivery_limit = DELIVERY_LIMIT
        self._is_certain = False
        # The single active consumer gets nothing more, and goes when it has settled what it has.
        self._is_fading = False
        self._is_full = False
        # These come first: it takes on the settings, with all that follows from them.
        super().__init__(vhost, name, definition, settings)
        self.type = QUORUM
        self.keeps_all = True

    def _new_ready(self, settings: QueueSettings) -> Ready:
        return QuorumReady()

    def apply_settings(self, settings: QueueSettings) -> None:
        """Take on the settings of arguments and policies, effective at once (rule PO-11)."""
        if settings.overflow == "reject-publish-dlx":
            # Rule Q-84: it may be said, and means nothing here.
            settings = settings.copy()
            settings.overflow = None

        limit = settings.delivery_limit
        self._delivery_limit = self.vhost.release.delivery_limit if limit is None else limit
        # Rule DL-13: a queue that drops its head cannot promise anything.
        self._is_certain = (
            settings.dead_letter_strategy == "at-least-once"
            and settings.overflow == "reject-publish"
            and settings.dead_letter_exchange is not None
        )
        if not self._is_certain:
            # RabbitMQ: what was retained is deleted with the strategy that retained it.
            self._certain.clear()

        super().apply_settings(settings)

    # -- what it refuses

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Rule Q-52.

        Raises:
            NotImplementedByBroker: there is a condition, whether it holds or not.

        """
        if if_unused or if_empty:
            flag = "if-unused" if if_unused else "if-empty"
            raise NotImplementedByBroker(
                f"cannot delete {self.resource}. queue.delete operations with {flag} flag set "
                "are not supported by quorum queues"
            )

    def check_get(self) -> None:
        """Rule CO-33.

        Raises:
            ResourceLocked: there is to be a single active consumer.

        """
        if self.settings.single_active_consumer:
            raise ResourceLocked(
                f"cannot obtain access to locked {self.resource}. basic.get operations are not "
                "supported by quorum queues with single active consumer"
            )

    def check_consume(self, options: ConsumerOptions, *, has_channel_limit: bool) -> None:
        """Rule QS-08.

        Raises:
            NotImplementedByBroker: the channel has a limit of its own.

        """
        if has_channel_limit:
            raise NotImplementedByBroker(f"{self.resource} does not support global qos")

    def _check_exclusive(self, consumer: Consumer) -> None:
        """Rule QQ-06: nobody is exclusive here."""

    # -- limits

    @property
    def delivery_limit(self) -> int:
        """How often a message may be given back (rule QQ-02); negative for as often as it likes."""
        return int(self._delivery_limit)

    @property
    def delayed_count(self) -> int:
        """Messages that were given back and wait to be ready."""
        return int(self._delays.count)

    @property
    def dead_letter_count(self) -> int:
        """Dead letters that nobody has taken yet."""
        return int(self._certain.count)

    @property
    def dead_letter_bytes(self) -> int:
        """The bodies of those."""
        return int(self._certain.size_bytes)

    @property
    def aside_count(self) -> i64:
        """Messages that are neither ready nor unacked: they wait to be ready, or to be taken."""
        return self._delays.count + self._certain.count

    def _exceeds(self, tenths: int) -> bool:
        """Whether there is more here than so many tenths of a limit."""
        settings = self.settings
        length_max = settings.length_max
        if length_max is not None:
            count = int(self.ready_count + self.aside_count)
            if count * FULL_TENTHS > length_max * tenths:
                return True

        bytes_max = settings.length_bytes_max
        if bytes_max is None:
            return False

        size = int(self.ready_bytes + self._delays.size_bytes + self._certain.size_bytes)
        return size * FULL_TENTHS > bytes_max * tenths

    def _is_over_limit(self) -> bool:
        return self._exceeds(FULL_TENTHS)

    def _would_overflow(self, message: Message) -> bool:
        """RabbitMQ: publishers are stopped by the first message beyond the limit, which stays."""
        self._is_full = self._exceeds(RELIEVED_TENTHS if self._is_full else FULL_TENTHS)
        return self._is_full

    def _enqueue_guarded(self, message: Message, ttl_ms: i64) -> bool:
        is_accepted = super()._enqueue_guarded(message, ttl_ms)
        if self._refuses and not self._is_full:
            self._is_full = self._exceeds(FULL_TENTHS)

        return is_accepted

    # -- settlement

    def settled(self, message: Message) -> None:
        """An unacked message was acknowledged: it is gone."""
        super().settled(message)
        if self._is_fading:
            self._give_way()

    def rejected(self, message: Message) -> None:
        """An unacked message was refused for good: to the DLX, or gone (rule A-06)."""
        super().rejected(message)
        if self._is_fading:
            self._give_way()

    def requeue(self, messages: list[Message], is_failure: bool) -> None:
        """Unacked messages return, in front of all others, or are given up (QQ-03, QQ-10)."""
        self.unacked_count -= len(messages)
        if self.is_deleted:
            self._forget_all(messages)
            return

        is_counted = is_failure or self.vhost.release.counts_every_return
        for message in messages:
            returned = self._returned(message)
            returned.count_return(is_counted)
            count = int(returned.return_count)
            if 0 <= self._delivery_limit < count:
                self._bury(returned, "delivery_limit")
                continue

            delay_ms = self._delay_ms(count, is_failure)
            journal = self.journal
            if journal is not None:
                deadlines = self.vhost.deadlines
                due_wall_ms = deadlines.wall_ms + delay_ms if delay_ms > 0 else 0
                journal.returned(self, returned, due_wall_ms)

            if delay_ms > 0:
                self._delays.add(returned, delay_ms)
            else:
                self._put_back(returned)

        if self._is_fading:
            self._give_way()

        self._after_return()

    def _returned(self, message: Message) -> ReturnedMessage:
        """The message as one that counts its returns."""
        if isinstance(message, ReturnedMessage):
            return message

        is_pending = message.record == PENDING
        returned = ReturnedMessage(message)
        if is_pending:
            self._keep(returned)

        return returned

    def _put_back(self, message: Message) -> None:
        self.ready.put_back(message)
        self.ready_count += 1
        self.ready_bytes += message.body_size

    def _after_return(self) -> None:
        if self.has_deadlines:
            self.expire_head()

        self._drop_over_limit()
        self.pump()

    def _delay_ms(self, count: int, is_failure: bool) -> int:
        """How long a returned message waits before it is ready (rule QQ-09)."""
        settings = self.settings
        kind = settings.delayed_retry_type
        shortest = settings.delayed_retry_min_ms
        if kind is None or shortest is None:
            return 0

        if kind != "all" and kind != ("failed" if is_failure else "returned"):
            return 0

        longest = settings.delayed_retry_max_ms
        return min(
            shortest * max(1, count), DELAY_MS_MAX if longest is None else longest, DELAY_MS_MAX
        )

    def _delayed_are_due(self, messages: list[Message]) -> None:
        for message in messages:
            self._put_back(message)

        self._after_return()

    def _bury(self, message: Message, reason: str) -> None:
        if isinstance(message, ReturnedMessage):
            message.content = message.plain_content

        if self._is_certain:
            # The log has it here until its targets have taken it.
            self._certain.add(message, reason)
        else:
            super()._bury(message, reason)

    def purge(self) -> int:
        """Drop all that is not unacked; returns how many (rule Q-55).

        RabbitMQ [4.3]: what waits aside is dropped and counted too.

        """
        self._forget_all(self.aside_messages())
        return super().purge() + int(self._delays.clear() + self._certain.clear())

    def aside_messages(self) -> list[Message]:
        """The messages that are neither ready nor unacked."""
        return [*self._delays.messages(), *self._certain.messages()]

    def waiting_messages(self) -> list[tuple[Message, int]]:
        """The messages that wait, with the time when they are ready (rule QQ-09)."""
        return self._delays.waiting()

    def hot_messages(self) -> list[Message]:
        """The messages in memory that nobody has."""
        return super().hot_messages() + self.aside_messages()

    def append_state(self, records: list[list[bytes]], unacked: list[Message]) -> None:
        """Add what a checkpoint has to tell of the messages here."""
        aside = self.aside_messages()
        super().append_state(records, [*unacked, *aside])
        deadlines = self.vhost.deadlines
        for message in [*self.ready.front(), *unacked, *aside]:
            if message.record > 0 and isinstance(message, ReturnedMessage):
                append_returned(records, self, message, 0)

        for message, due_ms in self._delays.waiting():
            if message.record > 0:
                append_returned(records, self, message, due_ms + deadlines.wall_offset_ms)

    def restore(self, journal: Journal, found: Recovered) -> None:
        """Take over the messages that recovery has found, those given back as such."""
        loaded: list[Message] = []
        for position in found.returned:
            message = journal.load(self, [position])[0]
            loaded.append(message)
            # It is counted where it goes.
            found.body_bytes -= message.body_size

        super().restore(journal, found)
        for message, (count, due_wall_ms) in zip(loaded, found.returned.values(), strict=True):
            self.take_returned(message, count, due_wall_ms)

    def take_returned(self, message: Message, count: int, due_wall_ms: int) -> None:
        """Take a message that was given back in an earlier life of the queue, or of another.

        Args:
            message: as it was published.
            count: how often it was given back.
            due_wall_ms: when it is ready again, in milliseconds since 1970; 0 is at once.

        """
        returned = ReturnedMessage(message)
        returned.take_count(count)
        returned.position = self.next_position
        self.next_position += 1
        self.has_deadlines = True
        journal = self.journal
        if journal is not None and returned.record == 0:
            journal.add(self, returned)
            journal.returned(self, returned, due_wall_ms)

        delay_ms = due_wall_ms - self.vhost.deadlines.wall_ms
        if due_wall_ms and delay_ms > 0:
            self._delays.add(returned, delay_ms)
        else:
            self._put_back(returned)

    # -- the single active consumer

    def add_consumer(self, consumer: Consumer) -> None:
        """Start serving a consumer; a single active one may have to give way to it (CO-31)."""
        super().add_consumer(consumer)
        active = self.active_consumer
        if active is not None and not self._is_fading and consumer.priority > active.priority:
            self._is_fading = True
            self._clear_rotation()
            self._give_way()

    def admit(self, consumer: Consumer) -> None:
        """Let a consumer into the rotation, where it is entitled to it (rules CO-30, CO-31)."""
        if not self._is_fading:
            super().admit(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Stop serving a consumer; its unacked messages stay unacked (rule CO-12)."""
        if consumer is self.active_consumer:
            # Whoever follows is the one it had to give way to.
            self._is_fading = False

        super().remove_consumer(consumer)
        active = self.active_consumer
        if self._is_fading and active is not None and self._successor() is active:
            self._is_fading = False
            active.wake()
            self.pump()

    def _clear_rotation(self) -> None:
        """Nobody is served; everybody is known."""
        self.rotation = Rotation()
        for consumer in self.consumers:
            consumer.is_waiting = False
            self.rotation.register(consumer)

    def _give_way(self) -> None:
        """Change the active consumer, once it has settled everything."""
        active = self.active_consumer
        if active is not None and active.held_count:
            return

        self._is_fading = False
        self.active_consumer = self._successor()
        if self.active_consumer is not None:
            self.active_consumer.wake()

    def redeclared(self) -> None:
        """Somebody declared the queue again: that is no use of it (rule Q-71)."""
