"""Toolkit, tasks: the connection that tasks and their results pass through.

What happens once per task happens here, close above aiormq: acknowledgements and results of one
turn of the event loop are one write. Everything else, from declaring queues to dead letters, is
the client's (:mod:`broker.client`).

Invariant: what is posted before an acknowledgement is on the wire before it, on the same channel:
so a broker that has seen the acknowledgement has seen the result. A settlement of a delivery that
came over a connection that is gone does nothing and answers False, and so does a second one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Final

from aiormq.abc import ChannelFrame

from broker.client.errors import (
    AccessRefused,
    Closed,
    MessageTooLarge,
    ToolkitError,
    Unavailable,
)
from broker.client.link import LIBRARY_ERRORS, check_url, safe_url, size_limit_in, translated_error
from broker.client.patience import (
    ANSWER_S,
    CLOSE_S,
    YIELD_S,
    at_most,
    carried,
    end_all,
    leave_alone,
)
from broker.client.underlay import Connection
from broker.tasks.frames import ack_frame, nack_frame, publish_frames
from broker.tasks.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.client.underlay import Channel
    from broker.tasks.intake import Received

__all__ = ["CONNECTION_ERRORS", "Port"]

LOG: Final = logging.getLogger("leveret.tasks")

CONNECTION_ERRORS: Final = (*LIBRARY_ERRORS, RuntimeError)
"""What aiormq raises when there is no connection, or not any more."""

BACKOFF_S: Final = 0.1
BACKOFF_MAX_S: Final = 10.0
FULL_S: Final = 0.005
"""When aiormq's own buffer is full, how long until the next try."""

UNCONFIRMED_MAX: Final = 1000
"""Sends that may wait for the broker's confirm at once; more of them wait for their turn."""


