"""Direct reply-to: answers to a channel without a queue of its own (section DR).

A channel that consumes from ``amq.rabbitmq.reply-to`` gets a pseudo-queue with an unguessable name.
Requests that the channel publishes carry that name in reply-to; what anybody publishes under it to
the default exchange goes straight to the consumer. Nothing of it is listed, kept or dead-lettered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.erlterm import resource_text
from broker.core.message import NO_TTL
from broker.core.queue.arguments import QueueSettings
from broker.core.queue.queue import Queue, QueueDefinition
from broker.errors import NotFound

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import Consumer
    from broker.core.message import Message
    from broker.core.vhost import VirtualHost

__all__ = [
    "REPLY_ALIAS",
    "REPLY_PREFIX",
    "ReplyQueue",
    "ReplySink",
    "is_reply_name",
    "looks_generated",
    "reply_queue_named",
]

REPLY_ALIAS: Final = "amq.rabbitmq.reply-to"
REPLY_PREFIX: Final = "amq.rabbitmq.reply-to."

TOKEN_CHARACTERS: Final = 22

REPLIES_WAITING_MAX: Final = 100_000
"""Replies kept for a requester whose socket is full; the oldest go first (rule DR-11)."""


class ReplyQueue(Queue):
    """The pseudo-queue of one reply consumer."""

    __slots__ = ()

    def __init__(self, vhost: VirtualHost, owner: object) -> None:
        settings = QueueSettings()
        settings.length_max = REPLIES_WAITING_MAX
        definition = QueueDefinition(False, True, owner, {})
        # A public part and a secret one, as in RabbitMQ's names (rule DR-05).
        name = f"{REPLY_PREFIX}{vhost.generate_token()}.{vhost.generate_token()}"
        super().__init__(vhost, name, definition, settings)

    def enqueue(self, message: Message, ttl_ms: i64) -> bool:
        """Take a reply; it has no time to live and is never given back (rule DR-11)."""
        return super().enqueue(message, NO_TTL)

    def remove_consumer(self, consumer: Consumer) -> None:
        """The requester stops: whatever still comes under the name is dropped (rule DR-07)."""
        consumer.retire()
        self.vhost.remove_reply_queue(self)


class ReplySink(Queue):
    """Where replies go whose requester is gone: they count as routed, and are dropped (DR-07)."""

    __slots__ = ()

    def __init__(self, vhost: VirtualHost) -> None:
        super().__init__(vhost, "", QueueDefinition(False, False, None, {}), QueueSettings())

    def enqueue(self, message: Message, ttl_ms: i64) -> bool:
        """Drop a reply."""
        return True


def looks_generated(name: str) -> bool:
    """Whether a name has the form that reply queues are given (rule DR-06)."""
    parts = name[len(REPLY_PREFIX) :].split(".")
    is_form = len(parts) == 2 and all(len(part) == TOKEN_CHARACTERS for part in parts)
    return name.startswith(REPLY_PREFIX) and is_form


def is_reply_name(name: str) -> bool:
    """Whether a name is the alias, or looks like one that a reply consumer was given."""
    return name == REPLY_ALIAS or name.startswith(REPLY_PREFIX)


def reply_queue_named(vhost: VirtualHost, name: str) -> ReplyQueue:
    """Find the pseudo-queue of a generated name.

    Raises:
        NotFound: the requester is gone, or there never was one (rule DR-08).

    """
    queue = vhost.reply_queues.get(name)
    if queue is None:
        raise NotFound(f"no {resource_text('queue', name, vhost.name)}")

    return queue
