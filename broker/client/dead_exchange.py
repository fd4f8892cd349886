"""Toolkit: the exchange that dead letters go through, whoever makes them ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client.spec import DEAD_EXCHANGE

if TYPE_CHECKING:
    from aiormq.channel import Channel

__all__ = ["declare_dead_exchange"]


async def declare_dead_exchange(channel: Channel) -> None:
    """Declare it. A topic exchange, so that who wants to know of deaths can subscribe to it."""
    await channel.exchange_declare(DEAD_EXCHANGE, exchange_type="topic", durable=True)
