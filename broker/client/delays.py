"""Toolkit: messages that are to arrive later, on any broker.

Leveret has exchanges of type x-delayed-message. Elsewhere there is a ladder: queues whose messages
expire after 32 ms, 64 ms, 128 ms and so on up to 25 days, each leading to the rung below. The bits
of the delay, as words of the routing key, say on which rungs a message rests; the name of the queue
it is for travels along in ``CC``, and when the last rung lets go of it, it goes there.

Invariant: a message does not arrive before its time.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiormq.exceptions import ChannelNotFoundEntity

from broker.client.errors import InvalidSchedule, QueueNotFound, Unroutable
from broker.client.link import LIBRARY_ERRORS, translated_error
from broker.client.wire import put_header

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.client.link import Link
    from broker.client.options import Options
    from broker.client.underlay import Channel
    from broker.client.wire import Outgoing

__all__ = ["DELAY_S_MAX", "Delays"]

EXCHANGE: Final = "leveret.delayed"
LADDER: Final = "leveret.delay"
RUNG: Final = "leveret.delay.{}"
PREFIX: Final = "leveret-delay"
TICK_MS: Final = 32
RUNGS: Final = 27
"""2**26 ticks are 25 days on the highest rung, 50 on all of them."""

DELAY_MS_MAX: Final = TICK_MS * (2**RUNGS - 1)
"""49 days: as long as all rungs take, and as delays of an exchange may be."""

DELAY_S_MAX: Final = DELAY_MS_MAX / 1000


class Delays:
    """How messages of one client wait."""

    def __init__(self, options: Options) -> None:
        self._mode = options.delays

    def uses_exchange(self, link: Link) -> bool:
        """Whether they wait in an exchange for that, rather than on the ladder."""
        return self._mode == "exchange" or (self._mode == "auto" and link.product == "Leveret")

    async def publish(
        self, link: Link, queue: str, message: Outgoing, delay: float, *, is_known: bool
    ) -> None:
        """Publish something that reaches a queue so many seconds from now.

        Args:
            link: where to.
            queue: the queue.
            message: the message.
            delay: seconds.
            is_known: the queue was there a moment ago.

        Raises:
            Unroutable: there is no such queue. Later nobody could say so.

        """
        delay_ms = max(1, math.ceil(delay * 1000))
        if self.uses_exchange(link) and link.product == "Leveret":
            await self._through_exchange(link, queue, message, delay_ms)
            return

        if not is_known:
            await _check_queue(link, queue)

        if self.uses_exchange(link):
            await self._through_plugin(link, queue, message, delay_ms)
        else:
            await self._over_ladder(link, queue, message, delay_ms)

    async def _through_exchange(
        self, link: Link, queue: str, message: Outgoing, delay_ms: int
    ) -> None:
        await link.ensure(EXCHANGE, _declare_exchange)
        put_header(message, "x-delay", delay_ms)
        try:
            await _publish(link, EXCHANGE, queue, message)
        except Unroutable:
            # Leveret says so at once where the queue is not bound: the first time, or when it was
            # deleted and made again.
            await _bind(link, queue)
            await _publish(link, EXCHANGE, queue, message)

    async def _through_plugin(
        self, link: Link, queue: str, message: Outgoing, delay_ms: int
    ) -> None:
        await link.ensure(EXCHANGE, _declare_exchange)
        await _bind(link, queue)
        put_header(message, "x-delay", delay_ms)
        # RabbitMQ's plugin returns what is mandatory, and delivers it all the same.
        await link.publish(EXCHANGE, queue, message, mandatory=False)

    async def _over_ladder(self, link: Link, queue: str, message: Outgoing, delay_ms: int) -> None:
        await link.ensure(LADDER, _declare_ladder)
        ticks = ticks_of(delay_ms)
        put_header(message, "CC", [queue])
        # An expiry of its own would let it off a high rung early.
        message.properties.expiration = None
        await _publish(link, RUNG.format(ticks.bit_length() - 1), ladder_key(ticks), message)


def check_delay(delay: float) -> float:
    """Return the delay, if it can be.

    Raises:
        InvalidSchedule: it is too long.

    """
    if delay > DELAY_S_MAX:
        raise InvalidSchedule(
            f"{delay:.0f} seconds are too long: a message can wait 49 days, and what is to happen "
            "later belongs into a database"
        )

    return delay


def ticks_of(delay_ms: int) -> int:
    """Round up to whole ticks. They are odd, so that all end on the lowest rung."""
    return -(-delay_ms // TICK_MS) | 1


def ladder_key(ticks: int) -> str:
    """Return the routing key for a number of ticks: the highest bit first."""
    return ".".join([PREFIX, *f"{ticks:0{RUNGS}b}"])


def rung_pattern(rung: int, bit: int) -> str:
    """Return the pattern of keys that have this bit on that rung."""
    return ".".join([PREFIX, *["*"] * (RUNGS - 1 - rung), str(bit), "#"])


async def _declare_exchange(channel: Channel) -> None:
    await channel.exchange_declare(
        EXCHANGE,
        exchange_type="x-delayed-message",
        durable=True,
        arguments={"x-delayed-type": "direct", "x-delay-mandatory": True},
    )


async def _declare_ladder(channel: Channel) -> None:
    # That is a hundred questions to the broker: what is made last says that it was done.
    probe = await channel.connection.channel()
    try:
        await probe.exchange_declare(LADDER, passive=True)
        return
    except ChannelNotFoundEntity:
        pass
    finally:
        probe.leave()

    # From below, so that nothing ever leads nowhere.
    for rung in range(RUNGS):
        name = RUNG.format(rung)
        await channel.exchange_declare(name, exchange_type="topic", durable=True)
        await channel.queue_declare(
            name,
            durable=True,
            arguments={
                "x-message-ttl": TICK_MS << rung,
                "x-dead-letter-exchange": RUNG.format(rung - 1) if rung else "",
            },
        )
        await channel.queue_bind(name, name, routing_key=rung_pattern(rung, 1))
        if rung:
            await channel.exchange_bind(
                RUNG.format(rung - 1), name, routing_key=rung_pattern(rung, 0)
            )

    await channel.exchange_declare(LADDER, exchange_type="fanout", durable=True)


async def _check_queue(link: Link, queue: str) -> None:
    async with _telling_of_missing(queue), link.admin() as channel:
        await channel.queue_declare(queue, passive=True)


async def _bind(link: Link, queue: str) -> None:
    async with _telling_of_missing(queue), link.admin() as channel:
        await channel.queue_bind(queue, EXCHANGE, routing_key=queue)


@asynccontextmanager
async def _telling_of_missing(queue: str) -> AsyncIterator[None]:
    """Later nobody could tell the sender that there is no such queue."""
    try:
        yield
    except LIBRARY_ERRORS as problem:
        if isinstance(translated_error(problem), QueueNotFound):
            raise Unroutable(f"there is no queue {queue!r}") from problem

        raise


async def _publish(link: Link, exchange: str, key: str, message: Outgoing) -> None:
    await link.publish(exchange, key, message)
