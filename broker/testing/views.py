"""Queues, exchanges, consumers and connections, as a test looks at them. Layer: testing.

A view is a name: it may be taken before the thing is there and after it is gone, but nothing can be
asserted of a queue that never was. Every question is answered as things are when it is asked.
Assertions return the view, so that one may follow another, and what they raise tells the story of
the queue.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.browsing import Browser
from broker.core.message import content_body
from broker.testing.events import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.protocol.connection import Connection
    from broker.testing.events import Events
    from broker.testing.history import History
    from broker.testing.stage import Stage

__all__ = [
    "ConnectionView",
    "ConsumerView",
    "ExchangeView",
    "Home",
    "QueueView",
    "demand_queue",
    "describe",
]

BODIES_SHOWN_MAX: Final = 5
BODIES_MAX: Final = 10_000


class Home(Protocol):
    """The virtual host that a view is of."""

    @property
    def stage(self) -> Stage: ...

    @property
    def vhost(self) -> str: ...

    @property
    def history(self) -> History: ...


class QueueView:
    """A queue.

    Attributes:
        name: its name.

    """

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self.name = name

    def _find(self) -> Queue | None:
        return self._home.stage.node.vhosts[self._home.vhost].queues.get(self.name)

    def _int(self, attribute: str) -> int:
        def read() -> int:
            queue = self._find()
            return 0 if queue is None else int(getattr(queue, attribute))

        return self._home.stage.call(read)

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return self._home.stage.call(lambda: self._find() is not None)

    @property
    def ready(self) -> int:
        """Messages that nobody has."""
        return self._int("ready_count")

    @property
    def unacked(self) -> int:
        """Messages that consumers have, and have not settled."""
        return self._int("unacked_count")

    @property
    def consumers(self) -> list[str]:
        """The tags of its consumers."""

        def read() -> list[str]:
            queue = self._find()
            return [] if queue is None else [consumer.tag for consumer in queue.consumers]

        return self._home.stage.call(read)

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the messages that nobody has, the next one first; none is touched."""

        def read() -> list[bytes]:
            queue = self._find()
            found = [] if queue is None else _waiting(queue, BODIES_MAX)
            return [content_body(message.content) for message in found]

        return self._home.stage.call(read)

    # -- what has happened here

    def published(self) -> Events:
        """Publishes that reached it."""
        return self._home.history.published(queue=self.name)

    def delivered(self) -> Events:
        """Deliveries from it."""
        return self._home.history.delivered(queue=self.name)

    def acked(self) -> Events:
        """Deliveries from it that were acknowledged."""
        return self._home.history.acked(queue=self.name)

    def dead_lettered(self) -> Events:
        """Messages that left it for its dead letter exchange."""
        return self._home.history.dead_lettered(queue=self.name)

    @property
    def story(self) -> str:
        """What has happened here, for people to read."""
        return f"{describe(self._home, self.name)}\n{self._home.history.story(self.name)}"

    def assert_published(self, count: int | None = None) -> QueueView:
        """Assert how many publishes reached it; without a number, that any did."""
        return self._check("published", count)

    def assert_delivered(self, count: int | None = None) -> QueueView:
        """Assert how many deliveries there were, redeliveries among them."""
        return self._check("delivered", count)

    def assert_acked(self, count: int | None = None) -> QueueView:
        """Assert how many deliveries were acknowledged."""
        return self._check("acked", count)

    def assert_nacked(self, count: int | None = None) -> QueueView:
        """Assert how many deliveries were given up with basic.nack."""
        return self._check("nacked", count)

    def assert_rejected(self, count: int | None = None) -> QueueView:
        """Assert how many deliveries were given up with basic.reject."""
        return self._check("rejected", count)

    def assert_requeued(self, count: int | None = None) -> QueueView:
        """Assert how many deliveries came back."""
        return self._check("requeued", count)

    def assert_expired(self, count: int | None = None) -> QueueView:
        """Assert how many messages expired here."""
        return self._check("expired", count)

    def assert_dead_lettered(
        self, count: int | None = None, *, reason: str = "", to: str = ""
    ) -> QueueView:
        """Assert how many messages left for the dead letter exchange, why and to which queue."""
        filters = {name: value for name, value in (("reason", reason), ("to", to)) if value}
        return self._check("dead-lettered", count, **filters)

    def _check(self, kind: str, count: int | None, **filters: str) -> QueueView:
        if not self._home.history.check(kind, count, queue=self.name, **filters):
            self._demand_a_queue()

        return self

    def _demand_a_queue(self) -> None:
        demand_queue(self._home, self.name, self._home.vhost)

    # -- how it is

    def assert_exists(self) -> QueueView:
        """Assert that it is there."""
        return self._demand(self.exists, "expected it to be there")

    def assert_ready(self, count: int) -> QueueView:
        """Assert how many messages wait that nobody has."""
        return self._demand(self.ready == count, f"expected {count} ready")

    def assert_unacked(self, count: int) -> QueueView:
        """Assert how many messages consumers hold."""
        return self._demand(self.unacked == count, f"expected {count} unacked")

    def assert_empty(self) -> QueueView:
        """Assert that there is nothing in it, ready or unacked."""
        return self._demand(self.ready + self.unacked == 0, "expected it to be empty")

    def assert_consumers(self, count: int) -> QueueView:
        """Assert how many consumers it has."""
        return self._demand(len(self.consumers) == count, f"expected {count} consumers")

    def assert_bodies(self, *bodies: bytes | str) -> QueueView:
        """Assert which messages wait that nobody has, the next one first."""
        wanted = [body.encode() if isinstance(body, str) else body for body in bodies]
        return self._demand(self.bodies == wanted, f"expected ready {wanted}, found {self.bodies}")

    def _demand(self, holds: bool, text: str) -> QueueView:
        if not holds:
            raise AssertionError(f"queue {self.name!r}: {text}\n{self.story}")

        if not self.exists:
            self._demand_a_queue()

        return self

    def __repr__(self) -> str:
        return describe(self._home, self.name)


