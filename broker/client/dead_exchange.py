"""Toolkit: the exchange that dead letters go through, whoever makes them ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client import wire
from broker.client.spec import DEAD_EXCHANGE, dead_queue_name

if TYPE_CHECKING:
    from broker.client.link import Link
    from broker.client.spec import QueueSpec
    from broker.client.underlay import Channel

__all__ = ["declare_dead_exchange", "declare_dead_queue"]


async def declare_dead_exchange(channel: Channel) -> None:
    """Declare it. A topic exchange, so that who wants to know of deaths can subscribe to it."""
    await channel.exchange_declare(DEAD_EXCHANGE, exchange_type="topic", durable=True)


async def declare_dead_queue(link: Link, name: str, spec: QueueSpec) -> None:
    """Declare the queue for the dead letters of the queue ``name``, and its binding."""
    await link.ensure(DEAD_EXCHANGE, declare_dead_exchange)
    dead = dead_queue_name(name)
    async with link.admin() as channel:
        await channel.queue_declare(
            dead, durable=spec.durable, arguments=wire.table(spec.dead_arguments())
        )
        await channel.queue_bind(dead, DEAD_EXCHANGE, routing_key=name)
