"""Publisher confirms: each number is answered once, in RabbitMQ's batches (rules CF-03..CF-05)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.core import Confirmed, CoreWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTS = st.lists(st.sampled_from(["accept", "accept", "refuse", "hold", "release", "flush"]))


def batches(acks: list[int], nacks: list[int], held: list[int]) -> Iterator[Confirmed]:
    """What is sent for one flush, by the words of rule CF-05.

    Of the numbers ready, those below the smallest that is unanswered, and below any that are
    answered the other way in the same batch, go out as one; the rest singly. One ack by itself is
    sent singly, one nack is not.

    """
    for name, numbers, others in (("ack", acks, nacks), ("nack", nacks, acks)):
        bound = min([*held, *others, numbers[-1] + 1]) if numbers else 0
        together = [number for number in numbers if number < bound]
        if together:
            is_single = name == "ack" and len(numbers) == 1
            yield Confirmed(name, together[-1], not is_single)

        for number in numbers[len(together) :]:
            yield Confirmed(name, number, False)


@given(acts=ACTS)
def test_batches_are_those_of_the_rule(acts: list[str]) -> None:
    client = CoreWorld().client()
    confirms = client.confirm_select()
    last = 0
    acks: list[int] = []
    nacks: list[int] = []
    held: list[int] = []
    for act in [*acts, "flush"]:
        if act == "flush":
            assert client.confirmed() == list(batches(sorted(acks), nacks, held))
            acks, nacks = [], []
        elif act == "release":
            if held:
                released = held[: len(held) // 2 + 1]
                held = held[len(released) :]
                confirms.release(released[-1])
                acks += released
        else:
            last += 1
            if act == "accept":
                confirms.accept()
                acks.append(last)
            elif act == "refuse":
                confirms.refuse()
                nacks.append(last)
            else:
                assert confirms.hold() == last
                held.append(last)

        assert confirms.last_number == last
        assert confirms.unconfirmed == len(acks) + len(nacks) + len(held)


@given(acts=ACTS)
def test_each_number_is_answered_once(acts: list[str]) -> None:
    """A multiple answer counts for all up to its number that have none yet (rule CF-04)."""
    client = CoreWorld().client()
    confirms = client.confirm_select()
    open_numbers: dict[int, str] = {}
    held: list[int] = []
    for act in [*acts, *["release"] * len(acts), "flush"]:
        number = int(confirms.last_number) + 1
        if act == "accept":
            confirms.accept()
            open_numbers[number] = "ack"
        elif act == "refuse":
            confirms.refuse()
            open_numbers[number] = "nack"
        elif act == "hold":
            held.append(int(confirms.hold()))
            open_numbers[number] = "ack"
        elif act == "release" and held:
            confirms.release(held.pop(0))
        elif act == "flush":
            for answer in client.confirmed():
                covered = [answer.number]
                if answer.multiple:
                    covered = [one for one in open_numbers if one <= answer.number]

                for one in covered:
                    assert open_numbers.pop(one) == answer.name
                    assert one not in held

    assert not open_numbers