def demand_queue(home: Home, name: str, vhost: str | None) -> None:
    """Refuse a name that no queue ever had, in a virtual host or in any."""

    def read() -> set[str]:
        return {name for host in _hosts(home, vhost) for name in host.queues}

    told = (name for one in home.history.events for name in (one.queue, *one.to))
    _demand_a_name("queue", name, _there(home, read), told)


def _demand_a_name(kind: str, name: str, there: set[str], told: Iterable[str]) -> None:
    """Nothing is true of a name that nothing ever had: somebody has mistyped it.

    Raises:
        AssertionError: it is neither there, nor was it told of.

    """
    known = {*there, *told} - {""}
    if name not in known and name not in there:
        near = get_close_matches(name, sorted(known), n=1)
        hint = f"; is {near[0]!r} meant?" if near else ""
        raise AssertionError(f"there is no {kind} {name!r}, nor was there one{hint}")


def _hosts(home: Home, name: str | None) -> list[VirtualHost]:
    return [host for host in home.stage.node.vhosts.values() if name in (None, host.name)]


def _there(home: Home, read: Callable[[], set[str]]) -> set[str]:
    """The names there are; none where the broker has ended."""
    return home.stage.call(read) if home.stage.is_there else set()


def _waiting(queue: Queue, count_max: int) -> list[Message]:
    browser = Browser(queue)
    found: list[Message] = []
    while len(found) < count_max:
        more = browser.take(count_max - len(found))
        if not more:
            break

        found += more

    return found


def describe(home: Home, name: str) -> str:
    """A queue as it is now, on a line."""
    if not home.stage.is_there:
        return f"queue {name!r}: the broker has ended"

    def read() -> str:
        vhost = home.stage.node.vhosts.get(home.vhost)
        queue = None if vhost is None else vhost.queues.get(name)
        if queue is None:
            there = ", ".join(sorted(vhost.queues)) if vhost is not None else ""
            return f"queue {name!r} is not there; there are: {there or 'none'}"

        waiting = _waiting(queue, BODIES_SHOWN_MAX)
        bodies = ", ".join(shown(content_body(message.content)) for message in waiting)
        tags = ", ".join(consumer.tag for consumer in queue.consumers) or "none"
        return (
            f"queue {name!r} now: {int(queue.ready_count)} ready"
            + (
                f" ({bodies}{', ...' if len(waiting) < queue.ready_count else ''})"
                if bodies
                else ""
            )
            + f", {int(queue.unacked_count)} unacked, consumers: {tags}"
        )

    return home.stage.call(read)


