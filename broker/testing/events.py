"""One message, one thing that has happened to it, and many of these. Layer: testing.

Invariant: an event is never changed; of a message, only where it has been.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message import content_body

if TYPE_CHECKING:
    from broker.core.message import Message

__all__ = ["Event", "Events", "RecordedMessage", "shown"]

BODY_CHARACTERS_MAX: Final = 60


class RecordedMessage:
    """One message that was published, wherever it has been since.

    Attributes:
        number: 1 for the first message of the history.
        vhost: the virtual host it was published in.
        exchange: as the publisher named it; empty for the default exchange.
        routing_key: likewise.
        body: as bytes.
        routed_to: the queues that it was routed to at first.
        refused_by: those of them that were full and refused it.

    """

    def __init__(
        self, number: int, vhost: str, message: Message, routed_to: tuple[str, ...]
    ) -> None:
        self.number = number
        self.vhost = vhost
        self.exchange = message.address.exchange
        self.routing_key = message.address.routing_key
        self.routed_to = routed_to
        self.refused_by: set[str] = set()
        # Wherever it may be: the queues that a dead letter of it went to, too.
        self.went = set(routed_to)
        self.body = content_body(message.content)
        self.properties: dict[str, object] = message.properties().to_plain()
        """Those that were set, by their AMQP names; what was published, not what came of it."""

    @property
    def headers(self) -> dict[str, object]:
        """The table of headers; empty where there is none."""
        headers = self.properties.get("headers", {})
        assert isinstance(headers, dict)
        return headers

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> object:
        """The body as the JSON that it holds."""
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"#{self.number} {shown(self.body)}"


class Event(NamedTuple):
    """One thing that happened.

    Attributes:
        kind: ``published``, ``returned``, ``unroutable``, ``confirmed``, ``refused``,
            ``delivered``, ``acked``, ``nacked``, ``rejected``, ``requeued``, ``expired``,
            ``dead-lettered``, ``dropped``, ``purged``, ``deleted``, ``uncommitted``,
            ``rolled-back``, ``turned-away`` or ``note``.
        at_s: seconds of the broker's clock since it started.
        vhost: the virtual host; empty where it concerns the whole broker.
        message: None where it concerns no single message.
        queue: where it happened; of ``published``, the only queue that was reached.
        consumer: the consumer tag; empty for basic.get.
        client: connection and channel.
        reason: why a message died or went back; what a note says.
        to: the queues that a published message or a dead letter reached.
        is_redelivered: the flag of a delivery.
        tag: the delivery tag.
        is_automatic: a delivery that needs no acknowledgement.

    """

    kind: str
    at_s: float
    vhost: str
    message: RecordedMessage | None = None
    queue: str = ""
    consumer: str = ""
    client: str = ""
    reason: str = ""
    to: tuple[str, ...] = ()
    is_redelivered: bool = False
    tag: int = 0
    is_automatic: bool = False

    @property
    def body(self) -> bytes:
        """The body of its message; empty where there is none."""
        return self.message.body if self.message is not None else b""

    def __str__(self) -> str:
        subject = repr(self.message) if self.message is not None else ""
        text = " ".join(part for part in (f"{self.kind:<13}", subject, _details(self)) if part)
        return f"{self.at_s:+12.3f} s  {text}"


class Events(tuple[Event, ...]):
    """Events that were asked for, in order."""

    __slots__ = ()

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of their messages."""
        return [one.body for one in self]

    @property
    def messages(self) -> list[RecordedMessage]:
        """Their messages."""
        return [one.message for one in self if one.message is not None]

    @property
    def times(self) -> list[float]:
        """When they happened, in seconds of the broker's clock since it started."""
        return [one.at_s for one in self]

    def one(self) -> Event:
        """The only one.

        Raises:
            AssertionError: there is none, or more than one.

        """
        listed = "".join(f"\n  {one}" for one in self)
        assert len(self) == 1, f"expected one event, found {len(self)}{listed}"
        return self[0]

    def __str__(self) -> str:
        return "\n".join(str(one) for one in self)


def _details(event: Event) -> str:
    kind = event.kind
    message = event.message
    who = f"consumer {event.consumer!r}" if event.consumer else "basic.get"
    where = f"queue {event.queue!r}"
    text = event.reason
    if kind in ("published", "uncommitted", "rolled-back") and message is not None:
        exchange = message.exchange or "(default)"
        reached = ", ".join(event.to) or "no queue"
        text = f"to exchange {exchange!r} with key {message.routing_key!r} -> {reached}"
    elif kind == "delivered":
        again = ", redelivered" if event.is_redelivered else ""
        how = "no ack needed" if event.is_automatic else f"tag {event.tag}"
        text = f"from {where} to {who} ({how}{again})"
    elif kind in ("acked", "nacked", "rejected"):
        text = f"by {who} of {where} (tag {event.tag})"
    elif kind == "requeued":
        text = f"to {where}" + (f": {event.reason}" if event.reason else "")
    elif kind == "dead-lettered":
        reached = ", ".join(event.to) or "no queue"
        text = f"from {where} ({event.reason}) -> {reached}"
    elif kind == "dropped":
        text = f"from {where} ({event.reason}), which has no dead letter exchange"
    elif event.queue:
        text = f"in {where}" + (f": {event.reason}" if event.reason else "")

    return text


def shown(body: bytes) -> str:
    """A body for people to read."""
    if len(body) <= BODY_CHARACTERS_MAX:
        return repr(body)

    return f"{body[:BODY_CHARACTERS_MAX]!r}... ({len(body)} bytes)"
