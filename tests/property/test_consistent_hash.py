"""The consistent hash exchange: keys are spread by weight and move only when they must.

Rules E-122 and E-123.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.topology import make_exchange, make_queue

if TYPE_CHECKING:
    from broker.core.binding import Destination
    from broker.core.exchange.base import Exchange

KEYS = [f"key-{number}" for number in range(300)]

weights = st.integers(1, 20)
steps = st.lists(st.tuples(st.booleans(), weights, st.integers(0, 100)), max_size=12)


def owners(exchange: Exchange) -> dict[str, Destination | None]:
    """Who gets each key."""
    found: dict[str, Destination | None] = {}
    for key in KEYS:
        matched = exchange.match([key], None)
        assert len(matched) <= 1
        found[key] = matched[0] if matched else None

    return found


class Changes:
    """An exchange and what is bound to it, in order."""

    def __init__(self) -> None:
        self.exchange = make_exchange("x-consistent-hash")
        self.bound: list[tuple[Destination, str]] = []
        self.made = 0

    def add(self, weight: int) -> Destination:
        self.made += 1
        queue = make_queue(f"q{self.made}")
        self.exchange.add_binding(queue, str(weight), {})
        self.bound.append((queue, str(weight)))
        return queue

    def remove(self, place: int) -> Destination:
        queue, weight = self.bound.pop(place % len(self.bound))
        self.exchange.remove_binding(queue, weight, {})
        return queue

    @property
    def weight(self) -> int:
        return sum(int(weight) for _, weight in self.bound)


@settings(max_examples=60)
@given(first=st.lists(weights, min_size=1, max_size=8), changes=steps)
def test_only_keys_of_what_came_or_went_move(
    first: list[int], changes: list[tuple[bool, int, int]]
) -> None:
    """Unless so much went that the buckets are laid out anew."""
    state = Changes()
    for weight in first:
        state.add(weight)

    peak = state.weight
    before = owners(state.exchange)
    for is_added, weight, place in changes:
        if is_added or len(state.bound) == 1:
            came = state.add(weight)
            # An upper bound of the buckets there have been: vacant ones may be used again.
            peak += weight
            after = owners(state.exchange)
            moved = {key for key in KEYS if after[key] is not before[key]}
            assert all(after[key] is came for key in moved)
        else:
            went = state.remove(place)
            after = owners(state.exchange)
            moved = {key for key in KEYS if after[key] is not before[key]}
            if state.weight * 4 >= peak:
                assert all(before[key] is went for key in moved)

            assert went not in after.values()

        before = after


@settings(max_examples=40)
@given(first=st.lists(weights, min_size=2, max_size=8), place=st.integers(0, 100))
def test_a_queue_that_comes_back_gets_its_keys_back(first: list[int], place: int) -> None:
    state = Changes()
    for weight in first:
        state.add(weight)

    before = owners(state.exchange)
    lost, key = state.bound[place % len(state.bound)]
    if (state.weight - int(key)) * 4 < state.weight:
        return

    state.remove(place)
    came = state.add(int(key))
    after = owners(state.exchange)
    assert all(after[key] is (came if before[key] is lost else before[key]) for key in KEYS)


@settings(max_examples=40)
@given(first=st.lists(weights, max_size=8), changes=steps)
def test_every_key_has_an_owner_while_there_is_one(
    first: list[int], changes: list[tuple[bool, int, int]]
) -> None:
    """Rule E-124 says what is the case otherwise."""
    state = Changes()
    for weight in first:
        state.add(weight)

    for is_added, weight, place in changes:
        if is_added or not state.bound:
            state.add(weight)
        else:
            state.remove(place)

        queues: set[Destination | None] = {queue for queue, _ in state.bound}
        found = set(owners(state.exchange).values())
        assert found <= (queues or {None})


@pytest.mark.parametrize("given_weights", [(1, 1), (1, 2, 3), (1, 10), (100, 300), (1,) * 10])
def test_keys_are_spread_by_weight(given_weights: tuple[int, ...]) -> None:
    """Within five standard deviations of a fair share."""
    state = Changes()
    queues = [state.add(weight) for weight in given_weights]
    count = 5_000
    got = dict.fromkeys(queues, 0)
    for number in range(count):
        owner = state.exchange.match([str(number)], None)[0]
        got[owner] += 1

    for queue, weight in zip(queues, given_weights, strict=True):
        share = weight / state.weight
        deviation = (count * share * (1 - share)) ** 0.5
        assert abs(got[queue] - count * share) < 5 * deviation


def test_ten_thousand_heavy_queues_are_routed_to_and_removed_quickly() -> None:
    """Nothing grows with weights, and no step looks at all bindings."""
    state = Changes()
    for _ in range(10_000):
        state.add(10_000)

    found = owners(state.exchange)
    assert len(set(found.values())) > 250
    for _ in range(9_999):
        state.remove(-1)

    assert set(owners(state.exchange).values()) == {state.bound[0][0]}