class ExchangeView:
    """An exchange; the empty name is the default one.

    Attributes:
        name: its name.

    """

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self.name = name

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        stage, vhost = self._home.stage, self._home.vhost
        return stage.call(lambda: self.name in stage.node.vhosts[vhost].exchanges)

    def published(self, routing_key: str | None = None) -> Events:
        """What was published to it."""
        return self._find("published", routing_key)

    def _find(self, kind: str, routing_key: str | None) -> Events:
        return self._home.history.find(kind, **self._filters(routing_key))

    def _filters(self, routing_key: str | None) -> dict[str, str]:
        filters = {"exchange": self.name}
        return filters if routing_key is None else {**filters, "routing_key": routing_key}

    def assert_published(
        self, count: int | None = None, *, routing_key: str | None = None
    ) -> ExchangeView:
        """Assert how many messages were published to it, with that key."""
        return self._check("published", count, routing_key)

    def assert_unroutable(
        self, count: int | None = None, *, routing_key: str | None = None
    ) -> ExchangeView:
        """Assert how many messages reached no queue, without anybody being told."""
        return self._check("unroutable", count, routing_key)

    def assert_returned(
        self, count: int | None = None, *, routing_key: str | None = None
    ) -> ExchangeView:
        """Assert how many mandatory messages went back to their publishers."""
        return self._check("returned", count, routing_key)

    def _check(self, kind: str, count: int | None, routing_key: str | None) -> ExchangeView:
        if self._home.history.check(kind, count, **self._filters(routing_key)):
            return self

        home = self._home

        def read() -> set[str]:
            return {"", *(name for host in _hosts(home, home.vhost) for name in host.exchanges)}

        told = (one.message.exchange for one in home.history.events if one.message is not None)
        _demand_a_name("exchange", self.name, {"", *_there(home, read)}, told)
        return self


class ConsumerView:
    """A consumer, by its tag.

    Attributes:
        tag: the consumer tag.

    """

    def __init__(self, home: Home, tag: str) -> None:
        self._home = home
        self.tag = tag

    def delivered(self) -> Events:
        """What it got."""
        return self._home.history.delivered(consumer=self.tag)

    def acked(self) -> Events:
        """What it acknowledged."""
        return self._home.history.acked(consumer=self.tag)

    def assert_delivered(self, count: int | None = None) -> ConsumerView:
        """Assert how many deliveries it got."""
        return self._check("delivered", count)

    def assert_acked(self, count: int | None = None) -> ConsumerView:
        """Assert how many deliveries it acknowledged."""
        return self._check("acked", count)

    def assert_requeued(self, count: int | None = None) -> ConsumerView:
        """Assert how many of its deliveries went back."""
        return self._check("requeued", count)

    def _check(self, kind: str, count: int | None) -> ConsumerView:
        if self._home.history.check(kind, count, consumer=self.tag):
            return self

        home = self._home

        def read() -> set[str]:
            return {
                consumer.tag
                for host in _hosts(home, home.vhost)
                for queue in host.queues.values()
                for consumer in queue.consumers
            }

        told = (one.consumer for one in home.history.events)
        _demand_a_name("consumer", self.tag, _there(home, read), told)
        return self


class ConnectionView:
    """A client that is connected, as it was when it was looked at.

    Attributes:
        name: ``host:port -> host:port``.
        client: the name that it gave itself (``connection_name``); may be empty.
        user: who has logged in.
        channels: how many channels it has open.
        heartbeat_s: as it was settled; 0 is none.
        is_blocked: whether an alarm keeps it from publishing.

    """

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self.client = str(connection.client.introduction().get("connection_name", ""))
        self.user = "" if connection.user is None else connection.user.name
        self.channels = len(connection.channels)
        self.heartbeat_s = connection.heartbeat_s
        self.is_blocked = connection.is_blocked

    def __repr__(self) -> str:
        return f"{self.client or self.name} ({self.user}, {self.channels} channels)"
