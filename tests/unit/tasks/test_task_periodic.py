"""Which ticks are due: late, missed, overlapping, and after another worker took over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from broker.client.errors import InvalidValue
from broker.client.schedule import Cron, Delay, Every
from broker.tasks.periodic import BeatState, Periodic

if TYPE_CHECKING:
    from broker.tasks.options import Missed

START = datetime(2030, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def began(periodic: dict[str, Periodic], at_s: float = 0.0) -> BeatState:
    state = BeatState()
    state.adopt(periodic, after(at_s))
    state.is_initial = False
    return state


def ticks_of(state: BeatState, periodic: dict[str, Periodic], at_s: float) -> list[float]:
    return [(tick.at - START).total_seconds() for tick in state.due(periodic, after(at_s))]


def test_each_tick_is_due_once() -> None:
    periodic = {"a": Periodic(Every(10))}
    state = began(periodic)
    assert ticks_of(state, periodic, 9.9) == []
    assert ticks_of(state, periodic, 10) == [10]
    assert ticks_of(state, periodic, 10) == []
    assert ticks_of(state, periodic, 20.5) == [20]
    assert state.next_due(periodic, after(20.5)) == after(30)


@pytest.mark.parametrize(
    ("missed", "due"),
    [
        pytest.param("last", [97], id="last"),
        pytest.param("all", list(range(1, 98)), id="all"),
        pytest.param("skip", [], id="skip"),
    ],
)
def test_missed_ticks(missed: Missed, due: list[float]) -> None:
    periodic = {"a": Periodic(_Until(97), missed=missed)}
    assert ticks_of(began(periodic), periodic, 97 + 30) == due


class _Until(Every):
    """Every second, up to some second."""

    last: datetime

    def __init__(self, last_s: float) -> None:
        super().__init__(1)
        object.__setattr__(self, "last", after(last_s))

    def next_after(self, moment: datetime) -> datetime:
        tick = super().next_after(moment)
        return tick if tick <= self.last else after(10**9)


@pytest.mark.parametrize("missed", ["last", "all", "skip"])
def test_ticks_that_are_a_little_late_are_not_missed(missed: Missed) -> None:
    periodic = {"a": Periodic(Every(1), missed=missed)}
    assert ticks_of(began(periodic), periodic, 5.5) == [1, 2, 3, 4, 5]


def test_of_endless_ticks_a_bounded_number_is_made_up_for() -> None:
    periodic = {"a": Periodic(Every(1), missed="all")}
    found = ticks_of(began(periodic), periodic, 5000)
    assert found == list(range(4001, 5001))


def test_a_run_that_must_not_overlap_holds_the_next_ones_back() -> None:
    periodic = {"a": Periodic(Every(10), overlap="skip")}
    state = began(periodic)
    (tick,) = state.due(periodic, after(10))
    assert ticks_of(state, periodic, 20) == []
    assert not state.done("some other")
    assert state.done(tick.task_id)
    assert ticks_of(state, periodic, 29) == []
    assert ticks_of(state, periodic, 30) == [30]


@pytest.mark.parametrize(
    ("interval_s", "run_s", "held_s"),
    [
        pytest.param(60, None, 3600, id="an hour"),
        pytest.param(60, 30, 180, id="three intervals"),
        pytest.param(60, 600, 660, id="timeout"),
        pytest.param(3600, None, 3 * 3600, id="three longer intervals"),
        pytest.param(86_400, None, 86_400, id="a day"),
        pytest.param(3600, 2 * 86_400, 49 * 3600, id="a timeout of more than a day"),
    ],
)
def test_a_run_that_is_never_heard_of_again_holds_back_for_a_while(
    interval_s: float, run_s: float | None, held_s: float
) -> None:
    periodic = {"a": Periodic(Every(interval_s), overlap="skip")}
    state = began(periodic)
    longest = {"a": run_s}
    fired = []
    for number in range(1, 100):
        fired += state.due(periodic, after(number * interval_s), longest)
        if len(fired) == 2:
            break

    assert fired[1].at - fired[0].at == timedelta(seconds=held_s)


def test_a_state_survives_being_written() -> None:
    periodic = {"a": Periodic(Every(10), overlap="skip"), "b": Periodic(Cron("0 3 * * *"))}
    state = began(periodic)
    state.due(periodic, after(10))
    again = BeatState.from_dict(state.as_dict())
    assert again == state
    assert ticks_of(again, periodic, 10) == []


def test_an_initial_state_gives_way_to_one_that_knows() -> None:
    periodic = {"a": Periodic(Every(10))}
    known = began(periodic)
    known.due(periodic, after(10))
    mine = BeatState()
    mine.adopt(periodic, after(12))
    mine.merge(known)
    assert not mine.is_initial
    assert ticks_of(mine, periodic, 20) == [20]


def test_an_initial_state_changes_nothing() -> None:
    periodic = {"a": Periodic(Every(10))}
    known = began(periodic)
    other = BeatState()
    other.adopt(periodic, after(1000))
    known.merge(other)
    assert ticks_of(known, periodic, 10) == [10]


def test_of_two_states_the_later_tick_counts() -> None:
    periodic = {"a": Periodic(Every(10)), "b": Periodic(Every(10))}
    first, second = began(periodic), began(periodic)
    first.last["a"] = after(50)
    second.last["b"] = after(60)
    first.merge(second)
    assert first.last == {"a": after(50), "b": after(60)}


def test_who_begins_later_fires_nothing_that_lies_before() -> None:
    periodic = {"a": Periodic(Every(10))}
    assert ticks_of(began(periodic, at_s=35), periodic, 39) == []


def test_the_id_of_a_tick_is_the_same_in_every_zone() -> None:
    periodic = {"a": Periodic(Cron("0 3 * * *", tz="Europe/Berlin"))}
    state = began(periodic)
    (tick,) = state.due(periodic, after(3600 * 3))
    assert tick.task_id == "a@2030-01-01T02:00:00.000000+00:00"


def test_what_comes_once_is_not_periodic() -> None:
    with pytest.raises(InvalidValue, match="comes once"):
        Periodic(Delay(3))


@pytest.mark.parametrize("given", [{"overlap": "maybe"}, {"missed": "never"}])
def test_there_are_few_policies(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="is one of"):
        Periodic(Every(1), **given)


def test_a_schedule_that_fails_keeps_no_other_task_from_its_ticks() -> None:
    class Broken(Every):
        def next_after(self, moment: datetime) -> datetime:
            raise ZeroDivisionError

    periodic = {"broken": Periodic(Broken(1)), "right": Periodic(Every(10))}
    state = began(periodic)
    assert ticks_of(state, periodic, 10) == [10]
    assert state.next_due(periodic, after(10)) == after(20)
