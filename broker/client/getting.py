"""Toolkit: one message at a time, for who asks.

Invariant: a message that was taken from the broker gets to whoever asked, or goes back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from broker.client.delivery import Delivery
from broker.client.errors import QueueNotFound
from broker.client.intake import Intake
from broker.client.link import get_message
from broker.client.patience import ANSWER_S, at_most, leave_alone
from broker.client.source import Source

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

    from broker.client.core import Core
    from broker.client.link import Link

__all__ = ["Getting"]

T = TypeVar("T")


class Getting:
    """Gets messages, over one channel a connection."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, queue: str, into: type[T] | None) -> Delivery[T] | None:
        """Take a message, if there is one; skip those that were handled already."""

        async def get(link: Link) -> Delivery[T] | None:
            async with link.getter() as channel:
                raw = await get_message(channel, queue, _hand_back)
                if raw is None:
                    return None

                return Delivery(raw, Source(self._core, link, channel, queue, into))

        while True:
            delivery = await self._core.session.run(get)
            if delivery is None:
                return None

            if not delivery.is_duplicate:
                delivery.start_clock()
                return delivery

            await delivery.ack()

    async def wait(self, queue: str, seconds: float, into: type[T] | None) -> Delivery[T] | None:
        """Take a message, or wait for one."""
        arrived: asyncio.Future[Delivery[T]] = asyncio.get_running_loop().create_future()

        def on_delivery(delivery: Delivery[T]) -> None:
            if arrived.done():
                self._core.spawn(_give_back(delivery))
            else:
                arrived.set_result(delivery)

        intake: Intake[T] = Intake(self._core, queue, on_delivery, into=into, prefetch=1)
        try:
            await intake.start()
            await asyncio.wait([arrived], timeout=seconds)
            is_lost = intake.is_lost
            await at_most(ANSWER_S, intake.stop_taking())
        except BaseException:
            # Interrupted again it goes on: what has arrived has to go back.
            await asyncio.shield(self._core.spawn(intake.close()))
            raise

        if not arrived.done():
            await at_most(ANSWER_S, intake.close())
            if is_lost and not await self._core.session.run(lambda link: link.has_queue(queue)):
                raise QueueNotFound(f"the queue {queue!r} was deleted meanwhile")

            return None

        # From here on nothing waits, so that nothing can be interrupted with the message in hand.
        delivery = arrived.result()
        delivery.start_clock()
        intake.release()
        return delivery


def _hand_back(raw: DeliveredMessage) -> None:
    """Hand back what was taken for somebody who does not wait for it any more."""
    if raw.delivery_tag is not None:
        leave_alone(raw.channel.basic_nack(raw.delivery_tag, requeue=True, wait=False))


async def _give_back(delivery: Delivery[Any]) -> None:
    await delivery.requeue()
