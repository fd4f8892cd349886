"""The classic queue: ready messages, consumers, limits and lifetimes (rules Q, CO, TTL, A).

Everything happens in the call that causes it: a publish reaches a waiting consumer, a settlement
frees credit that the next message uses, a message over the limit is dropped, all before the call
returns. Invariant between calls: no message is ready while a consumer is able to take one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.consumer import Consumer
from broker.core.dispatch import Rotation
from broker.core.erlterm import resource_text
from broker.core.message import NO_DEADLINE, Message
from broker.core.queue.anywhere import AnywhereReady
from broker.core.queue.kept import KeptMessages
from broker.core.queue.ready import PriorityReady, Ready
from broker.errors import AccessRefused, PreconditionFailed

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import ConsumerOptions, Deliveries
    from broker.core.deadlines import Timer
    from broker.core.queue.arguments import QueueSettings
    from broker.core.tally import QueueTally
    from broker.core.vhost import VirtualHost
    from broker.wire.tables import Arguments

__all__ = ["Queue", "QueueDefinition"]


class QueueDefinition(NamedTuple):
    """What a queue is by its declaration.

    Attributes:
        durable: as declared; an exclusive queue is never durable (rule Q-07).
        auto_delete: it goes with its last consumer (rule Q-60).
        exclusive_owner: the connection it belongs to and dies with, or None.
        arguments: as declared, kept for equivalence and for listings.

    """

    durable: bool
    auto_delete: bool
    exclusive_owner: object | None
    arguments: Arguments


class Queue(KeptMessages):
    """A classic queue.

    Args:
        vhost: the virtual host it lives in.
        name: its name, unique there.
        definition: what it was declared as.
        settings: what its arguments say.

    """

    __slots__ = (
        "_expires_timer",
        "_head_timer",
        "_is_guarded",
        "_is_limited",
        "_last_used_ms",
        "_refuses",
        "ack_count",
        "active_consumer",
        "argument_settings",
        "arguments",
        "auto_delete",
        "consumers",
        "deliver_count",
        "deliver_no_ack_count",
        "exclusive_owner",
        "get_count",
        "get_empty_count",
        "get_no_ack_count",
        "policy_definition",
        "publish_count",
        "redeliver_count",
        "rotation",
        "settings",
        "type",
        "unacked_count",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        definition: QueueDefinition,
        settings: QueueSettings,
    ) -> None:
        super().__init__(vhost, name, definition.durable)
        self.type = "classic"
        self.exclusive_owner = definition.exclusive_owner
        self.auto_delete = definition.auto_delete
        self.arguments = definition.arguments
        self.argument_settings = settings
        self.settings = settings
        self.policy_definition: dict[str, object] = {}
        self.ready = self._new_ready(settings)
        self.unacked_count: i64 = 0
        self.consumers: dict[Consumer, None] = {}
        self.active_consumer: Consumer | None = None
        self.rotation = Rotation()
        self._head_timer: Timer | None = None
        self._expires_timer: Timer | None = None
        self._last_used_ms: i64 = vhost.deadlines.now_ms
        self._is_guarded = False
        self._is_limited = False
        self._refuses = False
        self.publish_count: i64 = 0
        self.deliver_count: i64 = 0
        self.deliver_no_ack_count: i64 = 0
        self.get_count: i64 = 0
        self.get_no_ack_count: i64 = 0
        self.get_empty_count: i64 = 0
        self.ack_count: i64 = 0
        self.redeliver_count: i64 = 0
        self.apply_settings(settings)

    def _new_ready(self, settings: QueueSettings) -> Ready:
        """The store for this type of queue, empty."""
        priorities = settings.priority_max
        return PriorityReady(priorities) if priorities else Ready()

    def apply_settings(self, settings: QueueSettings) -> None:
        """Take on the settings of arguments and policies, effective at once (rules PO-11, Q-86)."""
        self.settings = settings
        self._is_limited = settings.length_max is not None or settings.length_bytes_max is not None
        self._is_guarded = self._is_limited or settings.message_ttl_ms is not None
        self._refuses = settings.overflow in ("reject-publish", "reject-publish-dlx")
        self._choose_expiry()
        if self.ready_count:
            self._drop_over_limit()

        # RabbitMQ: a change of settings begins the wait for x-expires anew.
        self._last_used_ms = self.vhost.deadlines.now_ms
        self._arm_expires()

    def _choose_expiry(self) -> None:
        """Let messages expire in any place, or only where RabbitMQ lets them (x-ttl-anywhere)."""
        ready = self.ready
        if isinstance(ready, AnywhereReady):
            if not self.settings.ttl_anywhere:
                self.ready = ready.unwrap()
        elif self.settings.ttl_anywhere:
            self.ready = AnywhereReady(ready)
            if self.has_deadlines:
                self.expire_head()

    # -- what a type of queue may refuse

    @property
    def resource(self) -> str:
        """The queue as texts name it."""
        return resource_text("queue", self.name, self.vhost.name)

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Whether the queue may be deleted under these conditions (rules Q-51, Q-52).

        Raises:
            PreconditionFailed: it is not empty, or in use.

        """
        if if_empty and self.ready_count:
            raise PreconditionFailed(f"{self.resource} not empty")

        if if_unused and self.consumers:
            raise PreconditionFailed(f"{self.resource} in use")

    def check_purge(self) -> None:
        """Whether the queue may be purged; raises where its type cannot (rule Q-55)."""

    def check_get(self) -> None:
        """Whether basic.get may be asked of the queue; raises where not (rules G-03, CO-33)."""

    def check_consume(self, options: ConsumerOptions, *, has_channel_limit: bool) -> None:
        """Whether it can be consumed like this, arguments being in order; raises where not.

        Args:
            options: what basic.consume asks for.
            has_channel_limit: a limit for the channel as a whole is set (rules QS-03, QS-08).

        """

    def _check_exclusive(self, consumer: Consumer) -> None:
        """Rule CO-07.

        Raises:
            AccessRefused: exclusive use is asked for or held.

        """
        single = self.settings.single_active_consumer
        if (consumer.exclusive and (self.consumers or single)) or (
            self.consumers and next(iter(self.consumers)).exclusive
        ):
            raise AccessRefused(f"{self.resource} in exclusive use")

    # -- what queue.declare and queue.delete tell

    @property
    def declared_consumer_count(self) -> int:
        """Consumers, as queue.declare-ok has them (rule Q-06)."""
        return len(self.consumers)

    @property
    def deleted_message_count(self) -> int:
        """Messages that would go with the queue, as queue.delete-ok has them (rule Q-50)."""
        return int(self.ready_count)

    # -- taking messages in

    def enqueue(self, message: Message, ttl_ms: i64) -> bool:
        """Take a message: to a waiting consumer, or to the tail. False: refused (rule Q-83).

        Args:
            message: belongs to this queue from now on.
            ttl_ms: from the message's own expiration, or NO_TTL.

        """
        if self._is_guarded or ttl_ms >= 0:
            return self._enqueue_guarded(message, ttl_ms)

        message.position = self.next_position
        self.next_position += 1
        self.publish_count += 1
        if self.ready_count == 0:
            consumer = self.rotation.next_able()
            if consumer is not None:
                self._hand_over_fresh(consumer, message)
                return True

        if self.journal is not None:
            self._keep(message)

        self.ready.append(message)
        self.ready_count += 1
        self.ready_bytes += message.body_size
        return True

    def _hand_over_fresh(self, consumer: Consumer, message: Message) -> None:
        """Give a message to a consumer that has never been ready here."""
        if self.journal is not None and not consumer.no_ack:
            # With an automatic acknowledgement it is gone, and need not be kept (rule CF-06).
            self._keep(message)

        self._hand_over(consumer, message)

    def _enqueue_guarded(self, message: Message, ttl_ms: i64) -> bool:
        settings = self.settings
        if self._refuses and self._would_overflow(message):
            if settings.overflow == "reject-publish-dlx":
                self._bury(message, "maxlen")

            witness = self.vhost.witness
            if witness is not None:
                witness.turned_away(self, message)

            return False

        queue_ttl_ms = settings.message_ttl_ms
        if queue_ttl_ms is not None and (ttl_ms < 0 or queue_ttl_ms < ttl_ms):
            ttl_ms = queue_ttl_ms

        if ttl_ms >= 0:
            message.deadline_ms = self.vhost.deadlines.now_ms + ttl_ms
            self.has_deadlines = True

        message.position = self.next_position
        self.next_position += 1
        self.publish_count += 1
        if self.ready_count == 0:
            # Rules CO-17, TTL-04, Q-81: a waiting consumer gets it whatever its TTL or the limit.
            consumer = self.rotation.next_able()
            if consumer is not None:
                self._hand_over_fresh(consumer, message)
                return True

        self._keep(message)
        self.ready.append(message)
        self.ready_count += 1
        self.ready_bytes += message.body_size
        if self.has_deadlines and not self._expires_later(message):
            self.expire_head()

        if self._is_limited:
            self._drop_over_limit()

        return True

    def _expires_later(self, message: Message) -> bool:
        """Whether nothing has expired, and the timer is early enough for this message too."""
        timer = self._head_timer
        return (
            timer is not None
            and timer.action is not None
            and self.vhost.deadlines.now_ms < timer.due_ms <= message.deadline_ms
        )

    def _would_overflow(self, message: Message) -> bool:
        settings = self.settings
        length_max = settings.length_max
        if length_max is not None and self.ready_count + 1 > length_max:
            return True

        bytes_max = settings.length_bytes_max
        return bytes_max is not None and self.ready_bytes + message.body_size > bytes_max

    def _drop_over_limit(self) -> None:
        """Drop from the head until within the limits (rules Q-80, Q-82).

        A queue that refuses publishes (rule Q-83) keeps what it once took, requeued messages too.

        """
        if self._refuses:
            return

        has_dropped = False
        while self._is_over_limit():
            message = self._pop_ready()
            if message is None:
                break

            has_dropped = True
            self._bury(message, "maxlen")

        if has_dropped and self.has_deadlines:
            # Another message is the head now: its time may be over, or has to be waited for.
            self.expire_head()

    def _is_over_limit(self) -> bool:
        settings = self.settings
        length_max = settings.length_max
        if length_max is not None and self.ready_count > length_max:
            return True

        bytes_max = settings.length_bytes_max
        return bytes_max is not None and self.ready_bytes > bytes_max

    def tell(self, tally: QueueTally) -> None:
        """Add what was counted here."""
        tally.publish_count += self.publish_count
        tally.deliver_count += self.deliver_count
        tally.deliver_no_ack_count += self.deliver_no_ack_count
        tally.get_count += self.get_count
        tally.get_no_ack_count += self.get_no_ack_count
        tally.get_empty_count += self.get_empty_count
        tally.ack_count += self.ack_count
        tally.redeliver_count += self.redeliver_count

    def _bury(self, message: Message, reason: str) -> None:
        """A message that was ready, or unacked, has died: it goes to the DLX if there is one."""
        self.vhost.dead_letters.dead_letter(self, message, reason)
        if message.record:
            self.let_go(message)

    # -- handing messages out

    def pump(self) -> None:
        """Serve ready messages to the consumers that are able to take them."""
        if self.has_deadlines:
            self.expire_head()

        while self.ready_count:
            consumer = self.rotation.next_able()
            if consumer is None:
                return

            message = self._pop_ready()
            if message is None:
                return

            self._hand_over(consumer, message)
            if self.has_deadlines:
                self.expire_head()

    def _hand_over(self, consumer: Consumer, message: Message) -> None:
        if message.redelivered:
            self.redeliver_count += 1

        if consumer.no_ack:
            self.deliver_no_ack_count += 1
            if message.record:
                self.let_go(message)
        else:
            self.deliver_count += 1
            self.unacked_count += 1

        consumer.deliver(message)

    def take(self, no_ack: bool) -> Message | None:
        """Take the head for a basic.get (rules G-02, TTL-05); unless no-ack it is unacked then."""
        self.touch()
        if self.has_deadlines:
            self.expire_head()

        message = self._pop_ready()
        if message is None:
            return None

        if self.has_deadlines:
            # RabbitMQ: what has expired behind it is not counted as remaining (rule G-02).
            self.expire_head()

        if message.redelivered:
            self.redeliver_count += 1

        if no_ack:
            self.get_no_ack_count += 1
            if message.record:
                self.let_go(message)
        else:
            self.get_count += 1
            self.unacked_count += 1

        return message

    def _pop_ready(self) -> Message | None:
        message = self.ready.pop()
        if message is not None:
            self.ready_count -= 1
            self.ready_bytes -= message.body_size

        return message

    # -- settlement

    def settled(self, message: Message) -> None:
        """An unacked message was acknowledged: it is gone."""
        self.unacked_count -= 1
        self.ack_count += 1
        if message.record:
            self.let_go(message)

    def moved_away(self, message: Message) -> None:
        """An unacked message is in another queue now."""
        self.unacked_count -= 1
        if message.record:
            self.let_go(message)

    def put_back_untouched(self, held: list[tuple[Message, bool]]) -> None:
        """Unacked messages return to their places, as if nobody had had them.

        Args:
            held: the messages in order, each with whether it was delivered before.

        """
        self.unacked_count -= len(held)
        messages = [entry[0] for entry in held]
        if self.is_deleted:
            self._forget_all(messages)
            return

        for message, was_redelivered in held:
            message.redelivered = was_redelivered
            self.ready.put_back(message)
            self.ready_count += 1
            self.ready_bytes += message.body_size

        if self.has_deadlines:
            self.expire_head()

        self._drop_over_limit()
        self.pump()

    def rejected(self, message: Message) -> None:
        """An unacked message was refused for good: to the DLX, or gone (rule A-06)."""
        self.unacked_count -= 1
        if self.is_deleted:
            self.let_go(message)
        else:
            self._bury(message, "rejected")

    def requeue(self, messages: list[Message], is_failure: bool) -> None:
        """Unacked messages return to their places (rules A-05, Q-82, TTL-07).

        Args:
            messages: in the order of their delivery tags.
            is_failure: basic.reject or the end of the channel, not basic.nack or basic.recover;
                quorum queues may treat them differently (rule QQ-09).

        """
        self.unacked_count -= len(messages)
        if self.is_deleted:
            # Rule Q-53: what was outstanding when the queue was deleted is gone.
            self._forget_all(messages)
            return

        for message in messages:
            message.redelivered = True
            self.ready.put_back(message)
            self.ready_count += 1
            self.ready_bytes += message.body_size

        if self.has_deadlines:
            self.expire_head()

        self._drop_over_limit()
        self.pump()

    def purge(self) -> int:
        """Drop all ready messages, without dead-lettering; returns how many (rules Q-54, Q-55)."""
        count = int(self.ready_count)
        journal = self.journal
        if journal is not None and count:
            self._forget_ready(journal)

        self.ready.clear()
        self.ready_count = 0
        self.ready_bytes = 0
        return count

    # -- what the log is told, and tells

    def as_queue(self) -> Queue | None:
        """Itself."""
        return self

    def settle_down(self) -> None:
        """All queues have their messages again: let go of what is over time or limits."""
        if self.ready_count:
            if self.has_deadlines:
                self.expire_head()

            self._drop_over_limit()

    # -- consumers

    def new_consumer(self, deliveries: Deliveries, tag: str, options: ConsumerOptions) -> Consumer:
        """A consumer for this type of queue, as `check_consume` has let it pass."""
        return Consumer(self, deliveries, tag, options)

    def add_consumer(self, consumer: Consumer) -> None:
        """Start serving a consumer; call `pump` when its consume-ok is written (rule CO-05).

        Raises:
            AccessRefused: exclusive use is asked for or held (rule CO-07).

        """
        self._check_exclusive(consumer)
        self.consumers[consumer] = None
        self.rotation.register(consumer)
        if self.settings.single_active_consumer and self.active_consumer is None:
            self.active_consumer = consumer

        self.admit(consumer)
        self._disarm_expires()
        events = self.vhost.events
        if events is not None:
            events.consumer_created(self, consumer)

    def admit(self, consumer: Consumer) -> None:
        """Let a consumer into the rotation, where it is entitled to it (rules CO-30, CO-32)."""
        active = self.active_consumer
        if active is None or active is consumer:
            self.rotation.add(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Stop serving a consumer; its unacked messages stay unacked (rule CO-12).

        An auto-delete queue goes with the last one (rule Q-60).

        """
        if consumer not in self.consumers:
            return

        del self.consumers[consumer]
        consumer.retire()
        events = self.vhost.events
        if events is not None:
            events.consumer_deleted(self, consumer)

        self.rotation.unregister(consumer)
        if self.active_consumer is consumer:
            self.active_consumer = self._successor()
            if self.active_consumer is not None:
                self.active_consumer.wake()
                self.pump()

        if not self.consumers:
            if self.auto_delete:
                self.vhost.remove_queue(self)
            else:
                self.touch()

    def _successor(self) -> Consumer | None:
        """The next single active consumer: highest priority, then first come (rule CO-30)."""
        best: Consumer | None = None
        for consumer in self.consumers:
            if best is None or consumer.priority > best.priority:
                best = consumer

        return best

    # -- time

    def expire_head(self) -> None:
        """Dead-letter the head while its time is over, then wait for the next (TTL-02, TTL-03)."""
        now: i64 = self.vhost.deadlines.now_ms
        while True:
            due_ms: i64 = self.ready.next_deadline()
            if due_ms == NO_DEADLINE:
                return

            if due_ms > now:
                self._arm_head(due_ms)
                return

            expired = self.ready.pop_expired(now)
            assert expired is not None
            self.ready_count -= 1
            self.ready_bytes -= expired.body_size
            self._bury(expired, "expired")

    def _arm_head(self, due_ms: i64) -> None:
        timer = self._head_timer
        if timer is not None:
            if timer.action is not None and timer.due_ms <= due_ms:
                # It comes early enough; when it does, the head of then is looked at.
                return

            self.vhost.deadlines.cancel(timer)

        self._head_timer = self.vhost.deadlines.schedule(due_ms, self.expire_head)

    def touch(self) -> None:
        """The queue was used: x-expires counts from now (rule Q-70)."""
        self._last_used_ms = self.vhost.deadlines.now_ms
        if self._expires_timer is None:
            self._arm_expires()

    @property
    def last_used_ms(self) -> int:
        """When the queue was used last, of the node's clock; now, while it has consumers."""
        return int(self.vhost.deadlines.now_ms if self.consumers else self._last_used_ms)

    def redeclared(self) -> None:
        """Somebody declared the queue again, or asked whether it is there (rules Q-70, Q-71)."""
        self.touch()

    def _disarm_expires(self) -> None:
        timer = self._expires_timer
        if timer is not None:
            self.vhost.deadlines.cancel(timer)
            self._expires_timer = None

    def _arm_expires(self) -> None:
        """Wait for the end of an unused queue; while it has consumers it is used."""
        self._disarm_expires()
        expires_ms = self.settings.expires_ms
        if expires_ms is not None and not self.consumers and not self.is_deleted:
            due_ms: i64 = self._last_used_ms + expires_ms
            self._expires_timer = self.vhost.deadlines.schedule(due_ms, self._check_expires)

    def _check_expires(self) -> None:
        self._expires_timer = None
        expires_ms = self.settings.expires_ms
        if expires_ms is None or self.consumers or self.is_deleted:
            return

        if self._last_used_ms + expires_ms > self.vhost.deadlines.now_ms:
            self._arm_expires()
        else:
            self.vhost.remove_queue(self)

    def discard(self) -> list[Consumer]:
        """The queue is being deleted: forget all messages, return the consumers to tell."""
        self.is_deleted = True
        self.purge()
        self._disarm_expires()
        timer = self._head_timer
        if timer is not None:
            self.vhost.deadlines.cancel(timer)
            self._head_timer = None

        orphans = list(self.consumers)
        self.consumers.clear()
        self.active_consumer = None
        self.rotation.clear()
        events = self.vhost.events
        for consumer in orphans:
            consumer.retire()
            if events is not None:
                events.consumer_deleted(self, consumer)

        return orphans
