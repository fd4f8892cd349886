"""Core: messages that the broker itself routes on: held back, remembered, or of its own making.

Nobody waits for the outcome: what reaches no queue is gone, and what a queue refuses too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.expiration import parse_expiration
from broker.core.message import NO_TTL

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.exchange.base import Exchange
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost

__all__ = ["forward", "hand_to", "keys_of"]


def keys_of(message: Message) -> list[str]:
    """The routing key, then the keys of CC and BCC (rule E-70)."""
    address = message.address
    return [address.routing_key, *(address.cc_keys or []), *(address.bcc_keys or [])]


def forward(vhost: VirtualHost, start: Exchange, message: Message) -> int:
    """Route a message from an exchange, by the bindings of now; returns how many queues it reached.

    It keeps the address it was published to, and its own time to live begins now (rule E-117).
    """
    queues, keepers = vhost.route_message(start, keys_of(message), message.properties())
    for keeper in keepers:
        keeper.keep(message, is_returned=False)

    hand_to(queues, message)
    return len(queues)


def hand_to(queues: list[Queue], message: Message) -> None:
    """Put copies of a message into queues."""
    ttl_ms: i64 = NO_TTL
    expiration = message.properties().expiration
    if expiration is not None:
        ttl_ms = parse_expiration(expiration)

    for queue in queues:
        queue.enqueue(message.copy(), ttl_ms)
