"""Core: messages that come from elsewhere than a channel and are published for the broker itself.

No rights are asked for and nobody is answered: who configured the source has granted it. They count
as published all the same, so that what comes in and what goes out still agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.forwarding import forward
from broker.core.message import Address, Message, build_content
from broker.core.outbox import short_key

if TYPE_CHECKING:
    from broker.core.vhost import VirtualHost

__all__ = ["publish_own"]


def publish_own(
    vhost: VirtualHost,
    exchange_name: str,
    routing_key: str,
    *,
    properties: bytes,
    body: bytes,
    is_persistent: bool,
) -> int | None:
    """Publish a message; returns how many queues it reached, or None: there is no such exchange.

    Args:
        vhost: where.
        exchange_name: of the exchange, which may be an internal one.
        routing_key: cut to what a short string holds.
        properties: property flags and values.
        body: the whole body.
        is_persistent: whether the properties say so.

    """
    exchange = vhost.exchanges.get(exchange_name)
    if exchange is None:
        return None

    address = Address(exchange_name, short_key(routing_key))
    content = build_content(properties, body)
    message = Message(address, content, len(body), is_persistent, -1)
    exchange.publish_in += 1
    reached = forward(vhost, exchange, message)
    exchange.publish_out += reached
    tally = vhost.tally
    tally.publishes.published += 1
    tally.sizes.add(len(body), 1)
    if is_persistent:
        tally.persistent += 1

    if not reached:
        tally.publishes.dropped += 1

    return reached
