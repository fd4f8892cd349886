"""Toolkit: where deliveries come from: one channel of one link, and what is known of the queue.

Invariant: nothing is settled on a channel that is gone, and each tag at most once: the delivery
sees to that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.client.dead_exchange import declare_dead_exchange, declare_dead_queue
from broker.client.errors import ToolkitError
from broker.client.events import ClientEvent
from broker.client.link import LIBRARY_ERRORS, LinkLost
from broker.client.spec import DEAD_EXCHANGE, QueueSpec, dead_queue_name

if TYPE_CHECKING:
    from broker.client.core import Core
    from broker.client.link import Link, Operation
    from broker.client.retry import Retry
    from broker.client.underlay import Channel
    from broker.client.wire import Outgoing

__all__ = ["Source"]

T = TypeVar("T")


class Source(Generic[T]):
    """What the deliveries of one consumer have in common.

    Args:
        core: the client.
        link: the connection.
        channel: the channel they come over.
        queue: the queue they come from.
        into: what type bodies are to have.

    """

    def __init__(
        self, core: Core, link: Link, channel: Channel, queue: str, into: type[T] | None
    ) -> None:
        self.core = core
        self.queue = queue
        self.into = into
        self.retry: Retry = core.retry_of(queue)
        self.is_settled_on_arrival = False
        self.unrecorded_in_a_row = 0
        """How many failures could not be recorded since one could be."""

        self.counts_failures_alone = link.counts_failures_alone
        self._link = link
        self._channel = channel
        self._open_count = 0
        self._is_ending = False

    @property
    def spec(self) -> QueueSpec | None:
        """What the queue was declared as, if it was by this client."""
        return self.core.spec_of(self.queue)

    @property
    def ack_timeout(self) -> float | None:
        """How long handling may take."""
        spec = self.spec
        return None if spec is None or self.is_settled_on_arrival else spec.ack_timeout

    @property
    def is_alive(self) -> bool:
        """Whether the broker still waits for an answer on this channel."""
        return self._link.is_alive and not self._channel.is_closed

    @property
    def is_link_alive(self) -> bool:
        """Whether the connection is there, whatever became of the channel."""
        return self._link.is_alive

    def is_consuming_on(self, link: Link) -> bool:
        """Whether this is of that connection, and in order."""
        return self._link is link and self.is_alive

    @property
    def refuses_when_full(self) -> bool:
        """Whether the queue may refuse what is to be tried again."""
        return self.spec is not None and self.spec.refuses_when_full

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether dead letters are kept; of a queue that others declared, that is for them."""
        spec = self.spec
        return spec is None or spec.has_dead_letters

    def is_duplicate(self, message_id: str) -> bool:
        """Whether a message with that id was handled a short while ago."""
        spec = self.spec
        if spec is None or spec.dedupe_window is None or not message_id:
            return False

        now = asyncio.get_running_loop().time()
        if not self.core.handled.has(self.queue, message_id, now):
            return False

        self.core.events.emit(ClientEvent("duplicate", queue=self.queue, id=message_id))
        return True

    def note_handled(self, message_id: str) -> None:
        """A message with that id was handled."""
        spec = self.spec
        if spec is not None and spec.dedupe_window is not None and message_id:
            until = asyncio.get_running_loop().time() + spec.dedupe_window
            self.core.handled.add(self.queue, message_id, until)

    def note_arrived(self) -> None:
        """There is one more delivery to be settled."""
        self._open_count += 1

    def note_answered(self) -> None:
        """There is one less."""
        self._open_count -= 1
        self._end_if_idle()

    def end(self) -> None:
        """Close the channel as soon as nothing is open on it."""
        self._is_ending = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_ending and self._open_count <= 0:
            self.core.spawn(self.close_channel())

    # -- answers; False: the channel is gone, and the broker has taken the message back

    async def ack(self, tag: int) -> bool:
        """Acknowledge."""
        if not self.is_alive:
            return False

        try:
            async with self._operation():
                await self._channel.basic_ack(tag, wait=False)
        except LinkLost:
            return False

        return True

    async def nack(self, tag: int) -> bool:
        """Give it back. Of basic.nack RabbitMQ's quorum queues do not count an attempt."""
        if not self.is_alive:
            return False

        try:
            async with self._operation():
                await self._channel.basic_nack(tag, requeue=True, wait=False)
        except LinkLost:
            return False

        return True

    async def reject(self, tag: int) -> bool:
        """Refuse it, so that the broker makes it a dead letter."""
        if not self.is_alive:
            return False

        try:
            async with self._operation():
                await self._channel.basic_nack(tag, requeue=False, wait=False)
        except LinkLost:
            return False

        return True

    # -- sending on; on this link only, for on another one the broker has it all over again

    async def publish(self, exchange: str, routing_key: str, message: Outgoing) -> None:
        """Publish, and wait for the confirm; raises LinkLost."""
        async with self._operation():
            await self._link.publish(exchange, routing_key, message)

    async def publish_later(self, queue: str, message: Outgoing, delay: float) -> None:
        """Publish something that arrives later; raises LinkLost."""
        async with self._operation():
            await self.core.delays.publish(self._link, queue, message, delay, is_known=True)

    async def publish_dead(self, exchange: str, routing_key: str, message: Outgoing) -> None:
        """Publish to the exchange of dead letters, which may have to be made; raises LinkLost."""
        async with self._operation():
            await self._link.ensure(DEAD_EXCHANGE, declare_dead_exchange)
            await self._link.publish(exchange, routing_key, message)

    async def is_buried_by_others(self) -> bool:
        """Say whether the broker has somewhere else for the dead letters of the queue; raises
        LinkLost."""
        spec = self.spec
        async with self._operation():
            if spec is not None:
                return await self._link.has_queue(dead_queue_name(self.queue))

            exchange = await self._link.dead_letter_exchange_of(self.queue)

        return exchange is not None and exchange != DEAD_EXCHANGE

    async def make_dead_queue(self) -> None:
        """Make the queue for dead letters; raises LinkLost."""
        async with self._operation():
            await declare_dead_queue(self._link, self.queue, self.spec or QueueSpec())

    async def wait(self, seconds: float) -> None:
        """Wait, but not longer than the link lives; raises LinkLost."""
        if seconds <= 0:
            return

        lost = self._link.lost
        await asyncio.wait([lost], timeout=seconds)
        if lost.done() or not self.is_alive:
            raise LinkLost

    def _operation(self, seconds: float | None = None) -> Operation:
        seconds = self.core.options.send_timeout if seconds is None else seconds
        return self._link.operation(asyncio.get_running_loop().time() + seconds)

    async def cancel(self, tag: str) -> None:
        """End the consumer; the channel stays, for what is not settled yet."""
        if not self.is_alive:
            return

        try:
            async with self._operation(self.core.options.timeout):
                await self._channel.basic_cancel(tag)
        except (LinkLost, ToolkitError):
            return

    async def delete_queue(self) -> None:
        """Delete the queue; the consumer ends with it."""
        if not self.is_alive:
            return

        try:
            async with self._operation(self.core.options.timeout):
                await self._channel.queue_delete(self.queue)
        except (LinkLost, ToolkitError):
            return

    async def close_channel(self) -> None:
        """Close the channel: what was not answered on it goes back to the queue."""
        if not self.is_alive:
            return

        try:
            async with self._operation(self.core.options.timeout):
                await self._channel.close()
        except (LinkLost, *LIBRARY_ERRORS):
            return
