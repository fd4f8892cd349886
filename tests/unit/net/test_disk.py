from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.disk import FREE_SAMPLE_INTERVAL_S, DiskWatch, free_bytes
from broker.net.pump import Pump
from tests.helpers.clock import VirtualClock
from tests.helpers.rim import FakeEngine, FakeLoop

if TYPE_CHECKING:
    from pathlib import Path


class Rig:
    def __init__(self, limit_bytes: int = 100) -> None:
        self.free: int | None = 1000
        self.clock = VirtualClock()
        self.loop = FakeLoop(self.clock)
        self.engine = FakeEngine()
        self.alarms: list[bool] = []
        pump = Pump(self.engine, self.clock, self.loop.as_loop())
        self.watch = DiskWatch(pump, self.alarms.append, limit_bytes, lambda: self.free)

    def wait(self) -> None:
        self.clock.move(FREE_SAMPLE_INTERVAL_S)
        self.loop.turn()


def test_the_alarm_goes_on_and_off_at_the_limit_once_each() -> None:
    """Rule MA-01."""
    rig = Rig()
    for free in (101, 100, 99, 0, 99, 100, 500, 99):
        rig.free = free
        rig.wait()

    assert rig.alarms == [True, False, True]


def test_what_nobody_can_tell_changes_nothing() -> None:
    rig = Rig()
    for free in (None, 99, None, 99, None, 100):
        rig.free = free
        rig.wait()

    assert rig.alarms == [True, False]


def test_the_alarm_is_flushed_to_the_clients() -> None:
    rig = Rig()
    rig.free = 0
    rig.wait()
    assert rig.engine.calls == ["advance", "flush"]


def test_a_stopped_watch_has_no_timer() -> None:
    rig = Rig()
    rig.watch.stop()
    assert rig.loop.armed == []


def test_the_free_space_of_a_directory_is_told(tmp_path: Path) -> None:
    free = free_bytes(str(tmp_path))
    assert free is not None
    assert free > 0
    assert free_bytes(str(tmp_path / "nothing")) is None
