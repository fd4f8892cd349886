"""A quorum queue does what a sorted list would: returns first, then priorities, limits and delays.

The machine is that of classic queues. What differs: a returned message comes before all others, in
the order of the returns; it says how often it was returned, and dies when that is too often; it may
have to wait before it is ready; every priority's head expires; and a full queue takes one more.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.helpers.core import plain_headers
from tests.property import test_queue_machine as classic

if TYPE_CHECKING:
    from tests.helpers.session import Heard

RETURNED = -1_000
"""In place of a priority: before all of them."""

RETRY_MIN_MS = 10
RETRY_MAX_MS = 15


class Quorum(NamedTuple):
    """What a quorum queue is declared as, beyond the rest."""

    delivery_limit: int | None
    retry_type: str | None
    strategy: str | None

    def arguments(self) -> dict[str, object]:
        pairs: dict[str, object | None] = {
            "x-queue-type": "quorum",
            "x-delivery-limit": self.delivery_limit,
            "x-delayed-retry-type": self.retry_type,
            "x-delayed-retry-min": RETRY_MIN_MS,
            "x-delayed-retry-max": RETRY_MAX_MS,
            "x-dead-letter-strategy": self.strategy,
        }
        return {key: value for key, value in pairs.items() if value is not None}


PLAIN = Quorum(None, None, None)
QUORUMS = st.builds(
    Quorum,
    st.sampled_from([None, -1, 0, 1, 2]),
    st.sampled_from([None, None, "disabled", "all", "failed", "returned"]),
    st.sampled_from([None, "at-least-once"]),
)


class QuorumMachine(classic.QueueMachine):
    """`waiting` are those whose retry is delayed, with the time when it is due."""

    @initialize(kind=classic.KINDS, count=st.integers(3, 8), gets=st.integers(0, 3), quorum=QUORUMS)
    def begin(self, kind: classic.Kind, count: int, gets: int, quorum: Quorum = PLAIN) -> None:
        self.quorum = quorum
        super().begin(kind, count, gets)

    def declare(self, kind: classic.Kind) -> None:
        super().declare(classic.Kind(None, None, None, None, None, False))
        self.world.vhost.remove_queue(self.queue)
        self.kind = kind._replace(priority_max=None)
        arguments = classic.TO_GRAVE | self.kind.arguments() | self.quorum.arguments()
        self.queue = self.client.declare_with("q", arguments, durable=True)
        self.waiting: list[tuple[int, classic.Entry]] = []
        self.return_number = 0
        self.is_full = False

    # -- the model

    @property
    def is_refusing(self) -> bool:
        """Rule Q-84."""
        return self.kind.overflow == "reject-publish"

    def level_of(self, priority: int | None) -> int:
        """Rule QQ-05."""
        return 4 if priority is None else min(priority, 31)

    def exceeds(self, share: float) -> bool:
        """What waits to be retried counts too."""
        entries = self.ready + [entry for _, entry in self.waiting]
        size_bytes = sum(len(entry.body) for entry in entries)
        limits = [
            (len(entries), self.kind.length_max),
            (size_bytes, self.kind.length_bytes_max),
        ]
        return any(limit is not None and have > limit * share for have, limit in limits)

    def is_over(self, count: int, size_bytes: int) -> bool:
        return self.exceeds(1)

    def refuses(self, entry: classic.Entry) -> bool:
        """Rule Q-85: from the first beyond the limit on, until it is relieved."""
        if self.is_refusing:
            self.is_full = self.exceeds(0.8 if self.is_full else 1)

        return self.is_full

    def publish_one(self, priority: int | None, ttl_ms: int | None) -> None:
        super().publish_one(priority, ttl_ms)
        self.is_full = self.is_full or (self.is_refusing and self.exceeds(1))

    def expire(self) -> None:
        """Rule TTL-10: the head of the returned ones and of each priority."""
        if self.kind.anywhere:
            super().expire()
            return

        is_done = False
        while not is_done:
            is_done = True
            levels: dict[int, classic.Entry] = {}
            for entry in self.ready:
                levels.setdefault(entry.key[0], entry)

            for head in levels.values():
                if head.deadline_ms <= self.now_ms:
                    self.ready.remove(head)
                    self.die(head, "expired")
                    is_done = False

    def hand_out(self, heard: Heard, tag: str, no_ack: bool) -> None:
        """Rule QQ-04."""
        headers = plain_headers(heard.properties)
        returns = self.ready[0].returns or None
        assert headers.get("x-delivery-count") == headers.get("x-acquired-count") == returns
        super().hand_out(heard, tag, no_ack)

    def put_back(self, entry: classic.Entry) -> None:
        """Rule QQ-10."""
        self.return_number += 1
        entry.key = (RETURNED, self.return_number)
        insort(self.ready, entry, key=lambda one: one.key)

    def return_entry(self, entry: classic.Entry, is_failure: bool) -> None:
        """Rules QQ-03, QQ-09."""
        entry.redelivered = True
        entry.returns += 1
        limit = 20 if self.quorum.delivery_limit is None else self.quorum.delivery_limit
        if 0 <= limit < entry.returns:
            self.die(entry, "delivery_limit")
        elif self.quorum.retry_type in ("all", "failed" if is_failure else "returned"):
            delay_ms = min(RETRY_MIN_MS * entry.returns, RETRY_MAX_MS)
            self.waiting.append((self.now_ms + delay_ms, entry))
        else:
            self.put_back(entry)

    # -- what happens

    @precondition(lambda self: self.held)
    @rule(places=classic.PLACES, is_failure=st.booleans())
    def requeue(self, places: list[int], is_failure: bool = False) -> None:
        tags, entries = self.take_held(places)
        self.client.deliveries.give_back(self.client.take(*tags), is_failure)
        for entry in entries:
            self.return_entry(entry, is_failure)

        self.expire()
        self.limit_length()
        self.settle_down()

    @rule(milliseconds=st.sampled_from([1, 10, 31]))
    def wait(self, milliseconds: int) -> None:
        """One by one, since what comes back may go out at once."""
        for _ in range(milliseconds):
            self.world.move(1)
            due = [one for one in self.waiting if one[0] <= self.now_ms]
            self.waiting = [one for one in self.waiting if one[0] > self.now_ms]
            for _, entry in due:
                self.put_back(entry)

            self.expire()
            self.limit_length()
            self.settle_down()

    @precondition(lambda self: len(self.ready) + len(self.waiting) > 2)
    @rule()
    def purge(self) -> None:
        count = len(self.ready) + len(self.waiting)
        assert self.queue.purge() == count
        self.gone += count
        self.ready = []
        self.waiting = []

    # -- what always holds

    @invariant()
    def none_is_lost_or_doubled(self) -> None:
        left = len(self.ready) + len(self.held) + len(self.waiting)
        assert self.queue.publish_count == self.accepted
        assert self.accepted == left + self.gone

    @invariant()
    def the_dead_are_in_their_grave(self) -> None:
        """In any order: of two that die in the same millisecond nobody is the first."""
        epitaphs = [classic.epitaph(self.grave, place) for place in range(len(self.dead))]
        assert sorted(epitaphs) == sorted(self.dead)
        assert self.grave.ready_count == len(self.dead)


TestQuorumQueue = QuorumMachine.TestCase
TestQuorumQueue.settings = settings(max_examples=settings().max_examples // 2)
