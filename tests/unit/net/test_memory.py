from __future__ import annotations

import subprocess
import sys

import pytest

from broker.net.memory import SAMPLE_INTERVAL_S, MemoryWatch, available_bytes, resident_bytes
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
