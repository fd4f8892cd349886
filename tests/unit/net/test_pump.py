"""The pump against a fake core and a fake loop in virtual time."""

from __future__ import annotations

import pytest

from broker.net.pump import FAULT_DELAY_S, Pump
from tests.helpers.clock import VirtualClock
from tests.helpers.rim import FakeEngine, FakeLoop


class Rig:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.loop = FakeLoop(self.clock)
        self.engine = FakeEngine()
        self.pump = Pump(self.engine, self.clock, self.loop.as_loop())

    def due_in(self) -> list[float]:
        return [timer.due_s - self.clock.monotonic() for timer in self.loop.armed]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_command_sees_the_time_and_is_flushed(rig: Rig) -> None:
    rig.clock.move(5)
    rig.pump.run(lambda: rig.engine.calls.append("command"))
    assert rig.engine.calls == ["advance", "command", "flush"]
    assert rig.engine.now_s == rig.clock.monotonic()


def test_no_deadline_arms_no_timer(rig: Rig) -> None:
    rig.pump.settle()
    assert rig.loop.armed == []


def test_a_deadline_arms_one_timer_and_runs_when_due(rig: Rig) -> None:
    rig.engine.deadline = rig.clock.monotonic() + 10
    rig.pump.settle()
    rig.pump.settle()
    assert rig.due_in() == [10]
    rig.clock.move(9.9)
    rig.loop.turn()
    assert "run_deadlines" not in rig.engine.calls
    rig.clock.move(0.1)
    rig.loop.turn()
    assert rig.engine.calls[-3:] == ["advance", "run_deadlines", "flush"]
    assert rig.loop.armed == []


def test_a_deadline_that_moves_forward_in_time_keeps_the_timer_until_it_fires(rig: Rig) -> None:
    rig.engine.deadline = rig.clock.monotonic() + 10
    rig.pump.settle()
    rig.engine.deadline += 5
    rig.pump.settle()
    assert rig.due_in() == [10]
    rig.clock.move(10)
    rig.loop.turn()
    assert "run_deadlines" not in rig.engine.calls
    assert rig.due_in() == [5]


def test_a_deadline_that_moves_back_replaces_the_timer(rig: Rig) -> None:
    rig.engine.deadline = rig.clock.monotonic() + 10
    rig.pump.settle()
    rig.engine.deadline -= 8
    rig.pump.settle()
    assert rig.due_in() == [2]


def test_a_deadline_in_the_past_runs_in_the_next_turn(rig: Rig) -> None:
    rig.engine.deadline = rig.clock.monotonic() - 1
    rig.pump.settle()
    rig.loop.turn()
    assert "run_deadlines" in rig.engine.calls


def test_a_deadline_that_raises_neither_stops_time_nor_spins(rig: Rig) -> None:
    rig.engine.deadline = rig.clock.monotonic() + 1
    rig.engine.fault = RuntimeError("a bug")
    rig.pump.settle()
    rig.clock.move(1)
    with pytest.raises(RuntimeError):
        rig.loop.turn()

    assert rig.due_in() == [FAULT_DELAY_S]


def test_deliveries_cut_by_a_budget_go_on_in_the_next_turns(rig: Rig) -> None:
    rig.engine.turns_wanted = 2
    rig.pump.settle()
    rig.pump.settle()
    assert len(rig.loop.ready) == 1, "scheduled once, however often the core says so"
    rig.loop.turn()
    assert rig.engine.calls[-3:] == ["advance", "resume", "flush"]
    rig.loop.turn()
    assert rig.loop.ready == []
    assert rig.engine.calls.count("resume") == 2


def test_a_stopped_pump_leaves_no_timer(rig: Rig) -> None:
    rig.engine.deadline = rig.clock.monotonic() + 10
    rig.pump.settle()
    rig.pump.stop()
    assert rig.loop.armed == []