class Port:
    """A connection with two channels: one confirms what is sent, one consumes and settles.

    Args:
        url: of the broker.
        name: what the broker's lists of connections call this one.
        timeout: how many seconds to wait for a connection, and for the confirm of what is sent.
        on_open: called after each connecting, to consume what is to be consumed.

    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        timeout: float = 10.0,
        on_open: Callable[[Port], Awaitable[None]] | None = None,
    ) -> None:
        self._url = check_url(url)
        self._timeout_s = timeout
        self._name = name
        self._on_open = on_open
        self._connection: Connection | None = None
        self._work: Channel | None = None
        self._confirms: Channel | None = None
        self._frame_max = 0
        self._size_max: int | None = None
        """How large a message may be, which a broker tells when it closes the channel for one."""

        self._buffer: list[bytes] = []
        self._is_flush_due = False
        self._prefetch = 0
        self._qos_lock = asyncio.Lock()
        """A prefetch is for the consumer that comes next: no other one may come in between."""
        self._barrier: asyncio.Future[None] | None = None
        self._work_intake: Intake | None = None
        self._confirm_intake: Intake | None = None
        self._is_open = asyncio.Event()
        self._is_closed = False
        self._keeper: asyncio.Task[None] | None = None
        self._sending = asyncio.Semaphore(UNCONFIRMED_MAX)
        self._restores: dict[str, Callable[[], Awaitable[None]]] = {}
        self._restoring: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._is_open.is_set()

    @property
    def work_channel(self) -> Channel | None:
        """The channel that consumes; deliveries of any other one are stale."""
        return self._work

    @property
    def is_ending(self) -> bool:
        """Whether it is closed, or will be: its event loop ends with all that runs in it."""
        return self._is_closed or self._keeper is None or self._keeper.cancelling() > 0

    async def start(self) -> None:
        """Connect, and stay connected until closed.

        Raises:
            Unavailable: no broker could be reached in time; it is not tried any more.
            AccessRefused: the broker did not let us in.

        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connect_first()
        except TimeoutError:
            raise Unavailable(
                f"no broker at {safe_url(self._url)} within {self._timeout_s} s"
            ) from None

        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _connect_first(self) -> None:
        wait_s = BACKOFF_S
        while True:
            try:
                return await self._connect()
            except CONNECTION_ERRORS as problem:
                refusal = translated_error(problem)
                if isinstance(refusal, AccessRefused):
                    text = f"refused by {safe_url(self._url)}: {refusal}"
                    raise AccessRefused(text) from problem

                LOG.debug("no connection to %s yet: %r", safe_url(self._url), problem)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    async def wait_open(self) -> None:
        """Wait until there is a connection."""
        while not self._is_open.is_set():
            if self._is_closed:
                raise Closed("closed")

            await self._is_open.wait()

    async def wait_open_in_time(self) -> None:
        """Wait until there is a connection; raises Unavailable if that takes too long."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.wait_open()
        except TimeoutError:
            raise Unavailable(
                f"no connection to {safe_url(self._url)} for {self._timeout_s} s"
            ) from None

    async def close(self) -> None:
        """Write what is buffered, and close the connection; two seconds at most."""
        self._is_closed = True
        self._flush()
        await end_all(set(self._restoring), YIELD_S)
        if self._keeper is not None:
            await end_all({self._keeper}, CLOSE_S + YIELD_S)

        connection, self._connection = self._connection, None
        self._is_open.clear()
        if connection is not None:
            with contextlib.suppress(*CONNECTION_ERRORS):
                # A round trip: what was written before has been read by the broker.
                if self._work is not None and not self._work.is_closed:
                    await at_most(ANSWER_S, self._work.basic_qos(prefetch_count=1))

            await connection.hang_up()

        self._lose()

    async def channel(self) -> Channel:
        """Open one more channel, without confirms."""
        if self._connection is None:
            raise Unavailable("not connected")

        return await self._connection.channel()

    async def consume(
        self,
        queue: str,
        handler: Callable[[Received], None],
        *,
        prefetch: int = 0,
        restore: Callable[[], Awaitable[None]] | None = None,
    ) -> str:
        """Consume a queue on the work channel; return the consumer tag.

        With a prefetch of 0 the broker hands out all there is. The handler is called from the
        reader of the connection, so it starts work and returns. When the broker ends the consumer,
        because somebody has deleted the queue, ``restore`` is to declare and consume it anew; it is
        tried until it succeeds or the connection is lost.
        """
        work, intake = self._work, self._work_intake
        if work is None or intake is None:
            raise Unavailable("not connected")

        tag = await carried(
            self._consume(work, queue, prefetch),
            lambda tag: leave_alone(self._give_up(intake, tag)),
        )
        if restore is not None:
            self._restores[tag] = restore

        intake.handle(tag, queue, handler)
        return tag

    def _on_consumer_gone(self, consumer_tag: str) -> None:
        restore = self._restores.pop(consumer_tag, None)
        if restore is not None and not self._is_closed:
            task = asyncio.get_running_loop().create_task(self._restore(restore, self._work))
            self._restoring.add(task)
            task.add_done_callback(self._restoring.discard)

    async def _restore(
        self, restore: Callable[[], Awaitable[None]], channel: Channel | None
    ) -> None:
        wait_s = BACKOFF_S
        # On another connection everything is consumed anew.
        while channel is self._work and not self._is_closed:
            await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311
            wait_s = min(wait_s * 2, BACKOFF_MAX_S)
            try:
                await restore()
            except (*CONNECTION_ERRORS, ToolkitError) as problem:
                LOG.warning("a queue that is gone could not be consumed anew: %s", problem)
            else:
                return

    async def _consume(self, work: Channel, queue: str, prefetch: int) -> str:
        async with self._qos_lock:
            self._prefetch = prefetch
            await work.basic_qos(prefetch_count=prefetch)
            ok = await work.basic_consume(queue, _unused)

        assert ok.consumer_tag is not None
        return ok.consumer_tag

    async def _give_up(self, intake: Intake, tag: str) -> None:
        """End a consumer whose beginning nobody waits for any more."""
        await self.cancel(tag)
        for message in intake.unclaimed(tag):
            self.nack(message, requeue=True)

    async def cancel(self, consumer_tag: str) -> None:
        """Stop consuming."""
        self._restores.pop(consumer_tag, None)
        if self._work is not None:
            with contextlib.suppress(*CONNECTION_ERRORS):
                await self._work.basic_cancel(consumer_tag)

    def ack(self, message: Received) -> bool:
        """Acknowledge. Answer False, and do nothing, if it is settled, or its connection gone."""
        channel = message.channel
        if channel is not self._work or message.is_settled:
            return False

        message.is_settled = True
        self._write(ack_frame(channel.number, message.method.delivery_tag or 0))
        return True

    def nack(self, message: Received, *, requeue: bool) -> bool:
        """Hand back, or drop. Answer False if it is settled, or its connection gone."""
        channel = message.channel
        if channel is not self._work or message.is_settled:
            return False

        message.is_settled = True
        self._write(nack_frame(channel.number, message.tag, requeue=requeue))
        return True

    async def barrier(self) -> None:
        """Return when the broker has read all that was written before, settlements included."""
        barrier = self._barrier
        if barrier is None:
            barrier = self._barrier = asyncio.ensure_future(self._round_trip())

        # Whoever gives up waiting does not take it away from the others.
        await asyncio.shield(barrier)

    async def _round_trip(self) -> None:
        # One for all that ask in this turn of the loop; who asks later gets the next one.
        await asyncio.sleep(0)
        self._barrier = None
        self._flush()
        # aiormq has no event for that its own buffer has room again.
        while self._buffer:  # noqa: ASYNC110
            await asyncio.sleep(FULL_S)

        try:
            async with self._qos_lock:
                if self._work is None:
                    raise Unavailable("not connected")

                await self._work.basic_qos(prefetch_count=self._prefetch)
        except CONNECTION_ERRORS as problem:
            raise Unavailable("the connection was lost") from problem

    def post(self, routing_key: str, props: bytes, body: bytes) -> bool:
        """Send to a queue without a confirm, before whatever is settled after this.

        Raises:
            MessageTooLarge: it is known that the broker does not take it.

        """
        self._check_size(body)
        work = self._work
        if work is None:
            return False

        target = ("", routing_key, False)
        self._write(publish_frames(work.number, target, props, body, self._frame_max))
        return True

    async def send(self, queue: str, message_id: str, props: bytes, body: bytes) -> None:
        """Send to a queue, and wait until the broker has it; again if the connection is lost.

        Raises:
            Unroutable: there is no such queue.
            QueueFull: it has reached its limit.
            MessageTooLarge: the broker does not take messages of that size.
            Unavailable: there is no connection, nor is there one in time, or the broker does not
                confirm in time; it may have it all the same.

        """
        async with self._sending:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._send(queue, message_id, props, body)
            except TimeoutError:
                where = safe_url(self._url)
                what = "no confirm from" if self.is_open else "no connection to"
                raise Unavailable(f"{what} {where} for {self._timeout_s} s") from None

    async def _send(self, queue: str, message_id: str, props: bytes, body: bytes) -> None:
        while True:
            self._check_size(body)
            channel, intake = self._confirms, self._confirm_intake
            if channel is None or intake is None:
                await self.wait_open_in_time()
                continue

            target = ("", queue, True)
            frames = publish_frames(channel.number, target, props, body, self._frame_max)
            confirmed = intake.expect_confirm(message_id)
            self._write(frames)
            try:
                return await confirmed
            except Unavailable as problem:
                LOG.debug("sending %s again: %s", message_id, problem)

    def _check_size(self, body: bytes) -> None:
        # Sent all the same, it would be the end of the channel, again and again.
        if self._size_max is not None and len(body) > self._size_max:
            raise MessageTooLarge(
                f"{len(body)} bytes, and the broker takes no message of more than {self._size_max}"
            )

    def _write(self, data: bytes) -> None:
        self._buffer.append(data)
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        connection = self._connection
        if connection is None or not self._buffer:
            return

        data = b"".join(self._buffer)
        try:
            connection.write_queue.put_nowait(ChannelFrame(payload=data, should_close=False))
        except asyncio.QueueFull:
            self._is_flush_due = True
            asyncio.get_running_loop().call_later(FULL_S, self._flush)
            return

        self._buffer.clear()

    async def _keep(self) -> None:
        """Connect again whenever the connection is lost."""
        this = asyncio.current_task()
        assert this is not None
        # The library makes errors of its own of a cancel that comes while it connects or closes.
        while not self._is_closed and not this.cancelling():
            connection, channel = self._connection, self._work
            if connection is not None and channel is not None:
                await self._until_lost(connection)

            wait_s = BACKOFF_S
            LOG.warning("the connection to %s is lost", safe_url(self._url))
            while not self._is_closed and not this.cancelling():
                try:
                    await self._connect()
                    LOG.info("connected to %s again", safe_url(self._url))
                    break
                except Exception as problem:
                    # Whatever it was: who is to stay connected tries again.
                    LOG.debug("not connected: %r", problem)
                    if this.cancelling():
                        return

                    await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311
                    wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    def _lose(self) -> None:
        self._is_open.clear()
        self._buffer.clear()
        self._restores.clear()
        self._connection = self._work = self._confirms = None
        for intake in (self._confirm_intake, self._work_intake):
            if intake is not None:
                self._size_max = size_limit_in(intake.close_text) or self._size_max
                intake.lose()

        self._confirm_intake = self._work_intake = None

    async def _until_lost(self, connection: Connection) -> None:
        watched = [connection.closing]
        watched += [one.closing for one in (self._work, self._confirms) if one is not None]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        # At once: closing takes as long as the broker likes, and nobody is to use it meanwhile.
        self._lose()
        await connection.hang_up()

    async def _connect(self) -> None:
        connection = await Connection.open(self._url, self._name)
        try:
            self._frame_max = connection.connection_tune.frame_max
            self._confirms = await connection.channel(publisher_confirms=True)
            self._work = await connection.channel()
            self._work.on_consumer_gone = self._on_consumer_gone
            self._confirm_intake = Intake(self._confirms)
            self._work_intake = Intake(self._work)
            self._connection = connection
            self._buffer.clear()
            if self._on_open is not None:
                await self._on_open(self)
        except BaseException:
            self._lose()
            await connection.hang_up()
            raise

        self._is_open.set()


async def _unused(_message: object) -> None:
    """Be what aiormq would call, if it saw deliveries."""
