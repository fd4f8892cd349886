"""Accepts at one listener whoever may come in at once. Layer: net.

asyncio's own servers accept a thousand in one turn of the loop and make a task, a transport and a
protocol of each before anybody can say no. Here a few have their turn between everybody else's, and
who comes too fast is closed unheard, which costs a hundredth of that.

Invariant: the listening socket is watched or closed, or rests since the system has no descriptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

__all__ = ["ACCEPTED_PER_TURN_MAX", "REFUSED_PER_TURN_MAX", "Doorway"]

ACCEPTED_PER_TURN_MAX: Final = 4
"""Sockets that are let in between two turns of everybody else: half a millisecond of work."""

REFUSED_PER_TURN_MAX: Final = 32
"""Sockets that are closed unheard between two turns: as much."""

REFUSAL_REST_S: Final = 0.004
"""How long nobody is accepted after so many refusals in one turn; after fewer, as much less, and a
millisecond at least. Whoever comes as fast as they can gets a tenth of the loop, and who comes
slowly waits in the system's line meanwhile."""

SHORTEST_REST_S: Final = 0.001

ACCEPT_REST_S: Final = 0.1
"""How long nobody is accepted when the system has no file descriptor left."""


class Doorway:
    """Lets in who comes to one socket.

    Args:
        loop: of the broker.
        listening: closed with this.
        factory: makes what a connection goes on with.
        may_enter: whether who has that address, and comes to that one, may come in now.

    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        may_enter: Callable[[str, str], bool],
    ) -> None:
        self._loop = loop
        self._listening = listening
        self._factory = factory
        self._may_enter = may_enter
        self._name = ":".join(map(str, listening.getsockname()[:2]))
        self._rest: asyncio.TimerHandle | None = None
        self._entering: set[asyncio.Task[object]] = set()
        self._watch()

    def _watch(self) -> None:
        self._rest = None
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Accept nobody any more."""
        if self._rest is not None:
            self._rest.cancel()
        else:
            self._loop.remove_reader(self._listening)

        self._listening.close()

    def _accept(self) -> None:
        refused_count = self._take_turn()
        if refused_count and self._rest is None:
            rest_s = REFUSAL_REST_S * refused_count / REFUSED_PER_TURN_MAX
            self._take_rest(max(rest_s, SHORTEST_REST_S))

    def _take_turn(self) -> int:
        """Accept a few; returns how many were closed unheard."""
        accepted_count = refused_count = 0
        while accepted_count < ACCEPTED_PER_TURN_MAX and refused_count < REFUSED_PER_TURN_MAX:
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                # No descriptor is left: to try again at once would be all that is done.
                self._take_rest(ACCEPT_REST_S)
                break

            if self._may_enter(str(address[0]), self._name):
                accepted_count += 1
                self._let_in(accepted)
            else:
                refused_count += 1
                accepted.close()

        return refused_count

    def _take_rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._listening)
        self._rest = self._loop.call_later(seconds, self._watch)

    def _let_in(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        task: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(self._factory, accepted), name="doorway"
        )
        self._entering.add(task)
        task.add_done_callback(self._entered)

    def _entered(self, task: asyncio.Task[object]) -> None:
        self._entering.discard(task)
        if not task.cancelled():
            # It may have gone again meanwhile.
            task.exception()
