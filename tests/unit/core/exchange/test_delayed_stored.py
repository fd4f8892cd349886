"""Delayed messages on disk: read back when they are due, and there again after a restart.

Sections DU and E: rules E-114 and E-115.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange.delayed import SOON_MS, DelayedExchange
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange, delete_exchange
from broker.wire.properties import set_headers
from broker.wire.tables import Field
from tests.helpers.clock import VirtualClock
from tests.helpers.core import plain_headers, ready_bodies
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.stored import StoredCoreWorld
from tests.helpers.topology import text

LATER_MS = SOON_MS * 2
TRANSIENT = b"\0\0"
BOTH = pytest.mark.parametrize("cleanly", [True, False], ids=["cleanly", "killed"])


class Broker:
    """A broker that is started again and again, with a delayed fanout ``x`` bound to ``q``."""

    def __init__(self) -> None:
        self.disk = FakeDisk(Random(1))
        self.start(0.0)
        vhost = self.world.vhost
        actor = self.client.actor
        self.client.declare("q", durable=True)
        self.client.declare("other", durable=True)
        arguments = {"x-delayed-type": text("fanout")}
        exchange = ExchangeSettings("x", "x-delayed-message", True, False, False, arguments)
        declare_exchange(vhost, actor, exchange)
        bind(vhost, actor, BindingRequest("x", "q", True, "", {}))
        self.world.write()

    def start(self, elapsed_s: float) -> None:
        clock = VirtualClock(77.0 if elapsed_s else 3.0, elapsed_s)
        self.world = StoredCoreWorld(self.disk, "log", segment_bytes=4_096, clock=clock)
        self.client = self.world.client()

    def restart(self, *, cleanly: bool, after_s: float = 0.0) -> None:
        world = self.world
        assert world.failures == []
        elapsed_s = world.clock.wall() - VirtualClock.WALL_START_S + after_s
        world.write()
        if cleanly:
            world.stop()
        else:
            self.disk = self.disk.crashed()

        self.start(elapsed_s)

    def publish(self, body: bytes, delay_ms: int) -> None:
        raw = set_headers(TRANSIENT, {"x-delay": Field("l", delay_ms)})
        self.client.publish_on(self.client.route("", "x"), body, raw)

    @property
    def exchange(self) -> DelayedExchange:
        exchange = self.world.vhost.exchanges["x"]
        assert isinstance(exchange, DelayedExchange)
        return exchange

    def in_memory(self) -> int:
        return len(self.exchange.stored_messages())

    def came(self) -> list[bytes]:
        return ready_bodies(self.world.queue("q"))

    def live_count(self) -> int:
        return sum(int(one.live) for one in self.world.log.segments.values())


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_what_is_due_later_lies_on_disk_and_what_is_due_soon_does_not(broker: Broker) -> None:
    for number in range(600):
        broker.publish(b"%d" % number, LATER_MS)

    broker.publish(b"soon", SOON_MS)
    assert broker.in_memory() == 601, "nothing is safe yet"
    broker.world.write()
    assert broker.in_memory() == 1
    assert broker.exchange.messages_delayed == 601
    broker.world.move(SOON_MS)
    assert broker.came() == [b"soon"]
    broker.world.move(LATER_MS - SOON_MS - 1)
    assert len(broker.came()) == 1
    broker.world.move(1)
    assert broker.came() == [b"soon", *[b"%d" % number for number in range(600)]]
    assert broker.exchange.messages_delayed == 0


@BOTH
def test_they_come_after_a_restart_in_order_and_not_before_their_time(
    broker: Broker, cleanly: bool
) -> None:
    """Section DU: transient ones too."""
    for number in range(300):
        broker.publish(b"%d" % number, LATER_MS + (number % 3) * 1_000)
        if number == 150:
            broker.world.checkpoint()

    broker.publish(b"soon", 100)
    broker.restart(cleanly=cleanly)
    assert broker.in_memory() == 0
    assert broker.exchange.messages_delayed == 301
    broker.publish(b"new", LATER_MS)
    broker.world.write()
    broker.world.move(LATER_MS - 1)
    assert broker.came() == [b"soon"]
    broker.world.move(10_000)
    numbers = range(300)
    expected = [b"%d" % one for one in numbers if one % 3 == 0] + [b"new"]
    expected += [b"%d" % one for rest in (1, 2) for one in numbers if one % 3 == rest]
    assert broker.came() == [b"soon", *expected]
    broker.restart(cleanly=cleanly)
    assert broker.exchange.messages_delayed == 0


@BOTH
def test_what_fell_due_while_the_broker_was_down_comes_at_once(
    broker: Broker, cleanly: bool
) -> None:
    for number in range(3):
        broker.publish(b"%d" % number, LATER_MS * (3 - number))

    broker.restart(cleanly=cleanly, after_s=2.5 * LATER_MS / 1_000)
    broker.world.move(2)
    assert broker.came() == [b"2", b"1"]
    headers = [
        plain_headers(one.properties().raw) for one in broker.world.queue("q").ready.messages()
    ]
    assert [one["x-delay"] for one in headers] == [-LATER_MS, -2 * LATER_MS]


@BOTH
def test_they_are_moved_out_of_segments_that_are_otherwise_empty(
    broker: Broker, cleanly: bool
) -> None:
    """A message that waits for a month pins itself, and not the megabytes around it."""
    for number in range(20):
        broker.publish(b"%d" % number, LATER_MS)
        for _ in range(3):
            broker.client.publish("other", bytes(900), delivery_mode=2)

        broker.world.write()

    broker.world.queue("other").purge()
    broker.world.write()
    before = len(broker.world.log.segments)
    for _ in range(2):
        broker.world.checkpoint()
        broker.world.move(500)
        broker.world.write()

    assert len(broker.world.log.segments) < before / 2
    assert broker.live_count() == 20
    broker.restart(cleanly=cleanly)
    assert broker.live_count() == 20
    broker.world.move(LATER_MS)
    assert broker.came() == [b"%d" % number for number in range(20)]


def test_with_the_exchange_they_give_their_space_back(broker: Broker) -> None:
    """Rule E-115."""
    for delay_ms in (100, LATER_MS, LATER_MS):
        broker.publish(b"gone", delay_ms)
        broker.world.write()

    assert broker.live_count() == 3
    broker.publish(b"pending", LATER_MS)
    delete_exchange(broker.world.vhost, broker.client.actor, "x", if_unused=False)
    broker.world.write()
    assert broker.live_count() == 0
    broker.world.move(2 * LATER_MS)
    broker.restart(cleanly=False)
    assert broker.came() == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("publish"), st.sampled_from([LATER_MS, LATER_MS + 1, SOON_MS + 1])),
        st.tuples(st.just("move"), st.integers(1, 4)),
        st.tuples(st.just("move"), st.just(SOON_MS)),
        st.tuples(st.sampled_from(["stop", "kill"]), st.integers(0, 3)),
        st.tuples(st.just("checkpoint"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=steps)
def test_whatever_happens_each_comes_once_by_due_time(steps: list[tuple[str, int]]) -> None:
    broker = Broker()
    now_ms = 0
    waiting: list[tuple[int, int, bytes]] = []
    expected: list[bytes] = []
    for number, (what, how) in enumerate(steps):
        if what == "publish":
            body = b"%d" % number
            broker.publish(body, how)
            broker.world.write()
            waiting.append((now_ms + how, number, body))
        elif what == "move":
            broker.world.move(how)
            now_ms += how
        elif what == "checkpoint":
            broker.world.checkpoint()
        else:
            broker.restart(cleanly=what == "stop", after_s=how / 1_000)
            now_ms += how

        # Whatever is left of a turn comes in the next.
        broker.world.move(2)
        now_ms += 2
        due = sorted(one for one in waiting if one[0] <= now_ms)
        waiting = [one for one in waiting if one[0] > now_ms]
        expected += [one[2] for one in due]
        broker.client.publish("q", b"end")
        queue = broker.world.queue("q")
        came = [one for one in ready_bodies(queue) if one != b"end"]
        queue.purge()
        assert came == [one[2] for one in due]
        assert broker.exchange.messages_delayed == len(waiting)
        broker.world.write()
        assert broker.live_count() == len(waiting)
