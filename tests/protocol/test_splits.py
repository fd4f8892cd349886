"""However a session is cut into reads, the same comes of it.

Only the batching of confirms is up to the reads (rule CF-05): here they are counted.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.scripts import SCRIPTS
from tests.helpers.session import Heard, Session, World, decode_stream

Transcript = tuple[list[Heard], list[tuple[int, str, int]], list[str], dict[str, int]]


def confirmed(heard: list[Heard]) -> list[tuple[int, str, int]]:
    """Each confirm of its own: channel, ack or nack, number."""
    singles: list[tuple[int, str, int]] = []
    last: dict[int, set[int]] = {}
    for one in heard:
        if one.name in ("basic.ack", "basic.nack"):
            tag = one.arguments["delivery_tag"]
            assert isinstance(tag, int)
            answered = last.setdefault(one.channel, set())
            tags = set(range(1, tag + 1)) - answered if one.arguments["multiple"] else {tag}
            assert not tags & answered, "confirmed twice"
            answered |= tags
            singles += [(one.channel, one.name, number) for number in sorted(tags)]

    return sorted(singles)


def transcript(data: bytes, cuts: list[int]) -> Transcript:
    """What a session hears, what became of its socket, and what stays in the queues."""
    world = World()
    session = Session(world)
    session.feed(data, cuts)
    world.wait(60.0)
    assert world.bugs == []
    assert session.link.late_writes == []
    heard = decode_stream(session.link.written)
    rest = [one for one in heard if one.name not in ("basic.ack", "basic.nack")]
    left = {name: int(queue.ready_count) for name, queue in world.vhost.queues.items()}
    return rest, confirmed(heard), session.link.calls, left


WHOLE = {name: transcript(data, []) for name, data in SCRIPTS.items()}


def test_the_sessions_are_worth_cutting() -> None:
    """They reach what they are meant to reach."""
    names = [one.name for one in WHOLE["messaging"][0]]
    assert names[-1] == "connection.close-ok"
    assert names.count("basic.deliver") >= 6
    assert "basic.return" in names
    assert len(WHOLE["messaging"][1]) == 9
    assert [one.name for one in WHOLE["interleaved"][0]].count("basic.deliver") == 2
    assert [one.name for one in WHOLE["frame error"][0]][-1] == "connection.close"
    assert WHOLE["transactions"][3] == {}


@pytest.mark.parametrize("name", SCRIPTS)
def test_octet_by_octet_is_as_good_as_whole(name: str) -> None:
    data = SCRIPTS[name]
    assert transcript(data, list(range(1, len(data)))) == WHOLE[name]


@pytest.mark.parametrize("step", [2, 7, 8, 64, 4_096])
@pytest.mark.parametrize("name", SCRIPTS)
def test_even_pieces_are_as_good_as_whole(name: str, step: int) -> None:
    data = SCRIPTS[name]
    assert transcript(data, list(range(step, len(data), step))) == WHOLE[name]


@given(name=st.sampled_from(sorted(SCRIPTS)), places=st.lists(st.floats(0, 1), max_size=30))
def test_any_pieces_are_as_good_as_whole(name: str, places: list[float]) -> None:
    data = SCRIPTS[name]
    cuts = sorted(int(place * len(data)) for place in places)
    assert transcript(data, cuts) == WHOLE[name]
