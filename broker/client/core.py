"""Toolkit: what the parts of one client share: its session, codecs, events, and how it sends."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from broker.client.codecs import Codecs
from broker.client.dead_exchange import declare_dead_exchange
from broker.client.delays import Delays, check_delay
from broker.client.events import Events, logger
from broker.client.patience import end_all
from broker.client.retry import Retry
from broker.client.session import Session
from broker.client.spec import DEAD_EXCHANGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from broker.client.codecs import Codec
    from broker.client.link import Link
    from broker.client.options import Options
    from broker.client.spec import QueueSpec
    from broker.client.wire import Outgoing

__all__ = ["Attempts", "Core", "HandledIds"]

HANDLED_MAX: Final = 100_000
"""Ids that are remembered for ``dedupe_window`` at most, the newest: some ten megabytes."""
ATTEMPTS_MAX: Final = 10_000


class HandledIds:
    """Ids of messages that were handled, each for a while."""

    def __init__(self, size_max: int = HANDLED_MAX) -> None:
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._size_max = size_max

    def add(self, queue: str, message_id: str, until: float) -> None:
        """Remember one until that time of the loop's clock."""
        self._until[(queue, message_id)] = until
        self._until.move_to_end((queue, message_id))
        while len(self._until) > self._size_max:
            self._until.popitem(last=False)

    def has(self, queue: str, message_id: str, now: float) -> bool:
        """Say whether it was handled, and that is not too long ago."""
        until = self._until.get((queue, message_id))
        if until is None:
            return False

        if until <= now:
            del self._until[(queue, message_id)]
            return False

        return True

    def forget(self, queue: str) -> None:
        """Forget those of a queue: what is put there on purpose again is no duplicate."""
        for key in [key for key in self._until if key[0] == queue]:
            del self._until[key]


class Attempts:
    """Which attempt the next one is of messages that could not be sent again, and were handed back.

    A message tells its attempt itself, but only a copy of it can tell another one.
    """

    def __init__(self, size_max: int = ATTEMPTS_MAX) -> None:
        self._attempts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._size_max = size_max

    def note(self, queue: str, message_id: str, attempt: int) -> None:
        """The next one is that; of the oldest messages it is forgotten."""
        self._attempts[(queue, message_id)] = attempt
        self._attempts.move_to_end((queue, message_id))
        while len(self._attempts) > self._size_max:
            self._attempts.popitem(last=False)

    def of(self, queue: str, message_id: str) -> int:
        """Return which attempt it is; 0 if it tells that itself."""
        return self._attempts.get((queue, message_id), 0)

    def forget(self, queue: str, message_id: str) -> None:
        """It has come to an end, or a copy of it tells."""
        self._attempts.pop((queue, message_id), None)


class Core:
    """One client, as its parts see it."""

    def __init__(self, url: str, name: str | None, codec: str | Codec, options: Options) -> None:
        self.options = options
        self.codecs = Codecs(codec, options.accept)
        self.events = Events()
        self.session = Session(url, name, options, self.events)
        self.delays = Delays(options)
        self.specs: dict[str, QueueSpec] = {}
        """Of the queues that were declared by this client."""

        self.known_specs: dict[str, QueueSpec] = {}
        """Of queues that others declare, and that one was told about."""

        self.handled = HandledIds()
        self.attempts = Attempts()
        self.closers: list[Callable[[], Awaitable[None]]] = []
        """What has to be done before the connection is closed."""

        self.left = asyncio.Event()
        """It has disconnected for good."""

        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Begin something nobody waits for; what it raises is logged."""
        task: asyncio.Task[None] = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end_tasks(self) -> None:
        """End what was begun so."""
        await end_all(set(self._tasks))

    def spec_of(self, queue: str) -> QueueSpec | None:
        """Return what a queue is like, if this client knows."""
        return self.specs.get(queue) or self.known_specs.get(queue)

    async def ensure_dead_exchange(self) -> None:
        """Make sure that there is an exchange for dead letters."""
        await self.session.run(lambda link: link.ensure(DEAD_EXCHANGE, declare_dead_exchange))

    def retry_of(self, queue: str) -> Retry:
        """Return the retry policy of a queue."""
        spec = self.spec_of(queue)
        return Retry() if spec is None else spec.retry

    async def send(
        self, exchange: str, routing_key: str, message: Outgoing, *, delay: float = 0.0
    ) -> bool:
        """Send until the broker has confirmed it; returns whether that took more than one time.

        Raises:
            Unroutable, QueueFull: there is nowhere for it.
            Unavailable: nobody has confirmed it in ``send_timeout``.

        """
        check_delay(delay)
        resent = is_suspect = False

        def on_resend(is_fault: bool) -> None:
            nonlocal resent, is_suspect
            resent = True
            is_suspect |= is_fault

        async def publish(link: Link) -> None:
            if delay > 0:
                await self.delays.publish(link, routing_key, message, delay, is_known=False)
            else:
                await link.publish(exchange, routing_key, message, is_suspect=is_suspect)

        deadline = asyncio.get_running_loop().time() + self.options.send_timeout
        await self.session.run(publish, deadline=deadline, on_resend=on_resend)
        return resent


async def _logged(work: Coroutine[object, object, None]) -> None:
    try:
        await work
    except Exception:
        logger.exception("something that went on in the background has failed")
