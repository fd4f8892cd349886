"""Toolkit, tasks: what one event loop has of the broker.

A client for what happens seldom, a port for what happens once per task. Both connect again by
themselves; what has to be set up anew after that is a callback here.

Invariant: callbacks run before the port says that it is open, so whatever waited for that finds
everything in place.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from broker.client import wire
from broker.client.client import Client, connect
from broker.client.errors import QueueFull, Unroutable
from broker.client.options import Options
from broker.client.patience import carried
from broker.client.spec import DEAD_EXCHANGE
from broker.tasks.port import CONNECTION_ERRORS, Port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from broker.client.spec import QueueSpec
    from broker.tasks.intake import Received

__all__ = ["Link"]


class Link:
    """A client and a port to the broker at ``url``."""

    def __init__(self, url: str, *, name: str, timeout: float = 10.0) -> None:
        self.url = url
        self.workers = 0
        """How many workers use it."""
        self.is_kept = False
        """Whether others than workers and their tasks use it: then these do not close it."""
        self._name = name
        self._timeout = timeout
        self._client: Client | None = None
        self._lock = asyncio.Lock()
        self._declaring = asyncio.Lock()
        self._setups: dict[str, Callable[[], Awaitable[None]]] = {}
        self._declared: dict[str, QueueSpec] = {}
        self.port = Port(url, name=name, timeout=timeout, on_open=self._set_up)

    async def start(self) -> None:
        """Connect."""
        await self.port.start()

    async def client(self) -> Client:
        """Return the client, connected when it is first needed."""
        if self._client is None:
            async with self._lock:
                if self._client is None:
                    options = Options(timeout=self._timeout)
                    self._client = await connect(self.url, name=self._name, options=options)

        return self._client

    def has_declared(self, queue: str) -> bool:
        """Say whether a queue was declared over this."""
        return queue in self._declared

    async def declare(self, queue: str, spec: QueueSpec) -> None:
        """Declare a queue, unless this was done."""
        if queue in self._declared:
            return

        client = await self.client()
        async with self._declaring:
            if queue not in self._declared:
                await client.declare(queue, spec)
                self._declared[queue] = spec

    def forget_declared(self, queue: str) -> None:
        """Declare it anew when it is needed next: it is gone, as it was to."""
        self._declared.pop(queue, None)

    async def resend(self, message: Received, delay: float, changes: Mapping[str, object]) -> bool:
        """Send a copy of a message to its queue, to arrive in so many seconds.

        What waits at the broker would be lost if the queue was full when its time has come. So if
        the queue refuses what is too much, it waits here, not acknowledged. Answers False if the
        queue is full then: waiting for room could keep all from making it.
        """
        client = await self.client()
        copy = wire.copy_of(message.raw, changes)
        spec = self._declared.get(message.queue)
        if spec is None or not spec.refuses_when_full:
            await client.core.send("", message.queue, copy, delay=delay)
            return True

        await asyncio.sleep(delay)
        if message.channel is not self.port.work_channel:
            return True  # the broker has it still, and hands it out again

        try:
            await client.core.send("", message.queue, copy)
        except QueueFull:
            return False

        return True

    async def bury(self, message: Received, changes: Mapping[str, object]) -> bool:
        """Put a copy of a message among the dead letters; say whether anybody keeps those."""
        client = await self.client()
        copy = wire.copy_of(message.raw, changes)
        try:
            await client.core.send(DEAD_EXCHANGE, message.queue, copy)
        except Unroutable:
            return False

        return True

    async def on_open(self, name: str, set_up: Callable[[], Awaitable[None]]) -> None:
        """Run ``set_up`` now, and whenever the port has connected again."""
        self._setups[name] = set_up
        port, channel = self.port, self.port.work_channel
        if port.is_open:
            try:
                await set_up()
            except CONNECTION_ERRORS:
                if channel is port.work_channel and channel is not None and not channel.is_closed:
                    raise

                # Lost meanwhile: it is run on the next connection.
                await port.wait_open_in_time()

    def forget(self, name: str) -> None:
        """Do not run it any more."""
        self._setups.pop(name, None)

    async def close(self) -> None:
        """Close both connections; what still runs over them is not waited for."""
        client, self._client = self._client, None
        # Who is interrupted leaves neither of them open.
        await carried(asyncio.gather(self.port.close(), _close(client)))

    async def _set_up(self, _port: Port) -> None:
        for set_up in list(self._setups.values()):
            await set_up()


async def _close(client: Client | None) -> None:
    if client is not None:
        with contextlib.suppress(*CONNECTION_ERRORS):
            await client.close(0)
