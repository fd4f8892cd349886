from __future__ import annotations

import pytest

from broker.core.message import Address, Message
from broker.core.queue.ready import PriorityReady, Ready

ADDRESS = Address("", "q")


def message(position: int, priority: int = 0) -> Message:
    one = Message(ADDRESS, b"", 0, False, priority)
    one.position = position
    return one


def positions(ready: Ready) -> list[int]:
    return [int(one.position) for one in ready.messages()]


def drain(ready: Ready) -> list[int]:
    found: list[int] = []
    while (head := ready.head()) is not None:
        assert ready.pop() is head
        found.append(int(head.position))

    assert ready.pop() is None
    return found


def test_first_in_is_first_out() -> None:
    ready = Ready()
    for position in (1, 2, 3):
        ready.append(message(position))

    assert positions(ready) == [1, 2, 3]
    assert drain(ready) == [1, 2, 3]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_what_comes_back_returns_to_its_place(order: tuple[int, ...]) -> None:
    """Rule A-05."""
    ready = Ready()
    for position in (1, 2, 3, 4):
        ready.append(message(position))

    taken = [ready.pop() for _ in range(3)]
    ready.append(message(5))
    for place in order:
        one = taken[place]
        assert one is not None
        ready.put_back(one)

    assert positions(ready) == [1, 2, 3, 4, 5]
    assert drain(ready) == [1, 2, 3, 4, 5]


def test_levels_are_served_from_the_highest() -> None:
    """Rule Q-90: FIFO inside a level, above the highest counts as the highest, none as 0."""
    ready = PriorityReady(5)
    for position, priority in enumerate([0, 5, 200, 3, -1, 3], start=1):
        ready.append(message(position, priority))

    assert positions(ready) == [2, 3, 4, 6, 1, 5]
    assert drain(ready) == [2, 3, 4, 6, 1, 5]


def test_what_comes_back_keeps_its_level() -> None:
    """Rules Q-90, A-05."""
    ready = PriorityReady(255)
    for position, priority in enumerate([1, 255, 1], start=1):
        ready.append(message(position, priority))

    taken = [ready.pop(), ready.pop()]
    ready.append(message(4, 255))
    for one in taken:
        assert one is not None
        ready.put_back(one)

    assert drain(ready) == [2, 4, 1, 3]


@pytest.mark.parametrize("ready", [Ready(), PriorityReady(3)], ids=["plain", "priority"])
def test_clearing_leaves_nothing(ready: Ready) -> None:
    ready.append(message(2, 1))
    ready.put_back(message(1, 2))
    ready.clear()
    assert ready.head() is None
    assert drain(ready) == []
    ready.append(message(3, 1))
    assert drain(ready) == [3]
