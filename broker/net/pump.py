"""Drives one broker core from one event loop: time in, output out. Layer: net.

Invariant: every call into the core lies between :meth:`Pump.advance` and :meth:`Pump.settle`, so
the core knows the time before it acts and whatever it has to say is written before the loop goes
on. There is one timer for the whole broker.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.clock import Clock

__all__ = ["Engine", "Pump"]

FAULT_DELAY_S: Final = 1.0
"""How long deadlines rest after one of them raised: a bug must neither stop time nor spin."""


class Engine(Protocol):
    """The part of the broker core that the rim drives."""

    def advance(self, now_s: float) -> None: ...

    def next_deadline(self) -> float | None: ...

    def run_deadlines(self) -> None: ...

    def flush(self) -> None: ...

    def wants_turn(self) -> bool: ...

    def resume(self) -> None: ...


class _Still:
    """An engine that does nothing any more."""

    def advance(self, now_s: float) -> None:
        pass

    def next_deadline(self) -> float | None:
        return None

    def run_deadlines(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def wants_turn(self) -> bool:
        return False

    def resume(self) -> None:
        pass


class Pump:
    """Ties an engine to a loop.

    A deadline that moves back in time re-arms the timer; one that moves on does not: the timer then
    fires early once and is set anew, which costs less than replacing it after every read.
    """

    __slots__ = (
        "_armed_for",
        "_clock",
        "_engine",
        "_is_turn_scheduled",
        "_loop",
        "_monotonic",
        "_timer",
    )

    def __init__(self, engine: Engine, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._clock = clock
        self._monotonic = clock.monotonic
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf
        self._is_turn_scheduled = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that everything of this broker runs in."""
        return self._loop

    def advance(self) -> None:
        """Tell the core the time. Call it before anything that makes the core act."""
        self._engine.advance(self._monotonic())

    def settle(self) -> None:
        """Write what the core has to say and see to its next wish. Call it after the core acted."""
        engine = self._engine
        engine.flush()
        deadline = engine.next_deadline()
        if deadline is not None and deadline < self._armed_for:
            self._arm(deadline)

        if not self._is_turn_scheduled and engine.wants_turn():
            self._is_turn_scheduled = True
            self._loop.call_soon(self._on_turn)

    def run(self, command: Callable[[], None]) -> None:
        """Do one thing to the core from outside a connection."""
        self.advance()
        command()
        self.settle()

    def clock_moved(self) -> None:
        """The clock was set, stopped or let go: whatever was armed was armed by another one."""
        self.stop()
        self.advance()
        self.settle()

    def let_go(self) -> None:
        """Drive the engine no longer, whatever its connections do."""
        self.stop()
        self._engine = _Still()

    def stop(self) -> None:
        """Forget the timer; the engine is not driven any longer but by its connections."""
        if self._timer is not None:
            self._timer.cancel()

        self._timer = None
        self._armed_for = inf

    def _arm(self, deadline_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()

        # The engine's clock and the loop's need not be the same one: hand over a delay.
        self._timer = None
        self._armed_for = inf
        delay_s = self._clock.seconds_until(deadline_s)
        if delay_s is not None:
            self._timer = self._loop.call_later(delay_s, self._on_timer)
            self._armed_for = deadline_s

    def _on_timer(self) -> None:
        self._timer = None
        self._armed_for = inf
        now_s = self._monotonic()
        engine = self._engine
        engine.advance(now_s)
        deadline = engine.next_deadline()
        if deadline is not None and deadline <= now_s:
            try:
                engine.run_deadlines()
            except Exception:
                self._arm(now_s + FAULT_DELAY_S)
                raise

        self.settle()

    def _on_turn(self) -> None:
        self._is_turn_scheduled = False
        self.advance()
        self._engine.resume()
        self.settle()
