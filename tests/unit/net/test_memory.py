from __future__ import annotations

import subprocess
import sys

import pytest

from broker.net.memory import (
    SAMPLE_INTERVAL_S,
    TRIM_CHECKS,
    TRIM_CHECKS_MAX,
    MemoryWatch,
    available_bytes,
    resident_bytes,
)
from broker.net.pump import Pump
from tests.helpers.clock import VirtualClock
from tests.helpers.rim import FakeEngine, FakeLoop


class Rig:
    def __init__(self, limit_bytes: int = 100) -> None:
        self.used: int | None = 0
        self.clock = VirtualClock()
        self.loop = FakeLoop(self.clock)
        self.engine = FakeEngine()
        self.alarms: list[bool] = []
        pump = Pump(self.engine, self.clock, self.loop.as_loop())
        self.watch = MemoryWatch(pump, self.alarms.append, limit_bytes, lambda: self.used)

    def second(self) -> None:
        self.clock.move(SAMPLE_INTERVAL_S)
        self.loop.turn()


class Heap:
    """What an allocator has: memory in use, and memory that is free but kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> None:
        self.in_use = 0
        self.kept = 0
        self.trims = 0
        monkeypatch.setattr("broker.net.memory._find_trim", lambda: self._trim)
        self.rig = Rig(limit_bytes)

    def _trim(self, padding: int) -> int:
        self.trims += 1
        self.kept = padding
        return 1

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.rig.used = self.in_use + self.kept
            self.rig.second()


MIB = 1024 * 1024


def test_what_was_in_use_at_the_last_trim_is_given_back_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing grows any more then, so growth is no sign of it."""
    heap = Heap(monkeypatch, 1_000 * MIB)
    heap.in_use = 300 * MIB
    heap.wait(10 * TRIM_CHECKS)
    heap.in_use, heap.kept = 40 * MIB, 260 * MIB
    heap.wait(20 * TRIM_CHECKS)
    assert heap.kept == 0


@pytest.mark.parametrize(
    ("in_use", "most"), [(40 * MIB, 1), (300 * MIB, 12)], ids=["small", "large"]
)
def test_who_has_nothing_to_give_back_is_asked_seldom(
    monkeypatch: pytest.MonkeyPatch, in_use: int, most: int
) -> None:
    heap = Heap(monkeypatch, 1_000 * MIB)
    heap.in_use = in_use
    heap.wait(6 * TRIM_CHECKS_MAX)
    assert 1 <= heap.trims <= most


def test_at_the_limit_everything_free_is_given_back_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heap = Heap(monkeypatch, 100 * MIB)
    heap.in_use, heap.kept = 60 * MIB, 40 * MIB
    heap.wait(1)
    assert heap.kept == 0


def test_the_alarm_goes_on_and_off_at_the_limit_once_each() -> None:
    """Rule MA-01."""
    rig = Rig()
    for used in (99, 100, 500, 100, 99, 0, None, 100):
        rig.used = used
        rig.second()

    assert rig.alarms == [True, False, True]


def test_the_alarm_is_flushed_to_the_clients() -> None:
    rig = Rig()
    rig.used = 100
    rig.second()
    assert rig.engine.calls == ["advance", "flush"]


def test_a_stopped_watch_has_no_timer() -> None:
    rig = Rig()
    rig.watch.stop()
    assert rig.loop.armed == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_process_fits_into_this_machine() -> None:
    resident, available = resident_bytes(), available_bytes()
    assert resident is not None
    assert available is not None
    assert 1_000_000 < resident < available


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_allocated_is_seen() -> None:
    before = resident_bytes()
    ballast = bytearray(b"x" * 30_000_000)
    after = resident_bytes()
    assert before is not None
    assert after is not None
    assert after - before > 20_000_000
    assert ballast


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_the_allocator_can_be_told_to_keep_what_is_freed() -> None:
    script = "from broker.net.memory import keep_freed_memory; print(keep_freed_memory())"
    # In a process of its own: it cannot be taken back.
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
