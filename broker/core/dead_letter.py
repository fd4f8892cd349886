"""Dead-lettering: what becomes of messages that were rejected, expired or dropped (rules DL).

A death is written into the message's headers, and kept beside them as the broker's own history: a
publisher's x-death is data, not history (rule DL-09). Dead letters are published from a list, not
from within one another, so that a chain of queues that all drop costs no stack.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message import Address, Message, content_with_properties
from broker.wire.properties import set_headers, without_expiration
from broker.wire.tables import Arguments, Field

if TYPE_CHECKING:
    from broker.core.queue.arguments import QueueSettings
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost

__all__ = ["DeadLetters", "Death", "DeathHistory", "is_cycle", "record_death"]

NO_TTL: Final = -1


class Death(NamedTuple):
    """One entry of x-death: the deaths of a message in one queue for one reason (rule DL-07)."""

    queue: str
    reason: str
    exchange: str
    routing_keys: list[str]
    time_s: int
    original_expiration: str | None
    times: int = 1

    def again(self) -> Death:
        """The same death once more: the count grows, the rest keeps its first values (DL-06)."""
        return self._replace(times=self.times + 1)

    def to_field(self) -> Field:
        """The entry as it stands in the x-death array."""
        table: Arguments = {
            "count": Field("l", self.times),
            "reason": Field("S", self.reason),
            "queue": Field("S", self.queue),
            "time": Field("T", self.time_s),
            "exchange": Field("S", self.exchange),
            "routing-keys": Field("A", [Field("S", key) for key in self.routing_keys]),
        }
        if self.original_expiration is not None:
            table["original-expiration"] = Field("S", self.original_expiration)

        return Field("F", table)


class DeathHistory:
    """All deaths of a message, newest first, and which one was the very first (DL-06, DL-08)."""

    __slots__ = ("entries", "first")

    def __init__(self, entries: list[Death], first: Death) -> None:
        self.entries = entries
        self.first = first

    def to_headers(self) -> dict[str, Field]:
        """The headers that tell the history: x-death, the first and the last death by name."""
        first = self.first
        last = self.entries[0]
        return {
            "x-death": Field("A", [death.to_field() for death in self.entries]),
            "x-first-death-reason": Field("S", first.reason),
            "x-first-death-queue": Field("S", first.queue),
            "x-first-death-exchange": Field("S", first.exchange),
            "x-last-death-reason": Field("S", last.reason),
            "x-last-death-queue": Field("S", last.queue),
            "x-last-death-exchange": Field("S", last.exchange),
        }


def record_death(history: DeathHistory | None, death: Death) -> DeathHistory:
    """The history with one more death in front (rule DL-06). The one given is not changed."""
    if history is None:
        return DeathHistory([death], death)

    past = history.entries
    for entry in past:
        if entry.queue == death.queue and entry.reason == death.reason:
            others = [one for one in past if one is not entry]
            return DeathHistory([entry.again(), *others], history.first)

    return DeathHistory([death, *past], history.first)


def is_cycle(history: DeathHistory, target: str) -> bool:
    """Whether a copy for ``target`` would go round without anybody having refused it (DL-11)."""
    for death in history.entries:
        if death.reason == "rejected":
            return False

        if death.queue == target:
            return True

    return False


class DeadLetters:
    """The dead letters of one virtual host, waiting to be routed."""

    __slots__ = ("_is_running", "_pending", "_vhost")

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self._pending: deque[tuple[Queue, Message, str, QueueSettings]] = deque()
        self._is_running = False

    def dead_letter(self, queue: Queue, message: Message, reason: str) -> None:
        """Send a message that has left its queue on to the queue's DLX, if it has one (DL-03)."""
        settings = queue.settings
        if settings.dead_letter_exchange is None:
            return

        self._pending.append((queue, message, reason, settings))
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        self._is_running = True
        try:
            while self._pending:
                queue, message, reason, settings = self._pending.popleft()
                self._publish(queue, message, reason, settings)
        finally:
            self._is_running = False

    def _publish(
        self, queue: Queue, message: Message, reason: str, settings: QueueSettings
    ) -> None:
        vhost = self._vhost
        name = settings.dead_letter_exchange
        exchange = vhost.exchanges.get(name) if name is not None else None
        if exchange is None or name is None:
            return

        letter = self._letter(queue, message, reason, settings)
        exchange.publish_in += 1
        address = letter.address
        keys = [address.routing_key, *(address.cc_keys or []), *(address.bcc_keys or [])]
        history = letter.history
        assert history is not None
        targets, depends_on_headers = vhost.route_queues(exchange, keys, None)
        if depends_on_headers:
            # Seldom; the headers of one that died often are long.
            targets, _ = vhost.route_queues(exchange, keys, letter.properties().headers())

        for target in targets:
            if reason != "rejected" and is_cycle(history, target.name):
                continue

            exchange.publish_out += 1
            target.enqueue(letter.copy(), NO_TTL)

    def _letter(
        self, queue: Queue, message: Message, reason: str, settings: QueueSettings
    ) -> Message:
        """The message under its new address, with the death in its headers (DL-04..DL-08)."""
        old = message.address
        properties = message.properties()
        death = Death(
            queue.name,
            reason,
            exchange=old.exchange,
            routing_keys=[old.routing_key, *(old.cc_keys or [])],
            time_s=self._vhost.deadlines.wall_ms // 1000,
            original_expiration=properties.expiration,
        )
        history = record_death(message.history, death)
        exchange_name = settings.dead_letter_exchange
        assert exchange_name is not None
        key = settings.dead_letter_routing_key
        if key is None:
            address = Address(exchange_name, old.routing_key, old.cc_keys, old.bcc_keys)
        else:
            address = Address(exchange_name, key)

        raw = set_headers(without_expiration(properties.raw), history.to_headers())
        content = content_with_properties(message.content, raw)
        letter = Message(
            address, content, message.body_size, message.is_persistent, message.priority
        )
        letter.history = history
        return letter
