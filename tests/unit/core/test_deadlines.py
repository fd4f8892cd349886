from __future__ import annotations

from broker.core.deadlines import CANCELLED_MIN, Deadlines
from tests.helpers.core import CoreWorld


def test_timers_run_in_order_of_their_time() -> None:
    deadlines = Deadlines(0)
    ran: list[str] = []
    deadlines.schedule(20, lambda: ran.append("late"))
    deadlines.schedule(10, lambda: ran.append("first of two"))
    deadlines.schedule(10, lambda: ran.append("second of two"))
    assert deadlines.next_due_ms() == 10
    deadlines.now_ms = 19
    deadlines.run(100)
    assert ran == ["first of two", "second of two"]
    assert deadlines.next_due_ms() == 20


def test_nothing_runs_before_its_time() -> None:
    deadlines = Deadlines(0)
    ran: list[str] = []
    deadlines.schedule(10, lambda: ran.append("x"))
    deadlines.now_ms = 9
    deadlines.run(100)
    assert not ran


def test_a_cancelled_timer_does_not_run() -> None:
    deadlines = Deadlines(0)
    ran: list[str] = []
    timer = deadlines.schedule(10, lambda: ran.append("x"))
    deadlines.cancel(timer)
    deadlines.cancel(timer)
    assert deadlines.next_due_ms() == -1
    deadlines.now_ms = 10
    deadlines.run(100)
    assert not ran


def test_cancelling_what_has_run_changes_nothing() -> None:
    deadlines = Deadlines(0)
    timer = deadlines.schedule(0, lambda: None)
    deadlines.run(1)
    deadlines.cancel(timer)
    deadlines.schedule(5, lambda: None)
    assert deadlines.next_due_ms() == 5


def test_a_run_is_bounded_and_the_rest_stays_due() -> None:
    deadlines = Deadlines(0)
    ran: list[str] = []
    for _ in range(5):
        deadlines.schedule(0, lambda: ran.append("x"))

    deadlines.run(3)
    assert len(ran) == 3
    assert deadlines.next_due_ms() == 0
    deadlines.run(3)
    assert len(ran) == 5


def test_a_timer_may_schedule_another_for_now() -> None:
    deadlines = Deadlines(0)
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        deadlines.schedule(0, lambda: ran.append("second"))

    deadlines.schedule(0, first)
    deadlines.run(10)
    assert ran == ["first", "second"]


def test_cancelled_timers_do_not_pile_up() -> None:
    """One far deadline, cancelled and set anew with every use, as x-expires does."""
    deadlines = Deadlines(0)
    for number in range(20 * CANCELLED_MIN):
        deadlines.cancel(deadlines.schedule(1_000_000 + number, lambda: None))

    assert len(deadlines._heap) <= 2 * CANCELLED_MIN


def test_wall_time_is_the_clocks_less_its_start() -> None:
    deadlines = Deadlines(1_000, wall_offset_ms=1_700_000_000_000)
    deadlines.now_ms = 3_000
    assert deadlines.wall_ms == 1_700_000_003_000


def test_the_time_of_a_deadline_is_late_enough_for_it() -> None:
    """Seconds as floats fall short of milliseconds: 1.001 * 1000 is a little less than 1001."""
    node = CoreWorld().node
    for due_ms in range(900, 3_000):
        node.deadlines.schedule(due_ms, lambda: None)
        due_s = node.next_deadline()
        assert due_s is not None
        node.advance(due_s)
        node.run_deadlines()
        assert node.next_deadline() is None
