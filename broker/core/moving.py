"""Moving messages from a queue to other places, a few at a time.

A mover is a consumer without a connection: it takes messages as basic.get does, so what it holds is
unacked meanwhile, and each message that it moves is settled in the batch of the log that has it in
its new place: a crash neither loses nor doubles one. What is not wanted, and what no queue takes,
goes back to its place, and is as if it had not been touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.exchange_commands import exchange_named
from broker.core.expiration import parse_expiration
from broker.core.forwarding import keys_of
from broker.core.message import NO_TTL, Address, Message
from broker.core.message_commands import own_deliveries
from broker.core.queue_commands import queue_named
from broker.errors import AMQPError

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.actor import Actor
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.wire.tables import Arguments

__all__ = ["HELD_MAX", "MoveTarget", "Mover", "Wanted", "check_move"]

HELD_MAX: Final = 100_000
"""Messages that a mover holds at most because they were not wanted."""

Wanted = Callable[[Message], bool]
"""Whether a message is to be moved."""


class MoveTarget(NamedTuple):
    """Where messages go.

    Attributes:
        queue: straight into this queue; None for another way.
        exchange: by this exchange and the bindings of now; None for another way. Without either,
            back to the queue where a message died first.
        routing_key: another key than a message has; None to keep it.

    """

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


def check_move(vhost: VirtualHost, actor: Actor, source: str, target: MoveTarget) -> None:
    """Whether that may be done.

    Raises:
        AccessRefused: no right to read here, or to write there.
        NotFound: one of the ends is not there.
        ResourceLocked: one of them is another connection's own.
        NotImplementedByBroker: nothing can be taken from a queue of that type.

    """
    actor.check("read", "queue", source)
    queue = queue_named(vhost, source)
    actor.check_unlocked(queue)
    queue.check_get()
    if target.queue is not None:
        actor.check("write", "exchange", "")
        actor.check_unlocked(queue_named(vhost, target.queue))
    elif target.exchange is not None:
        actor.check("write", "exchange", target.exchange)
        exchange_named(vhost, target.exchange)
    else:
        actor.check("write", "exchange", "")


class Mover:
    """Moves messages of one queue.

    Args:
        vhost: where all this is.
        actor: who wants it.
        source: the queue.
        target: where to.
        wanted: which messages; None for all.
        count_max: no more than so many.

    Attributes:
        moved: messages that are in their new place.
        refused: those that no queue took; they are back.
        passed: those that were not wanted.
        is_done: there is no more to do.
        lost: what was deleted before it was done; empty where nothing was.

    """

    __slots__ = (
        "_count_max",
        "_deliveries",
        "_held",
        "_left",
        "_source",
        "_target",
        "_wanted",
        "is_done",
        "lost",
        "moved",
        "passed",
        "refused",
        "vhost",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        actor: Actor,
        source: Queue,
        target: MoveTarget,
        *,
        wanted: Wanted | None,
        count_max: int,
    ) -> None:
        self.vhost = vhost
        self._source = source
        self._target = target
        self._wanted = wanted
        self._count_max = count_max
        # What comes in meanwhile, perhaps from here, is not for this mover.
        self._left = int(source.ready_count)
        self._held: list[tuple[Message, bool]] = []
        self.moved = 0
        self.refused = 0
        self.passed = 0
        self.is_done = self._left == 0 or count_max <= 0
        self.lost = ""
        self._deliveries = own_deliveries(actor)
        vhost.deliveries[self._deliveries] = None

    @property
    def total(self) -> int:
        """How many messages there were to look at, when it began."""
        return self._left + self.moved + self.refused + self.passed

    def step(self, count: int) -> None:
        """Look at the next few messages, and move those that are wanted."""
        source = self._source
        deliveries = self._deliveries
        self.lost = self._lost()
        if self.lost:
            self.is_done = True

        while count > 0 and not self.is_done:
            count -= 1
            was_redelivered = source.redeliver_count
            message = source.take(False)
            if message is None:
                self.is_done = True
                return

            source.get_count -= 1
            source.redeliver_count = was_redelivered
            # It is as unacked as what a client has, for whoever writes down what there is.
            message.consumer = deliveries.getter_for(source)
            message.delivery_tag = deliveries.next_tag
            deliveries.next_tag += 1
            deliveries.unacked.add(message)
            self._left -= 1
            self._look_at(message)
            if self._left <= 0 or self.moved >= self._count_max or len(self._held) >= HELD_MAX:
                self.is_done = True

    def _lost(self) -> str:
        """Which of its ends is not there any more; nothing can come of what is left."""
        target = self._target
        if self._source.is_deleted:
            return "the queue"

        if target.queue is not None and target.queue not in self.vhost.queues:
            return f"the destination '{target.queue}'"

        if target.exchange is not None and target.exchange not in self.vhost.exchanges:
            return f"the exchange '{target.exchange}'"

        return ""

    def _look_at(self, message: Message) -> None:
        wanted = self._wanted
        if wanted is not None and not wanted(message):
            self.passed += 1
        elif self._move(message):
            self.moved += 1
            self._deliveries.unacked.take(message.delivery_tag)
            message.consumer = None
            self._source.moved_away(message)
            return
        else:
            self.refused += 1

        self._held.append((message, message.redelivered))

    def _move(self, message: Message) -> bool:
        """Bring a copy to where it is to go; whether somebody has taken it."""
        copy = message.copy()
        # What a quorum queue counts stays there (rule DL-17).
        copy.content = message.logged_content()
        queues: list[Queue] = []
        target = self._target
        if target.queue is not None:
            queues = self._queues_named(target.queue)
        elif target.exchange is not None:
            queues = self._routed(copy, target.exchange, target.routing_key)
        else:
            queues = self._origin_of(copy)

        ttl_ms = _ttl_of(copy)
        is_taken = False
        for queue in queues:
            if queue is not self._source and queue.enqueue(copy.copy(), ttl_ms):
                is_taken = True

        return is_taken

    def _queues_named(self, name: str) -> list[Queue]:
        queue = self.vhost.queues.get(name)
        return [] if queue is None else [queue]

    def _routed(self, copy: Message, name: str, key: str | None) -> list[Queue]:
        exchange = self.vhost.exchanges.get(name)
        if exchange is None:
            return []

        old = copy.address
        if key is None:
            copy.address = Address(name, old.routing_key, old.cc_keys, old.bcc_keys, old.history)
        else:
            copy.address = Address(name, key, history=old.history)

        queues, _ = self.vhost.route_message(exchange, keys_of(copy), copy.properties())
        exchange.publish_in += 1
        exchange.publish_out += len(queues)
        return queues

    def _origin_of(self, copy: Message) -> list[Queue]:
        """The queue where a message died first, and the address that it had there."""
        headers = copy.properties().headers()
        queue = _text_in(headers, "x-first-death-queue")
        if queue is None:
            return []

        key = _first_key(headers)
        exchange = _text_in(headers, "x-first-death-exchange")
        if key is not None and exchange is not None:
            copy.address = Address(exchange, key, history=copy.history)

        return self._queues_named(queue)

    def finish(self) -> None:
        """Give back what was held; afterwards the mover is of no use."""
        self.is_done = True
        self.vhost.deliveries.pop(self._deliveries, None)
        held = self._held
        self._held = []
        if held:
            for message, _ in held:
                message.consumer = None

            self._deliveries.unacked.take_all()
            self._source.put_back_untouched(held)


def _text_in(headers: Arguments, name: str) -> str | None:
    field = headers.get(name)
    return field.value if field is not None and isinstance(field.value, str) else None


def _first_key(headers: Arguments) -> str | None:
    """The routing key that a message had when it died for the first time."""
    deaths = headers.get("x-death")
    if deaths is None or not isinstance(deaths.value, list) or not deaths.value:
        return None

    first = deaths.value[len(deaths.value) - 1].value
    keys = first.get("routing-keys") if isinstance(first, dict) else None
    if keys is None or not isinstance(keys.value, list) or not keys.value:
        return None

    key = keys.value[0].value
    return key if isinstance(key, str) else None


def _ttl_of(message: Message) -> i64:
    """The time to live that a message brings along."""
    expiration = message.properties().expiration
    if expiration is None:
        return NO_TTL

    try:
        return parse_expiration(expiration)
    except AMQPError:
        return NO_TTL
