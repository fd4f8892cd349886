"""The straight way of a publish is the plain way, only faster: same bytes out, same queues.

A publish that lies whole in what was read is taken in one go (broker/protocol/publish_run.py).
Cut in the middle of each frame, the same bytes take the general way (broker/protocol/content.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.wire.tables import Field, encode_table
from tests.helpers.session import (
    HEARTBEAT,
    Session,
    World,
    body,
    decode_stream,
    frame,
    handshake,
    header,
    method,
    publish,
)

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue

FRAME_MAX = 4_096
PAYLOAD_MAX = FRAME_MAX - 8

# -- what is published

keys = st.sampled_from(["q", "q", "q", "p", "limited", "nowhere", "a.b", "", "é" * 100])
exchanges = st.sampled_from(["", "", "", "amq.topic", "amq.headers", "amq.fanout", "quiet"])
bodies = st.one_of(
    st.sampled_from([b"", b"hare", b"hare", b"h" * 300, b"x" * (PAYLOAD_MAX - 1)]),
    st.sampled_from([PAYLOAD_MAX, FRAME_MAX, FRAME_MAX + 1, 3 * PAYLOAD_MAX + 1]).map(bytes),
    st.binary(max_size=40),
)
short_texts = st.one_of(st.just(b""), st.just(b"text"), st.binary(max_size=20)).map(
    lambda raw: bytes((len(raw),)) + raw
)
key_lists = st.lists(st.sampled_from(["q", "p", "nowhere"]), max_size=3).map(
    lambda names: Field("A", [Field("S", name) for name in names])
)
tables = st.fixed_dictionaries(
    {},
    optional={
        "CC": st.one_of(key_lists, key_lists, key_lists, st.just(Field("I", 1))),
        "BCC": key_lists,
        "match": st.sampled_from([Field("I", 1), Field("S", "one"), Field("V", None)]),
        "x-death": st.just(Field("A", [])),
        "other": st.sampled_from([Field("x", b"\xff"), Field("d", 1.5), Field("t", True)]),
    },
).map(encode_table)

PROPERTIES = {
    15: short_texts,
    14: short_texts,
    13: tables,
    12: st.sampled_from([b"\x01", b"\x02", b"\x00", b"\xff"]),
    11: st.binary(min_size=1, max_size=1),
    10: short_texts,
    9: st.one_of(short_texts, st.just(b"\x05reply")),
    8: st.sampled_from([b"\x0510000", b"\x05+5000", b"\x0510000", b"\x010", b"\x0210", b"\x03bad"]),
    7: short_texts,
    6: st.binary(min_size=8, max_size=8),
    5: short_texts,
    4: st.sampled_from([b"\x05guest", b"\x05guest", b"\x05guest", b"\x05other"]),
    3: short_texts,
    2: short_texts,
}
"""Bit -> encoded values, a few of which are refused (rules P-07, P-08, P-10)."""


@st.composite
def properties(draw: st.DrawFn) -> bytes:
    bits = draw(st.one_of(st.just([]), st.lists(st.sampled_from(sorted(PROPERTIES)), max_size=5)))
    chosen = sorted(set(bits), reverse=True)
    flags = sum(1 << bit for bit in chosen)
    return flags.to_bytes(2, "big") + b"".join(draw(PROPERTIES[bit]) for bit in chosen)


@st.composite
def contents(draw: st.DrawFn) -> list[bytes]:
    """The frames of one publish on channel 1 or 2."""
    channel = draw(st.sampled_from([1, 1, 2]))
    data = draw(bodies)
    start = method(
        channel,
        "basic.publish",
        exchange=draw(exchanges),
        routing_key=draw(keys),
        ticket=draw(st.sampled_from([0, 0, 9])),
        mandatory=draw(st.booleans()),
    )
    size = draw(st.sampled_from([PAYLOAD_MAX, PAYLOAD_MAX, FRAME_MAX, 100, 3]))
    if len(data) // size > 200:
        size = PAYLOAD_MAX

    parts = [data[at : at + size] for at in range(0, len(data), size)]
    head = header(channel, len(data), draw(properties()))
    return [start, head, *(frame(3, channel, part) for part in parts)]


faults = st.sampled_from(
    [
        [publish(1, exchange="nowhere")],
        [publish(2, "q", immediate=True)],
        [publish(1, "q", exchange="amq.rabbitmq.trace")],
        [method(1, "basic.publish"), header(1, 3), body(1, b"hare")],
        [method(1, "basic.publish"), method(1, "basic.publish")],
        [method(1, "basic.publish"), body(1, b"hare")],
        [method(1, "basic.publish"), frame(2, 1, b"\x00\x3c\x00\x01" + b"\x00" * 10)],
        [method(1, "basic.publish"), frame(2, 1, b"\x00\x32\x00\x00" + b"\x00" * 10)],
        [method(1, "basic.publish"), frame(2, 1, b"\x00\x3c\x00\x00" + b"\x00" * 8)],
        [method(1, "basic.publish"), frame(2, 1, b"\x00\x3c\x00\x00" + b"\xff" * 10)],
        [method(1, "basic.publish"), header(1, 4, b"\x00\x00x"), body(1, b"hare")],
        [method(1, "basic.publish"), header(1, 4), frame(3, 1, b"hare", b"\x00")],
        [method(1, "basic.publish"), header(1, 4), body(2, b"hare")],
        [method(1, "basic.publish"), header(1, FRAME_MAX + 1), body(1, bytes(FRAME_MAX + 1))],
        [frame(1, 1, b"\x00\x3c\x00\x28\x00\x00\x05"), header(1, 0)],
        [frame(1, 1, b"\x00\x3c\x00\x28\x00\x00\x00\x00\x00\x00"), header(1, 0)],
        [frame(1, 1, b"\x00\x3c\x00\x28\x00\x00\x00\x00"), header(1, 0)],
        [header(1, 0)],
        [body(2, b"stray")],
        [method(3, "basic.publish"), header(3, 0)],
    ]
)

others = st.sampled_from(
    [
        [HEARTBEAT],
        [method(1, "basic.qos", prefetch_count=3)],
        [method(1, "confirm.select")],
        [method(2, "confirm.select", nowait=True)],
        [method(2, "tx.select")],
        [method(2, "tx.commit")],
        [method(2, "tx.rollback")],
        [method(1, "queue.bind", queue="p", exchange="amq.topic", routing_key="a.*")],
        [method(1, "queue.delete", queue="p")],
        [method(2, "queue.declare", queue="p")],
        [method(2, "basic.consume", queue="q", no_ack=True)],
        [method(1, "basic.get", queue="q", no_ack=True)],
        [method(1, "channel.close"), method(1, "channel.open")],
        [method(1, "channel.close-ok"), method(1, "channel.open")],
    ]
)


@st.composite
def rounds(draw: st.DrawFn) -> list[bytes]:
    """Publishes that are alike but for their addresses, which come again and again."""
    _, *content = draw(contents())
    channel = int.from_bytes(content[0][1:3], "big")
    addresses = draw(st.lists(st.tuples(exchanges, keys), min_size=1, max_size=3))
    starts = [
        method(channel, "basic.publish", exchange=exchange, routing_key=key)
        for exchange, key in addresses
    ]
    order = draw(st.lists(st.sampled_from(starts), min_size=2, max_size=12))
    return [one for start in order for one in (start, *content)]


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Frames of several messages; messages of the two channels may be interleaved."""
    repeats = st.sampled_from([1, 1, 2, 5])
    common = st.tuples(contents(), repeats).map(lambda pair: pair[0] * pair[1])
    items = draw(st.lists(st.one_of(common, common, rounds(), others), max_size=12))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), draw(faults))

    if not draw(st.booleans()):
        return [one for item in items for one in item]

    # Each channel keeps its order; which of them goes on next is drawn.
    lanes: dict[bytes, list[bytes]] = {}
    for item in items:
        for one in item:
            lanes.setdefault(one[1:3], []).append(one)

    woven = []
    while lanes:
        lane = draw(st.sampled_from(sorted(lanes)))
        woven.append(lanes[lane].pop(0))
        if not lanes[lane]:
            del lanes[lane]

    return woven


