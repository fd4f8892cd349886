"""Toolkit: keeps a client connected, and brings back on each connection what was there before.

Invariant: nobody gets a link before everything was restored on it. What could not be restored is
told as an event, and does not keep the rest from it.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from urllib.parse import unquote

from aiormq.exceptions import ConnectionClosed
from yarl import URL

from broker.client.errors import AccessRefused, Closed, ToolkitError, Unavailable
from broker.client.events import ClientEvent
from broker.client.home import Home
from broker.client.link import Link, LinkLost, open_link
from broker.client.patience import CLOSE_S, YIELD_S, carried, end_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.client.events import Events
    from broker.client.options import Options

__all__ = ["Restorable", "Session"]

R = TypeVar("R")

CONNECTION_FORCED: Final = 320
FAULTS_MAX: Final = 3
"""How often a message may be under way when the broker closes the connection for a mistake."""

SETTLE_S: Final = 0.05
"""How long to wait where a channel is gone and the connection seems not to be."""


class Restorable(Protocol):
    """Something that has to be done again on every connection."""

    async def restore(self, link: Link) -> None:
        """Do it; what goes wrong is raised, or told by whoever does it."""
        ...


class Session:
    """One connection after the other."""

    def __init__(self, url: str, name: str | None, options: Options, events: Events) -> None:
        self._url = url
        self._name = name
        self._options = options
        self._events = events
        self._link: Link | None = None
        self._changed = asyncio.Event()
        self._restorables: list[Restorable] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._last_error: BaseException | None = None
        self._number = 0
        self.home = Home()

    @property
    def vhost(self) -> str:
        """The virtual host that the URL names."""
        path = URL(self._url).path
        return unquote(path[1:]) if len(path) > 1 else "/"

    @property
    def account(self) -> tuple[str, str]:
        """The user and the password."""
        url = URL(self._url)
        return url.user or "guest", url.password or "guest"

    @property
    def is_connected(self) -> bool:
        """Whether there is a link at this moment."""
        return self._link is not None and self._link.is_alive

    @property
    def is_closed(self) -> bool:
        """Whether it was closed for good."""
        return self._is_closed

    async def start(self) -> None:
        """Connect, and stay connected.

        Raises:
            Unavailable: nobody was there for ``timeout`` seconds.
            AccessRefused: user, password or virtual host are wrong.

        """
        self.home.settle()
        self._task = asyncio.create_task(self._run(), name="leveret client")
        try:
            await self.link()
        except BaseException:
            await carried(self.close())
            raise

    async def close(self) -> None:
        """Disconnect for good."""
        self._is_closed = True
        task, self._task = self._task, None
        if task is not None:
            await end_all({task}, CLOSE_S + YIELD_S)

        link, self._link = self._link, None
        self._changed.set()
        if link is not None:
            await link.close()

    def add(self, restorable: Restorable) -> None:
        """Do this again on every connection from the next one on; what was added first, first."""
        self._restorables.append(restorable)

    def discard(self, restorable: Restorable) -> None:
        """No more."""
        if restorable in self._restorables:
            self._restorables.remove(restorable)

    async def link(self, deadline: float | None = None) -> Link:
        """Return the link, or wait for one.

        Raises:
            Unavailable: none by the deadline, ``timeout`` seconds from now if None.
            Closed: the session is.
            RuntimeError: this is another event loop, or process, than it was connected in.

        """
        self.home.check()
        link = self._link
        if link is not None and link.is_alive:
            return link

        loop = asyncio.get_running_loop()
        limit = loop.time() + self._options.timeout if deadline is None else deadline
        try:
            async with asyncio.timeout_at(limit):
                return await self._next_link()
        except TimeoutError:
            reason = f": {self._last_error}" if self._last_error else ""
            raise Unavailable(f"no connection to the broker{reason}") from self._last_error

    async def _next_link(self) -> Link:
        while True:
            if self._is_closed:
                raise Closed("the client is closed")

            if self._link is not None and self._link.is_alive:
                return self._link

            if self._number == 0 and isinstance(self._last_error, AccessRefused):
                raise self._last_error

            self._changed.clear()
            await self._changed.wait()

    async def run(
        self,
        operation: Callable[[Link], Awaitable[R]],
        *,
        deadline: float | None = None,
        on_resend: Callable[[bool], None] | None = None,
    ) -> R:
        """Do something on a link, and on the next one if that is lost meanwhile.

        Of that ``on_resend`` is told, and whether the broker has closed the link for a mistake.

        Raises:
            Unavailable: it was not done by the deadline, ``timeout`` seconds from now if None.
            ToolkitError: the broker closes the connection for it.

        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + self._options.timeout if deadline is None else deadline
        faults = 0
        while True:
            link = await self.link(limit)
            fault: ConnectionClosed | None = None
            try:
                async with link.operation(limit):
                    return await operation(link)
            except LinkLost:
                if link.is_alive:
                    await asyncio.sleep(SETTLE_S)
                elif (fault := _fault_of(link)) is not None:
                    # Of several that are sent at once, one alone is at fault.
                    faults += 1
                    if on_resend is None or faults == FAULTS_MAX:
                        raise ToolkitError(
                            f"the broker has closed the connection: {fault}"
                        ) from fault

            if on_resend is not None:
                on_resend(fault is not None)

    async def run_steps(self, operation: Callable[[Link], Awaitable[R]]) -> R:
        """Do something that takes many steps, each of which may take ``timeout`` seconds, as
        ``link.operation`` is told for each of them; the whole takes as long as it does.

        Raises:
            Unavailable: there was no connection for ``timeout`` seconds.
            ToolkitError: the broker closes the connection for it.

        """
        while True:
            link = await self.link()
            try:
                async with link.operation(None):
                    return await operation(link)
            except LinkLost:
                if link.is_alive:
                    await asyncio.sleep(SETTLE_S)
                elif (fault := _fault_of(link)) is not None:
                    raise ToolkitError(f"the broker has closed the connection: {fault}") from fault

    # -- the connection

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self._options.timeout):
                    link = await open_link(self._url, self._name, self._number + 1)
            except Exception as problem:
                # Whatever it was: who is to stay connected tries again.
                failures += 1
                self._set_failed(problem)
                await asyncio.sleep(self._options.backoff.wait(failures, random.random()))  # noqa: S311
                continue

            failures = 0
            await self._use(link)
            # A broker that hangs up on everybody at once is not asked again at once.
            await asyncio.sleep(self._options.backoff.wait(1, random.random()))  # noqa: S311

    async def _use(self, link: Link) -> None:
        try:
            self._number = link.number
            for restorable in list(self._restorables):
                await self._restore(restorable, link)

            if link.is_alive:
                self._link = link
                self._last_error = None
                self._changed.set()
                kind = "connected" if link.number == 1 else "reconnected"
                self._events.emit(
                    ClientEvent("connected" if kind == "connected" else "reconnected")
                )

            error = await asyncio.shield(link.lost)
        except asyncio.CancelledError:
            self._link = None
            await link.close()
            raise

        self._link = None
        self._last_error = error
        self._events.emit(ClientEvent("disconnected", error=error))
        await link.close()

    async def _restore(self, restorable: Restorable, link: Link) -> None:
        deadline = asyncio.get_running_loop().time() + self._options.timeout
        try:
            async with link.operation(deadline):
                await restorable.restore(link)
        except LinkLost:
            return
        except Exception as problem:
            self._events.emit(ClientEvent("restore_failed", error=problem))

    def _set_failed(self, problem: BaseException) -> None:
        if isinstance(problem, TimeoutError):
            problem = Unavailable("the broker has not finished the handshake in time")

        self._last_error = problem
        self._events.emit(ClientEvent("connect_failed", error=problem))
        self._changed.set()


def _fault_of(link: Link) -> ConnectionClosed | None:
    """Return the mistake that the broker has closed a connection for, if it was for one.

    It is closed again for the same one.
    """
    error = link.lost.result() if link.lost.done() else None
    if isinstance(error, ConnectionClosed) and error.args and error.args[0] != CONNECTION_FORCED:
        return error

    return None
