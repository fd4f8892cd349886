"""Whether clients may come in, and stay. Layer: net.

Invariant: what the gate was told last holds, and one thing is done after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.listeners import Listeners
    from broker.net.reception import Reception

__all__ = ["CLOSE_WAIT_S", "RUNNING", "STOPPED", "SUSPENDED", "Gate"]

RUNNING: Final = "running"
SUSPENDED: Final = "suspended"
"""Nobody comes in; who is in stays."""

STOPPED: Final = "stopped"
"""Nobody is in."""

CLOSE_WAIT_S: Final = 5.0
"""How long clients have to answer the close. Container runtimes kill after ten."""

ABORT_WAIT_S: Final = 1.0
"""How long aborted sockets take to be reported lost; the loop does it within a turn or two."""


class Gate:
    """The way in for clients, which can be shut and opened while the broker runs.

    Args:
        listeners: where clients come from.
        reception: knows who is in.
        shutdown: tells every connection that it is over (rule C-78).
        log: told of every change.

    """

    def __init__(
        self,
        listeners: Listeners,
        reception: Reception,
        shutdown: Callable[[], None],
        log: Callable[[str, str, dict[str, object]], None],
    ) -> None:
        self._listeners = listeners
        self._reception = reception
        self._shutdown = shutdown
        self._log = log
        self._turn = asyncio.Lock()
        self.state = RUNNING

    @property
    def is_accepting(self) -> bool:
        """Whether clients can connect."""
        return self.state == RUNNING

    async def suspend(self) -> None:
        """Let nobody in any more."""
        async with self._turn:
            if self.state == RUNNING:
                self._listeners.close()
                self._become(SUSPENDED)

    async def resume(self) -> None:
        """Undo :meth:`suspend`; what was stopped stays so.

        Raises:
            StartError: somebody else has taken the address.

        """
        async with self._turn:
            if self.state == SUSPENDED:
                await self._listeners.reopen()
                self._become(RUNNING)

    async def stop(self) -> None:
        """Let nobody in, and close every connection with 320."""
        async with self._turn:
            if self.state != STOPPED:
                self.shut()
                self._become(STOPPED)
                await self.empty(CLOSE_WAIT_S)

    async def start(self) -> None:
        """Let clients in again, whatever kept them out.

        Raises:
            StartError: somebody else has taken the address.

        """
        async with self._turn:
            if self.state != RUNNING:
                await self._listeners.reopen()
                self._reception.open()
                self._become(RUNNING)

    def shut(self) -> None:
        """Let nobody in."""
        self._reception.shut()
        self._listeners.close()

    async def empty(self, wait_s: float) -> None:
        """Close every connection, wait for the clients' answers, and abort what is left."""
        self._reception.pump.run(self._shutdown)
        for seconds in (wait_s, ABORT_WAIT_S):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._reception.wait_empty()

            self._reception.abort_all()

    def _become(self, state: str) -> None:
        self.state = state
        connections = len(self._reception.transports)
        self._log("info", f"clients.{state}", {"connections": connections})
