"""Messages by due time on disk are a sorted list (rule E-115)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.exchange.due import Due, DueMessages, without_lost_messages
from broker.store.api import OFFSET_BITS


def all_of(messages: DueMessages) -> list[Due]:
    found = []
    while messages.count:
        found += messages.take(1 << 60)

    return found


def filled(dues: list[int]) -> tuple[DueMessages, list[Due]]:
    """Those with these due times, in this order of arrival; and the same in order."""
    messages = DueMessages()
    added = [Due(due, at + 1, (at % 7 << OFFSET_BITS) + at) for at, due in enumerate(dues)]
    for one in added:
        messages.add(one)

    return messages, sorted(added)


# Small and large, in order or not; enough for several chunks.
due_times = st.one_of(
    st.lists(st.integers(0, 50), max_size=900),
    st.lists(st.integers(0, 50), max_size=900).map(sorted),
    st.integers(300, 2_000).flatmap(
        lambda count: st.randoms(use_true_random=False).map(
            lambda random: [random.randrange(1 << 40) for _ in range(count)]
        )
    ),
)


@given(dues=due_times)
def test_they_come_by_due_time_then_in_the_order_of_arrival(dues: list[int]) -> None:
    messages, expected = filled(dues)
    assert messages.count == len(expected)
    if expected:
        assert messages.first() == expected[0][:2]

    assert all_of(messages) == expected


@given(dues=due_times, until=st.integers(0, 60))
def test_only_what_is_due_is_taken(dues: list[int], until: int) -> None:
    messages, expected = filled(dues)
    taken: list[Due] = []
    while messages.count and messages.first()[0] <= until:
        taken += messages.take(until)

    due = [one for one in expected if one.due_ms <= until]
    assert taken == due
    messages.add(Due(until, len(dues) + 1, 3))
    expected = sorted([*expected[len(due) :], Due(until, len(dues) + 1, 3)])
    assert all_of(messages) == expected


@given(dues=due_times, chosen=st.sets(st.integers(0, 900)))
def test_what_is_settled_goes_and_what_moves_is_elsewhere(
    dues: list[int], chosen: set[int]
) -> None:
    messages, expected = filled(dues)
    places = messages.places_in({0, 3})
    assert sorted(places) == sorted(
        one.position for one in expected if one.position >> OFFSET_BITS in (0, 3)
    )
    gone = {one.position for one in expected if one.number in chosen}
    messages.settle_all(gone)
    expected = [one for one in expected if one.position not in gone]
    moved = {place: place + (9 << OFFSET_BITS) for place in places}
    found = messages.move(moved)
    assert sorted(found) == sorted(place for place in places if place not in gone)
    assert all_of(messages) == [
        one._replace(position=moved.get(one.position, one.position)) for one in expected
    ]


@given(dues=due_times)
def test_a_checkpoint_tells_all_and_can_be_told_without_what_is_lost(dues: list[int]) -> None:
    messages, expected = filled(dues)
    records: list[list[bytes]] = []
    messages.append_state(records, 7)
    again = DueMessages()
    kept = DueMessages()
    lost = 0
    greatest = 0
    for pieces in records:
        body = b"".join(pieces)
        assert body[1:5] == b"\7\0\0\0"
        greatest = max(greatest, again.take_index(body, 5, len(body)))
        left, count = without_lost_messages(body, lambda position: position % 2 == 0)
        lost += count
        kept.take_index(left, 5, len(left))

    assert greatest == max([one.number for one in expected], default=0)
    assert all_of(again) == expected
    assert all_of(kept) == [one for one in expected if one.position % 2 == 0]
    assert lost == len([one for one in expected if one.position % 2])
