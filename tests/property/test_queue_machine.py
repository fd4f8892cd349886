"""A queue does what a sorted list would: order, limits, time, priorities, prefetch, settlement.

One channel with several consumers, so that everything comes out in one order. The model does not
say which consumer a message goes to, only that it must be able to take it; and when the queue is at
rest, no consumer may be able to take what is ready.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.core.message import content_body
from tests.helpers.core import CoreWorld, ready_bodies

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue
    from tests.helpers.session import Heard


class Kind(NamedTuple):
    """What a queue is declared as."""

    priority_max: int | None
    length_max: int | None
    length_bytes_max: int | None
    overflow: str | None
    ttl_ms: int | None
    anywhere: bool

    def arguments(self) -> dict[str, object]:
        pairs: dict[str, object | None] = {
            "x-max-priority": self.priority_max,
            "x-max-length": self.length_max,
            "x-max-length-bytes": self.length_bytes_max,
            "x-overflow": self.overflow,
            "x-message-ttl": self.ttl_ms,
            "x-ttl-anywhere": self.anywhere or None,
        }
        return {key: value for key, value in pairs.items() if value is not None}


KINDS = st.builds(
    Kind,
    st.sampled_from([None, None, 1, 5]),
    st.sampled_from([None, None, None, 4, 1, 0]),
    st.sampled_from([None, None, None, 12]),
    st.sampled_from([None, None, "drop-head", "reject-publish", "reject-publish-dlx"]),
    st.sampled_from([None, None, None, 30, 0]),
    st.booleans(),
)
pytestmark = pytest.mark.timeout(120)
"""Only a failure takes so long: it is made smaller before it is shown."""

PLACES = st.lists(st.integers(0, 7), min_size=1, max_size=4)
NEVER = 1 << 60
TO_GRAVE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}


class Entry:
    """A message as the model knows it; the body tells them apart and has a size of its own."""

    def __init__(self, number: int, level: int, deadline_ms: int) -> None:
        self.number = number
        self.body = b"%d" % number + b"." * (number % 3)
        self.key = (-level, number)
        self.deadline_ms = deadline_ms
        self.redelivered = False
        self.returns = 0


class Taker:
    """A consumer as the model knows it."""

    def __init__(self, prefetch: int, no_ack: bool) -> None:
        self.prefetch = 0 if no_ack else prefetch
        self.no_ack = no_ack
        self.held = 0


class QueueMachine(RuleBasedStateMachine):
    """`ready` is sorted by level and position, `held` is what is unacked, by delivery tag."""

    @initialize(kind=KINDS, count=st.integers(3, 8), gets=st.integers(0, 3))
    def begin(self, kind: Kind, count: int, gets: int) -> None:
        """There are messages, some of them unacked, from the first step on."""
        self.declare(kind)
        self.publish(count, None, None)
        self.consume(2, False)
        for _ in range(gets):
            self.get(False)

    def declare(self, kind: Kind) -> None:
        self.world = CoreWorld()
        self.client = self.world.client()
        self.kind = kind
        self.grave = self.client.declare("grave")
        self.queue = self.client.declare_with("q", TO_GRAVE | kind.arguments())
        self.ready: list[Entry] = []
        self.held: dict[int, tuple[Entry, str]] = {}
        self.takers: dict[str, Taker] = {}
        self.dead: list[tuple[bytes, str]] = []
        self.number = 0
        self.accepted = 0
        self.gone = 0
        self.last_tag = 0
        self.limit = 0
        self.has_room = True
        self.tag_count = 0

    # -- the model

    @property
    def now_ms(self) -> int:
        return int(self.world.node.deadlines.now_ms)

    def able(self) -> set[str]:
        """The consumers that can take a message (rules CO-10, QS-04, QS-05)."""
        held = sum(1 for _, tag in self.held.values() if tag)
        if not self.has_room or 0 < self.limit <= held:
            return set()

        counts = [tag for _, tag in self.held.values()]
        return {
            tag
            for tag, taker in self.takers.items()
            if not taker.prefetch or counts.count(tag) < taker.prefetch
        }

    def die(self, entry: Entry, reason: str) -> None:
        self.dead.append((entry.body, reason))
        self.gone += 1

    def expire(self) -> None:
        """Rule TTL-02: the head, while its time is over; with x-ttl-anywhere all of them."""
        if self.kind.anywhere:
            late = [one for one in self.ready if one.deadline_ms <= self.now_ms]
            for entry in sorted(late, key=lambda one: (one.deadline_ms, one.number)):
                self.ready.remove(entry)
                self.die(entry, "expired")

        while self.ready and self.ready[0].deadline_ms <= self.now_ms:
            self.die(self.ready.pop(0), "expired")

    def is_over(self, count: int, size_bytes: int) -> bool:
        kind = self.kind
        return (kind.length_max is not None and count > kind.length_max) or (
            kind.length_bytes_max is not None and size_bytes > kind.length_bytes_max
        )

    def ready_bytes(self) -> int:
        return sum(len(entry.body) for entry in self.ready)

    def limit_length(self) -> None:
        """Rules Q-80, Q-91: from the head, until within the limits."""
        if not self.is_refusing:
            while self.ready and self.is_over(len(self.ready), self.ready_bytes()):
                self.die(self.ready.pop(0), "maxlen")

            self.expire()

    def refuses(self, entry: Entry) -> bool:
        """Rule Q-83: before anything else, waiting consumers or not."""
        return self.is_refusing and self.is_over(
            len(self.ready) + 1, self.ready_bytes() + len(entry.body)
        )

    @property
    def is_refusing(self) -> bool:
        return self.kind.overflow in ("reject-publish", "reject-publish-dlx")

    def level_of(self, priority: int | None) -> int:
        """Rule Q-90."""
        return min(priority or 0, self.kind.priority_max or 0)

    def settle_down(self) -> None:
        """Everything that came out must be the head, each time, and go to one that is able."""
        for heard in self.client.heard():
            assert heard.name == "basic.deliver"
            tag = heard.arguments["consumer_tag"]
            assert isinstance(tag, str)
            assert tag in self.able()
            self.hand_out(heard, tag, self.takers[tag].no_ack)
            self.expire()

        assert not (self.ready and self.able()), "a consumer waits while messages are ready"

    def hand_out(self, heard: Heard, tag: str, no_ack: bool) -> None:
        entry = self.ready.pop(0)
        assert heard.body == entry.body
        assert heard.arguments["redelivered"] == entry.redelivered
        self.last_tag += 1
        assert heard.arguments["delivery_tag"] == self.last_tag
        if no_ack:
            self.gone += 1
        else:
            self.held[self.last_tag] = (entry, tag)

    # -- what happens

    @rule(
        count=st.integers(1, 4),
        priority=st.sampled_from([None, 0, 1, 3, 200]),
        ttl_ms=st.sampled_from([None, None, None, 100, 10, 0]),
    )
    def publish(self, count: int, priority: int | None, ttl_ms: int | None) -> None:
        for _ in range(count):
            self.publish_one(priority, ttl_ms)

    def publish_one(self, priority: int | None, ttl_ms: int | None) -> None:
        self.number += 1
        times = [one for one in (ttl_ms, self.kind.ttl_ms) if one is not None]
        deadline_ms = self.now_ms + min(times) if times else NEVER
        entry = Entry(self.number, self.level_of(priority), deadline_ms)
        expiration = None if ttl_ms is None else str(ttl_ms)
        self.client.publish("q", entry.body, priority=priority, expiration=expiration)
        if self.refuses(entry):
            if self.kind.overflow == "reject-publish-dlx":
                self.dead.append((entry.body, "maxlen"))
        else:
            self.accepted += 1
            is_direct = not self.ready and self.able()
            insort(self.ready, entry, key=lambda one: one.key)
            if not is_direct:
                self.expire()
                self.limit_length()

        self.settle_down()

    @precondition(lambda self: len(self.takers) < 4)
    @rule(prefetch=st.sampled_from([0, 1, 2, 5]), no_ack=st.booleans())
    def consume(self, prefetch: int, no_ack: bool) -> None:
        self.tag_count += 1
        tag = f"t{self.tag_count}"
        self.takers[tag] = Taker(prefetch, no_ack)
        self.client.consume(self.queue, tag, prefetch=prefetch, no_ack=no_ack)
        self.settle_down()

    @precondition(lambda self: self.takers)
    @rule(place=st.integers(0, 3))
    def cancel(self, place: int) -> None:
        """Rule CO-12: what it holds stays unacked."""
        tag = list(self.takers)[place % len(self.takers)]
        del self.takers[tag]
        self.client.cancel(tag)
        self.settle_down()

    @rule(no_ack=st.booleans())
    def get(self, no_ack: bool) -> None:
        """Rules G-02, TTL-05, QS-06."""
        message = self.client.get(self.queue, no_ack=no_ack)
        self.expire()
        if message is None:
            assert not self.ready
            return

        [heard] = self.client.heard()
        self.hand_out(heard, "", no_ack)
        self.expire()
        assert heard.arguments["message_count"] == len(self.ready)

    def take_held(self, places: list[int]) -> tuple[list[int], list[Entry]]:
        """Some of what is unacked, in whatever order: tags and messages."""
        held = list(self.held)
        tags = list(dict.fromkeys(held[place % len(held)] for place in places))
        return tags, [self.held.pop(tag)[0] for tag in tags]

    @precondition(lambda self: self.held)
    @rule(places=PLACES)
    def ack(self, places: list[int]) -> None:
        tags, entries = self.take_held(places)
        self.client.ack(*tags)
        self.gone += len(entries)
        self.settle_down()

    @precondition(lambda self: self.held)
    @rule(places=PLACES)
    def reject(self, places: list[int]) -> None:
        """Rule A-06."""
        tags, entries = self.take_held(places)
        self.client.reject(*tags)
        for entry in entries:
            self.die(entry, "rejected")

        self.settle_down()

    @precondition(lambda self: self.held)
    @rule(places=PLACES)
    def requeue(self, places: list[int]) -> None:
        """Rules A-05, Q-82: to their places, then time and limits count again."""
        tags, entries = self.take_held(places)
        self.client.requeue(*tags)
        for entry in entries:
            entry.redelivered = True
            insort(self.ready, entry, key=lambda one: one.key)

        self.expire()
        self.limit_length()
        self.settle_down()

    @precondition(lambda self: self.takers)
    @rule(limit=st.sampled_from([0, 1, 3]))
    def limit_channel(self, limit: int) -> None:
        """Rule QS-03: effective at once."""
        self.limit = limit
        self.client.deliveries.set_prefetch_limit(limit)
        self.settle_down()

    @precondition(lambda self: self.takers)
    @rule()
    def turn_socket(self) -> None:
        """The socket takes no more, or takes more again."""
        self.has_room = not self.has_room
        if self.has_room:
            self.client.output.resume()
            self.world.node.resume()
        else:
            self.client.output.pause()

        self.settle_down()

    @rule(milliseconds=st.sampled_from([1, 10, 31]))
    def wait(self, milliseconds: int) -> None:
        """Rules TTL-03, DL-14: the head expires by itself, and what is behind it after it."""
        self.world.move(milliseconds)
        self.expire()
        self.settle_down()

    @precondition(lambda self: len(self.ready) > 2)
    @rule()
    def purge(self) -> None:
        """Rules Q-54, Q-55: what is ready goes without dying."""
        assert self.queue.purge() == len(self.ready)
        self.gone += len(self.ready)
        self.ready = []

    # -- what always holds

    @invariant()
    def messages_are_where_they_belong(self) -> None:
        assert ready_bodies(self.queue) == [entry.body for entry in self.ready]
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.ready_bytes == self.ready_bytes()
        assert self.queue.unacked_count == len(self.held)
        assert self.client.deliveries.unacked.count == len(self.held)

    @invariant()
    def none_is_lost_or_doubled(self) -> None:
        """Published is ready, unacked, or gone in one of the ways there are."""
        assert self.queue.publish_count == self.accepted
        assert self.accepted == len(self.ready) + len(self.held) + self.gone

    @invariant()
    def the_dead_are_in_their_grave(self) -> None:
        assert [epitaph(self.grave, place) for place in range(len(self.dead))] == self.dead
        assert self.grave.ready_count == len(self.dead)


def epitaph(grave: Queue, place: int) -> tuple[bytes, str]:
    """Body and last death of a dead letter."""
    message = grave.ready.messages()[place]
    assert message.history is not None
    return content_body(message.content), message.history.entries[0].reason


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=30, report_multiple_bugs=False)
