"""How much of the broker's time requests take while messages move (management layer).

Handlers run in the loop that clients of AMQP are served by, so whoever asks without end takes from
all of them. What each request takes of the loop is measured, step by step; while messages move,
requests may take a share of it and no more, beyond what was saved up. Then they wait, and users
take turns. While nothing moves, nobody waits.

Invariant: who has waited for a turn, or asks when there is nothing to wait for, goes on; what waits
has a bound.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from broker.management.errors import HTTPProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

__all__ = [
    "BESIDE_S",
    "BURST_S",
    "SHARE",
    "WAITING_MAX",
    "WAITING_PER_USER_MAX",
    "Pacer",
    "Visitor",
    "cost_besides",
]

SHARE: Final = 0.125
"""Of the loop's time, for all requests together while messages move: two hundred small ones a
second. Fifty a second as dashboards, autoscalers and probes make them, beside ten thousand queues,
take less."""

BURST_S: Final = 0.25
"""Of the loop's time that is saved up in two seconds without requests: four hundred small ones, or
a list of ten thousand queues."""

DEBT_S: Final = 0.5
"""That is remembered of one request that took long: the next one waits four seconds at the most."""

BESIDE_S: Final = 0.000_4
"""What a request takes besides its handler: it is parsed, and its answer is written."""

CONNECTION_S: Final = 0.000_6
TLS_CONNECTION_S: Final = 0.002
"""What the first one of a connection takes besides: that is accepted, and closed."""

TURN_S: Final = 0.001
"""What somebody who has a turn is taken to need, until it is known."""

WAITING_PER_USER_MAX: Final = 256
"""Requests of one user that wait for a turn; who comes then is refused with 503."""

WAITING_MAX: Final = 1_024
"""Requests of all together that wait for one."""

BUSY_BYTES_PER_S: Final = 65_536
"""Messages move where clients of AMQP send and get more than that."""

LOOK_S: Final = 0.25
"""How often that is looked at."""

T = TypeVar("T")


class Visitor:
    """Somebody who makes a request.

    Attributes:
        name: whose turn it is; requests of one name stand in one line.
        is_free: whether it is charged and never waits.
        had_turn: whether it was waited for.
        paid_s: time that was charged in advance.

    """

    __slots__ = ("had_turn", "is_free", "name", "paid_s")

    def __init__(self, name: str, *, is_free: bool = False) -> None:
        self.name = name
        self.is_free = is_free
        self.had_turn = False
        self.paid_s = 0.0


def cost_besides(*, is_first: bool, is_secure: bool) -> float:
    """What a request takes of the loop that cannot be measured in its handler.

    Args:
        is_first: whether it is the first one of a connection.
        is_secure: whether that is one with TLS.

    """
    if not is_first:
        return BESIDE_S

    return BESIDE_S + (TLS_CONNECTION_S if is_secure else CONNECTION_S)


class Pacer:
    """Shares out the loop's time.

    Args:
        moved_bytes: how much clients of AMQP have sent and got, ever.
        now: a clock that never goes back, in seconds.

    """

    def __init__(
        self, moved_bytes: Callable[[], int], now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._moved_bytes = moved_bytes
        self._now = now
        self._at_s = now()
        self._left_s = BURST_S
        self._looked_at_s = self._at_s
        self._seen_bytes = moved_bytes()
        self._is_busy = False
        self._waiting_count = 0
        self._lines: dict[str, deque[tuple[Visitor, asyncio.Future[None]]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def measured(
        self, handling: Coroutine[object, None, T], visitor: Visitor, besides_s: float = BESIDE_S
    ) -> T:
        """Do what a request wants, and charge what it takes of the loop.

        Where the handler gives the loop a turn, it waits for its own if there is nothing left.
        """
        self._charge(visitor, besides_s)
        result: T = await self._driven(handling, visitor)
        return result

    @types.coroutine
    def _driven(
        self, handling: Coroutine[object, None, T], visitor: Visitor
    ) -> Generator[object, None, T]:
        fault: BaseException | None = None
        while True:
            began_s = self._now()
            try:
                waits_for = handling.send(None) if fault is None else handling.throw(fault)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._charge(visitor, self._now() - began_s)

            fault = None
            try:
                if waits_for is None and visitor.had_turn and self._has_nothing_left():
                    yield from self.turn(visitor).__await__()
                else:
                    yield waits_for
            except BaseException as problem:
                # What is awaited failed, or the request is cancelled: that is the handler's.
                fault = problem

    async def turn(self, visitor: Visitor) -> None:
        """Return when it is somebody's turn; at once where there is time left.

        Raises:
            HTTPProblem: too many wait already.

        """
        visitor.had_turn = True
        if visitor.is_free or not (self._has_nothing_left() or self._lines):
            return

        line = self._lines.get(visitor.name)
        count = 0 if line is None else len(line)
        if count >= WAITING_PER_USER_MAX or self._waiting_count >= WAITING_MAX:
            raise HTTPProblem(503, "service_unavailable", "too many requests wait for an answer")

        if line is None:
            line = self._lines[visitor.name] = deque()

        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append((visitor, turn))
        self._waiting_count += 1
        self._set_timer()
        await turn

    @property
    def waiting_count(self) -> int:
        """Requests that wait for a turn."""
        return self._waiting_count

    def stop(self) -> None:
        """Let everybody go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

        while self._lines:
            self._give_turn()

    def _charge(self, visitor: Visitor, took_s: float) -> None:
        self._save_up(self._now())
        paid_s = min(visitor.paid_s, took_s)
        visitor.paid_s -= paid_s
        self._left_s = max(self._left_s - (took_s - paid_s), -DEBT_S)

    def _has_nothing_left(self) -> bool:
        now_s = self._now()
        since_s = now_s - self._looked_at_s
        if since_s >= LOOK_S:
            moved = self._moved_bytes()
            self._is_busy = moved - self._seen_bytes >= BUSY_BYTES_PER_S * since_s
            self._seen_bytes, self._looked_at_s = moved, now_s

        if not self._is_busy:
            self._left_s = BURST_S

        self._save_up(now_s)
        return self._left_s <= 0

    def _save_up(self, now_s: float) -> None:
        self._left_s = min(BURST_S, self._left_s + (now_s - self._at_s) * SHARE)
        self._at_s = now_s

    def _set_timer(self) -> None:
        if self._timer is None:
            delay_s = min(max(-self._left_s, 0.0) / SHARE, LOOK_S) + TURN_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        while self._lines and not self._has_nothing_left():
            self._give_turn()

        if self._lines:
            self._set_timer()

    def _give_turn(self) -> None:
        name = next(iter(self._lines))
        line = self._lines.pop(name)
        visitor, turn = line.popleft()
        self._waiting_count -= 1
        if line:
            # The others of that name wait until everybody else had a turn.
            self._lines[name] = line

        if not turn.done():
            self._charge(visitor, TURN_S)
            visitor.paid_s = TURN_S
            turn.set_result(None)
