"""Stand-ins for what lies on both sides of the rim: an event loop, a socket and a broker core."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.protocol.link import Link, Peer
    from tests.helpers.clock import VirtualClock

__all__ = ["FakeEngine", "FakeLoop", "FakeSession", "FakeTimer", "FakeTransport"]


class FakeTimer:
    def __init__(self, due_s: float, action: Callable[[], object]) -> None:
        self.due_s = due_s
        self.action = action
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """A loop whose time is a virtual clock's and which turns only when told to."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.timers: list[FakeTimer] = []
        self.ready: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.clock.monotonic()

    def call_later(self, delay_s: float, action: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(self.time() + delay_s, action)
        self.timers.append(timer)
        return timer

    def call_soon(self, action: Callable[[], object]) -> None:
        self.ready.append(action)

    @property
    def armed(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if not timer.is_cancelled]

    def turn(self) -> None:
        """Run what is ready, then the timers that are due."""
        ready, self.ready = self.ready, []
        for action in ready:
            action()

        for timer in self.armed:
            if timer.due_s <= self.time():
                self.timers.remove(timer)
                timer.action()

    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast("asyncio.AbstractEventLoop", self)


class FakeEngine:
    """Records what the rim does to a broker core, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.now_s = 0.0
        self.deadline: float | None = None
        self.turns_wanted = 0
        self.fault: Exception | None = None

    def advance(self, now_s: float) -> None:
        self.now_s = now_s
        self.calls.append("advance")

    def next_deadline(self) -> float | None:
        return self.deadline

    def run_deadlines(self) -> None:
        self.calls.append("run_deadlines")
        if self.fault is not None:
            raise self.fault

        self.deadline = None

    def flush(self) -> None:
        self.calls.append("flush")

    def wants_turn(self) -> bool:
        return self.turns_wanted > 0

    def resume(self) -> None:
        self.turns_wanted -= 1
        self.calls.append("resume")


class FakeSession:
    """Records what a transport tells it; writes what it is told to."""

    def __init__(self, link: Link, peer: Peer, engine: FakeEngine) -> None:
        self.link = link
        self.peer = peer
        self.calls = engine.calls

    def receive_data(self, data: bytes) -> None:
        self.calls.append(f"data {data!r}")

    def receive_eof(self) -> None:
        self.calls.append("eof")

    def connection_lost(self) -> None:
        self.calls.append("lost")

    def pause_output(self) -> None:
        self.calls.append("pause_output")

    def resume_output(self) -> None:
        self.calls.append("resume_output")


class FakeTransport(asyncio.Transport):
    """A socket that keeps what is written and records the rest."""

    def __init__(
        self, extra: dict[str, object] | None = None, *, can_write_eof: bool = True
    ) -> None:
        self.extra: dict[str, object] = {
            "peername": ("192.0.2.7", 40000),
            "sockname": ("192.0.2.1", 5672),
            **(extra or {}),
        }
        self.written = b""
        self.calls: list[str] = []
        self._can_write_eof = can_write_eof
        self.eof_error: OSError | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.extra.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append(f"limits {high} {low}")

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return self._can_write_eof

    def write_eof(self) -> None:
        if self.eof_error is not None:
            raise self.eof_error

        self.calls.append("write_eof")

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")
