"""Delayed messages come once each, not before their time, by due time and then as published.

Rules E-114 and E-115.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange, delete_exchange
from broker.limits import DELAYED_PER_TURN_MAX
from broker.wire.properties import set_headers
from broker.wire.tables import Field
from tests.helpers.core import CoreClient, CoreWorld, ready_bodies
from tests.helpers.topology import text

if TYPE_CHECKING:
    from broker.core.exchange.delayed import DelayedExchange

delays = st.one_of(st.integers(-2, 12), st.sampled_from([5, 5, 1_000, 1 << 32]))
programs = st.lists(st.tuples(st.integers(0, 4), delays), max_size=40)


class Delaying:
    """A delayed fanout with a queue bound to it."""

    def __init__(self) -> None:
        self.world = CoreWorld()
        self.client: CoreClient = self.world.client()
        self.queue = self.client.declare("q")
        arguments = {"x-delayed-type": text("fanout")}
        declare_exchange(
            self.world.vhost,
            self.client.actor,
            ExchangeSettings("x", "x-delayed-message", False, False, False, arguments),
        )
        bind(self.world.vhost, self.client.actor, BindingRequest("x", "q", True, "", {}))

    @property
    def exchange(self) -> DelayedExchange:
        return cast("DelayedExchange", self.world.vhost.exchanges["x"])

    def publish(self, body: bytes, delay_ms: int) -> None:
        raw = set_headers(b"\0\0", {"x-delay": Field("l", delay_ms)})
        self.client.publish_on(self.client.route("", "x"), body, raw)


@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_order_and_time(program: list[tuple[int, int]]) -> None:
    setting = Delaying()
    now_ms = 0
    expected: list[tuple[int, int, bytes]] = []
    for number, (pause_ms, delay_ms) in enumerate(program):
        setting.world.move(pause_ms)
        now_ms += pause_ms
        body = b"%d" % number
        setting.publish(body, delay_ms)
        is_delayed = 0 < delay_ms < 1 << 32
        # What comes due in the same millisecond was published before.
        expected.append((now_ms + (delay_ms if is_delayed else 0), number, body))
        due = [entry for entry in expected if entry[0] <= now_ms]
        assert len(ready_bodies(setting.queue)) == len(due)
        assert setting.exchange.messages_delayed == len(expected) - len(due)

    setting.world.move(2_000)
    assert setting.exchange.messages_delayed == 0
    came = [int(body) for body in ready_bodies(setting.queue)]
    assert sorted(came) == list(range(len(program)))
    delayed = [entry[1] for entry in sorted(expected) if _is_delayed(program[entry[1]][1])]
    assert [number for number in came if _is_delayed(program[number][1])] == delayed


def _is_delayed(delay_ms: int) -> bool:
    return 0 < delay_ms < 1 << 32


def test_very_many_that_are_due_at_once_leave_room_for_others() -> None:
    setting = Delaying()
    count = DELAYED_PER_TURN_MAX * 2 + 1
    for number in range(count):
        setting.publish(b"%d" % number, 50)

    world = setting.world
    world.clock.move(0.050)
    world.node.advance(world.clock.monotonic())
    world.node.run_deadlines()
    assert setting.queue.ready_count == DELAYED_PER_TURN_MAX
    world.move(2)
    assert ready_bodies(setting.queue) == [b"%d" % number for number in range(count)]


def test_one_timer_stands_for_all_messages_and_goes_with_the_exchange() -> None:
    setting = Delaying()
    for delay_ms in (500, 400, 450):
        setting.publish(b"m", delay_ms)

    due_s = setting.world.node.next_deadline()
    assert due_s is not None
    assert round(due_s - setting.world.clock.monotonic(), 3) == 0.4
    exchange = setting.exchange
    delete_exchange(setting.world.vhost, setting.client.actor, "x", if_unused=False)
    assert exchange.messages_delayed == 0
    assert setting.world.node.next_deadline() is None
