"""Toolkit: what is sent and what arrives, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.client.checks import SECONDS_MAX, check_flag, check_seconds, check_text, shown
from broker.client.errors import InvalidValue

if TYPE_CHECKING:
    from datetime import datetime

    from broker.client.schedule import When

__all__ = ["DeadLetter", "Envelope", "Message", "QueueStats", "Sent", "ServerStats"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message to be sent, with everything that can be said about it."""

    body: object
    """Encoded with the client's codec; bytes are sent as they are."""

    id: str | None = None
    """Stays with the message whatever happens to it; made up if None."""

    priority: int | None = None
    headers: Mapping[str, object] = field(default_factory=dict, hash=False)
    when: When | None = None
    """Not before then."""

    ttl: float | None = None
    """A dead letter after so many seconds of waiting."""

    type: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    content_type: str | None = None
    """What ``body`` is, where it is bytes that somebody else has encoded."""

    durable: bool = True
    """Written to disk by the broker before it is confirmed."""

    def __post_init__(self) -> None:
        for name in ("id", "type", "correlation_id", "reply_to", "content_type"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))

        if self.ttl is not None:
            check_seconds("ttl", self.ttl, is_zero_ok=True, high=SECONDS_MAX)

        if not isinstance(self.headers, Mapping):
            raise InvalidValue(f"headers are names and values, not {shown(self.headers)}")

        check_flag("durable", self.durable)
        if self.content_type is not None and not isinstance(
            self.body, bytes | bytearray | memoryview
        ):
            raise InvalidValue(
                f"content_type says what bytes are, and {type(self.body).__name__} is written by "
                "the client's codec, which has its own"
            )


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the broker has confirmed."""

    id: str
    resent: bool = False
    """The connection was lost before the confirm, so it was sent again with the same id: it may be
    there twice, and ``dedupe_window`` or an idempotency store tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Generic[T]):
    """A message that arrived."""

    body: T
    id: str
    """As it was sent; the empty text if it was sent by something that gives no ids."""

    headers: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What the sender put there, without what the toolkit and the broker add."""

    priority: int = 0
    attempt: int = 1
    """Which attempt to handle it this is."""

    queue: str = ""
    topic: str = ""
    """What it was published under; the name of the queue if it was sent to that."""

    timestamp: datetime | None = None
    """When it was sent."""

    redelivered: bool = False
    """The broker has handed it out before."""

    type: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    content_type: str | None = None
    error: str | None = None
    """What the last attempt failed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Message[T]):
    """A message that will not be handled any more."""

    reason: str = ""
    """``attempts`` (no attempt is left), ``rejected`` (somebody said so), ``undecodable``, or what
    the broker says: ``expired``, ``maxlen``, ``delivery_limit``."""

    error_type: str | None = None
    traceback: str | None = None
    dead_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What is in a queue now."""

    name: str
    ready: int
    """Waiting to be handed out."""

    consumers: int
    dead: int
    """Dead letters."""

    in_flight: int | None = None
    """Being handled. This and what follows only the HTTP API tells: see ``Options``."""

    published: int | None = None
    """How many messages were put there since it was made, or the broker started; and so on."""

    delivered: int | None = None
    redelivered: int | None = None
    acked: int | None = None


@dataclass(frozen=True, slots=True)
class ServerStats:
    """What a broker is, and what it has now, as the HTTP API tells it."""

    product: str
    version: str
    queues: int
    connections: int
    channels: int
    consumers: int
    ready: int
    in_flight: int
