"""The unacked deliveries of a channel do what a dict would, whatever order and gaps."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from broker.core.message import Address, Message
from broker.core.unacked import SWEEP_MIN, Unacked

ADDRESS = Address("", "q")


def delivery(tag: int) -> Message:
    message = Message(ADDRESS, b"", 0, False, 0)
    message.delivery_tag = tag
    return message


class UnackedMachine(RuleBasedStateMachine):
    """`model` holds what is unacked, `taken` what may still be restored by a rollback."""

    tags = Bundle("tags")

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        self.model: dict[int, Message] = {}
        self.taken: list[Message] = []
        self.last_tag = 0

    @rule(target=tags, gaps=st.lists(st.sampled_from([1, 1, 1, 2, 90]), min_size=1, max_size=100))
    def deliver(self, gaps: list[int]) -> object:
        """Tags grow, with gaps where deliveries without ack came between (rule CO-09)."""
        added: list[int] = []
        for gap in gaps:
            self.last_tag += gap
            message = delivery(self.last_tag)
            self.model[self.last_tag] = message
            self.unacked.add(message)
            added.append(self.last_tag)

        return multiple(*added)

    @rule(tag=consumes(tags))
    def take(self, tag: int) -> None:
        expected = self.model.pop(tag, None)
        assert self.unacked.take(tag) is expected
        if expected is not None:
            self.taken.append(expected)

    @rule(tag=st.integers(-(1 << 63), (1 << 63) - 1))
    def take_any(self, tag: int) -> None:
        """Whatever a client may send (rule A-03)."""
        assert self.unacked.take(tag) is self.model.pop(tag, None)

    @rule(step=st.integers(1, 7), keep=st.integers(0, 3))
    def take_many(self, step: int, keep: int) -> None:
        """Out of order until holes are the majority: that is when they are swept."""
        for place, tag in enumerate(reversed(list(self.model))):
            if place % step > keep:
                assert self.unacked.take(tag) is self.model.pop(tag)

    @rule(tag=tags)
    def take_until(self, tag: int) -> None:
        """Rule A-01: the tag itself must be unacked, those below need not be."""
        found = self.unacked.take_until(tag)
        if tag not in self.model:
            assert found is None
            return

        expected = [self.model.pop(one) for one in list(self.model) if one <= tag]
        assert found == expected
        self.taken += expected

    @rule()
    def take_all(self) -> None:
        assert self.unacked.take_all() == list(self.model.values())
        self.taken += self.model.values()
        self.model.clear()

    @rule()
    def restore(self) -> None:
        """Rule TX-06."""
        self.unacked.restore(self.taken)
        self.model.update((message.delivery_tag, message) for message in self.taken)
        self.model = dict(sorted(self.model.items()))
        self.taken = []

    @rule(tag=st.integers(0, 2000), count=st.integers(1, 70))
    def part(self, tag: int, count: int) -> None:
        """Where somebody only looks, a few at a time."""
        expected = [message for at, message in self.model.items() if at >= tag][:count]
        assert self.unacked.part(tag, count) == expected

    @invariant()
    def count_and_oldest_are_right(self) -> None:
        assert self.unacked.count == len(self.model)
        assert self.unacked.oldest() is next(iter(self.model.values()), None)

    def teardown(self) -> None:
        for tag, message in self.model.items():
            assert self.unacked.take(tag) is message


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = settings(max_examples=settings().max_examples // 4)


def test_memory_follows_what_is_unacked() -> None:
    """One delivery that is never settled does not keep the places of all after it."""
    unacked = Unacked()
    unacked.add(delivery(1))
    for tag in range(2, 10_000):
        unacked.add(delivery(tag))
        assert unacked.take(tag) is not None

    assert unacked.count == 1
    assert len(unacked._entries) < 4 * SWEEP_MIN


def test_an_orderly_consumer_costs_no_memory() -> None:
    unacked = Unacked()
    for tag in range(1, 10_000):
        unacked.add(delivery(tag))
        if tag > 10:
            assert unacked.take(tag - 10) is not None

    assert len(unacked._entries) < 4 * SWEEP_MIN