# -- both ways


def opened() -> Session:
    session = World().open(1, 2, greeting=handshake(frame_max=FRAME_MAX))
    session.send(1, "queue.declare", queue="q")
    session.send(1, "queue.declare", queue="p", arguments={"x-message-ttl": 7_000})
    session.send(1, "queue.declare", queue="limited", arguments={"x-max-length": 2})
    session.send(1, "exchange.declare", exchange="quiet", type="direct")
    session.send(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#.b")
    session.send(1, "queue.bind", queue="p", exchange="amq.headers", arguments={"match": 1})
    session.send(1, "queue.bind", queue="q", exchange="amq.fanout")
    session.send(1, "queue.bind", queue="p", exchange="amq.fanout")
    session.take_bytes()
    return session


def contents_of(queue: Queue) -> list[tuple[object, ...]]:
    """What lies in a queue, to the last detail."""
    found: list[tuple[object, ...]] = []
    while (message := queue.take(True)) is not None:
        found.append(
            (
                message.content,
                message.body_size,
                message.address.exchange,
                message.address.routing_key,
                message.address.cc_keys,
                message.address.bcc_keys,
                message.position,
                message.deadline_ms,
                message.priority,
                message.is_persistent,
                message.redelivered,
            )
        )

    return found


def outcome(data: bytes, cuts: list[int]) -> list[object]:
    """Everything that may come of some bytes, all of them in one cycle of the broker."""
    session = opened()
    start = 0
    for cut in [*cuts, len(data)]:
        session.connection.receive_data(data[start:cut])
        start = cut

    world = session.world
    world.settle()
    assert world.bugs == []
    written = session.take_bytes()
    decode_stream(written)
    exchanges = [
        (one.name, one.publish_in, one.publish_out) for one in world.vhost.exchanges.values()
    ]
    queues = [
        (name, queue.publish_count, queue.ready_count, queue.ready_bytes, contents_of(queue))
        for name, queue in sorted(world.vhost.queues.items())
    ]
    return [written, session.link.calls, session.connection.state, exchanges, queues]


def middles(frames: list[bytes]) -> list[int]:
    """A cut within each frame: no publish ever lies whole in what was read."""
    places = []
    position = 0
    for one in frames:
        places.append(position + len(one) // 2)
        position += len(one)

    return places


@given(frames=streams(), places=st.lists(st.floats(0, 1), max_size=4))
@example(frames=[publish(1, "q")] * 3, places=[0.1])
@example(frames=[publish(1, "q") + publish(1, exchange="nowhere") + publish(1, "q")], places=[])
def test_both_ways_are_one(frames: list[bytes], places: list[float]) -> None:
    data = b"".join(frames)
    plain = outcome(data, middles(frames))
    assert outcome(data, []) == plain
    assert outcome(data, sorted(int(place * len(data)) for place in places)) == plain


GOOD = publish(1, "q")
METHOD = method(1, "basic.publish", routing_key="q")
ARGUMENTS = METHOD[7:-1]
LARGE = b"x" * (FRAME_MAX + 1)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(GOOD, id="good"),
        pytest.param(publish(1, "q", b"HARE"), id="another-body"),
        pytest.param(publish(1, "q", b"hares"), id="a-longer-body"),
        pytest.param(publish(1, "q", b""), id="no-body"),
        pytest.param(publish(1, "p"), id="another-key"),
        pytest.param(publish(1, "q", b"hare", b"\x10\x00\x02"), id="other-properties"),
        pytest.param(publish(1, "q", b"hare", b"\x00\x80\x02id"), id="an-id"),
        pytest.param(publish(2, "q"), id="another-channel"),
        pytest.param(GOOD[:-1] + b"\x00", id="last-end-octet"),
        pytest.param(publish(1, "q", b"")[:-1] + b"\x00", id="end-octet-without-a-body"),
        pytest.param(METHOD[:-1] + b"\x00" + GOOD[len(METHOD) :], id="method-end-octet"),
        pytest.param(
            METHOD + header(1, 4)[:-1] + b"\x00" + body(1, b"hare"), id="header-end-octet"
        ),
        pytest.param(METHOD + header(2, 4) + body(1, b"hare"), id="header-of-another-channel"),
        pytest.param(METHOD + header(1, 4) + body(2, b"hare"), id="body-of-another-channel"),
        pytest.param(METHOD + header(1, 5) + body(1, b"hare"), id="body-too-short"),
        pytest.param(METHOD + header(1, 3) + body(1, b"hare"), id="body-too-long"),
        pytest.param(METHOD + header(1, 1 << 32) + body(1, b"hare"), id="body-size-of-33-bits"),
        pytest.param(METHOD + header(1, 1 << 63) + body(1, b"hare"), id="body-size-of-64-bits"),
        pytest.param(publish(1, "q", LARGE[:-1]), id="largest-body-frame"),
        pytest.param(publish(1, "q", LARGE), id="body-frame-too-large"),
        pytest.param(frame(1, 1, ARGUMENTS + b"\x00") + GOOD[len(METHOD) :], id="left-over"),
        pytest.param(frame(1, 1, ARGUMENTS[:-1]) + GOOD[len(METHOD) :], id="no-bits"),
        pytest.param(frame(1, 1, ARGUMENTS[:-2]) + GOOD[len(METHOD) :], id="cut-key"),
        pytest.param(frame(1, 1, ARGUMENTS[:6]) + GOOD[len(METHOD) :], id="no-exchange"),
        pytest.param(METHOD + frame(2, 1, header(1, 4)[7:-1] + b"x") + body(1, b"hare"), id="541"),
        pytest.param(METHOD + frame(2, 1, header(1, 4)[7:-2]) + body(1, b"hare"), id="half-flags"),
        pytest.param(METHOD + METHOD + GOOD, id="two-methods"),
        pytest.param(GOOD[:-5], id="cut-body"),
        pytest.param(GOOD[:-12], id="no-body-frame"),
    ],
)
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(GOOD, id="the-same"),
        pytest.param(publish(1, "q", b""), id="no-body"),
        pytest.param(publish(1, "p", LARGE[:300]), id="another-address"),
        pytest.param(GOOD + publish(1, "p"), id="the-same-and-another-address"),
        pytest.param(publish(1, "p") + GOOD + publish(1, "p"), id="two-addresses-in-turn"),
    ],
)
def test_both_ways_are_one_at_the_edges(first: bytes, last: bytes) -> None:
    data = first + last + GOOD + method(1, "basic.get", queue="q")
    plain = outcome(data, list(range(1, len(data))))
    assert outcome(data, []) == plain
    assert outcome(data, [len(first) + len(last) - 3]) == plain


@st.composite
def slips(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Frames as they should be, and the same with an octet changed, added or gone.

    Most slips fall on what a frame is made of: type, channel, size, ids, weight, body size, flags,
    and the end octet.
    """
    frames = draw(streams())
    again = draw(contents())
    frames = [*frames, *again, *again, publish(1, "q")]
    chosen = draw(st.integers(max(0, len(frames) - 8), len(frames) - 1))
    one = frames[chosen]
    places = st.one_of(st.just(len(one) - 1), st.integers(0, 21), st.integers(0, len(one)))
    at = min(draw(places), len(one) - 1)
    kind = draw(st.sampled_from(["change", "change", "add", "drop"]))
    octet = b"" if kind == "drop" else draw(st.binary(min_size=1, max_size=1))
    wrong = one[:at] + octet + one[at + (kind != "add") :]
    return frames, [*frames[:chosen], wrong, *frames[chosen + 1 :]]


@given(slips())
def test_both_ways_are_one_with_a_slip_in_the_bytes(
    slip: tuple[list[bytes], list[bytes]],
) -> None:
    frames, wrong = slip
    data = b"".join(wrong)
    plain = outcome(data, list(range(1, len(data))) if len(data) < 4_000 else middles(frames))
    assert outcome(data, []) == plain


def remembered(cuts: list[int]) -> bytes:
    """What the straight way keeps of the last publish it took."""
    session = opened()
    data = publish(1, "q")
    start = 0
    for cut in [*cuts, len(data)]:
        session.connection.receive_data(data[start:cut])
        start = cut

    return session.connection.channels[1].runs._prefix


def test_the_two_ways_are_two() -> None:
    """Otherwise the other tests would compare a thing with itself."""
    frames = [publish(1, "q")[:29], publish(1, "q")[29:]]
    assert remembered([]) != b""
    assert remembered(middles(frames)) == b""
    assert remembered(list(range(1, len(publish(1, "q"))))) == b""
