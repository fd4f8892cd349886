"""Bytes that nobody should send: no error escapes, every fault ends in a close, and nobody else
notices.

An unexpected error inside the broker is answered with 541 and logged with its traceback: here that
is a failure, whatever the client sees of it.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.core.settings import NodeSettings
from broker.protocol.states import CLOSING, OPENING, RUNNING
from tests.helpers.methods import METHODS, Layout
from tests.helpers.scripts import SCRIPTS
from tests.helpers.session import (
    PROTOCOL_HEADER,
    Session,
    World,
    decode_stream,
    frame,
    handshake,
    header,
    method,
    publish,
)

OPEN: Final = handshake() + method(1, "channel.open") + method(2, "channel.open")
SETUP: Final = (
    method(1, "queue.declare", queue="q")
    + method(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    + publish(1, "q") * 3
)


class Neighbours:
    """A client that consumes and one that publishes, to tell whether they are unharmed."""

    def __init__(self, world: World) -> None:
        self._consumer = world.open(1)
        self._consumer.ask(1, "queue.declare", queue="mine", exclusive=True)
        self._consumer.ask(1, "basic.consume", queue="mine", no_ack=True)
        self._publisher = world.open(1)
        self._publisher.ask(1, "confirm.select")

    def check(self) -> None:
        self._consumer.take_bytes()
        self._publisher.feed(publish(1, "mine", b"alive"))
        [ack] = self._publisher.heard()
        assert ack.name == "basic.ack"
        [delivery] = self._consumer.heard()
        assert (delivery.name, delivery.body) == ("basic.deliver", b"alive")


def play(data: bytes, cuts: list[int], settings: NodeSettings | None = None) -> Session:
    """Feed it all; whatever became of it, the broker is sane and the neighbours are well."""
    world = World(settings)
    neighbours = Neighbours(world)
    session = world.connect()
    session.feed(data, cuts)
    decode_stream(session.link.written)
    neighbours.check()
    state = session.connection.state
    if state in (CLOSING, RUNNING, OPENING):
        assert not session.link.is_closed
    else:
        # Whoever is not known, or at fault, or done, is not kept for longer than that.
        world.wait(40.0)
        assert session.link.is_closed

    session.lose()
    world.wait(40.0)
    assert world.bugs == []
    assert session.link.late_writes == []
    assert world.node.channel_counts == {"guest": 2}
    assert world.node.connection_counts == {"guest": 2}
    assert len(world.node.connections) == 2
    neighbours.check()
    return session


# -- chaos


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_any_octets_from_the_start(data: bytes, cuts: list[int]) -> None:
    play(data, sorted(min(cut, len(data)) for cut in cuts))


@given(st.binary(max_size=300))
def test_any_octets_after_the_header(data: bytes) -> None:
    play(PROTOCOL_HEADER + data, [])


@given(st.binary(max_size=300))
def test_any_octets_on_a_running_connection(data: bytes) -> None:
    play(OPEN + SETUP + data, [])


@given(
    st.sampled_from(sorted(SCRIPTS)),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3), st.integers(0, 3)), max_size=4),
)
def test_sessions_with_octets_changed_added_and_gone(
    name: str, slips: list[tuple[float, bytes, int]]
) -> None:
    data = SCRIPTS[name]
    for place, octets, gone in slips:
        at = int(place * len(data))
        data = data[:at] + octets + data[at + gone :]

    play(data, [])


# -- frames that look right

numbers = st.sampled_from([0, 1, 1, 1, 2, 3, 65_535])
texts = st.one_of(
    st.sampled_from(["", "q", "amq.topic", "amq.rabbitmq.reply-to", "/", "x" * 255, "é\0\n"]),
    st.sampled_from(["amq.gen-x", "amq.direct", "topic", "direct", "headers", "fanout", "guest"]),
    st.text(max_size=8),
).map(lambda text: text.encode()[:255])
raw_texts = st.one_of(texts, texts, texts, st.binary(max_size=8))
fields = st.one_of(
    st.binary(max_size=12).map(lambda raw: b"S" + len(raw).to_bytes(4, "big") + raw),
    st.sampled_from(list(b"tbBsuIiLlfdDSxTFAV?")).flatmap(
        lambda letter: st.binary(max_size=9).map(lambda raw: bytes((letter,)) + raw)
    ),
    st.sampled_from([b"t\x01", b"I\xff\xff\xff\xff", b"l" + b"\x7f" * 8, b"V", b"F\0\0\0\0"]),
)
NAMES: Final = (
    "alternate-exchange k x-dead-letter-exchange x-dead-letter-routing-key x-expires x-match "
    "x-max-length x-max-priority x-message-ttl x-overflow x-priority x-queue-type"
)
names = st.sampled_from([b"", *(name.encode() for name in NAMES.split())])
tables = st.lists(st.tuples(names, fields), max_size=4).map(
    lambda pairs: b"".join(bytes((len(name),)) + name + field for name, field in pairs)
)


@st.composite
def arguments(draw: st.DrawFn, layout: Layout) -> bytes:
    """Arguments as the method has them, with any values; now and then a few octets off."""
    parts: list[bytes] = []
    bits = 0
    for _, kind in layout.arguments:
        if kind == "b":
            bits += 1
            continue

        if bits:
            parts.append(draw(st.binary(min_size=1, max_size=1)))
            bits = 0

        if kind == "s":
            raw = draw(raw_texts)
            parts.append(bytes((len(raw),)) + raw)
        elif kind in "SF":
            raw = draw(tables if kind == "F" else raw_texts)
            parts.append(len(raw).to_bytes(4, "big") + raw)
        else:
            width = {"o": 1, "h": 2, "l": 4, "q": 8}[kind]
            top = (1 << 8 * width) - 1
            value = draw(st.one_of(st.integers(0, 4), st.sampled_from([top, top >> 1])))
            parts.append(value.to_bytes(width, "big"))

    if bits:
        parts.append(draw(st.binary(min_size=1, max_size=1)))

    raw = b"".join(parts)
    off = draw(st.sampled_from([0] * 18 + [-1, 1]))
    return raw[:off] if off < 0 else raw + b"\x00" * off


@st.composite
def method_frames(draw: st.DrawFn) -> bytes:
    name = draw(st.sampled_from(sorted(METHODS)))
    layout = METHODS[name]
    ids = layout.class_id.to_bytes(2, "big") + layout.method_id.to_bytes(2, "big")
    channel = draw(numbers) if not name.startswith("connection") else draw(st.sampled_from([0, 1]))
    return frame(1, channel, ids + draw(arguments(layout)))


content_frames = st.one_of(
    st.builds(header, numbers, st.sampled_from([0, 3, 1 << 40]), st.binary(max_size=6)),
    st.builds(frame, st.sampled_from([2, 3, 3, 8, 4]), numbers, st.binary(max_size=20)),
    st.builds(
        publish,
        st.sampled_from([1, 2]),
        st.sampled_from(["q", "amq.rabbitmq.reply-to", ""]),
        st.binary(max_size=5),
        st.one_of(st.just(b"\x00\x00"), st.binary(min_size=2, max_size=9)),
    ),
)
REOPENED: Final = method(1, "channel.close-ok") + method(1, "channel.open")


@given(st.lists(st.one_of(method_frames(), method_frames(), content_frames), max_size=15))
def test_any_frames_on_a_running_connection(frames: list[bytes]) -> None:
    """Channels that were closed for an error are opened again, to see more of the session."""
    play(OPEN + SETUP + REOPENED.join(frames), [])


@given(st.lists(method_frames(), max_size=15))
def test_any_methods_on_an_open_channel(frames: list[bytes]) -> None:
    session = play(OPEN + SETUP + b"".join(frames), [])
    assert session.link.written.startswith(b"\x01\x00\x00")


@given(st.lists(method_frames(), max_size=4), st.integers(0, 3))
def test_any_methods_in_a_handshake(frames: list[bytes], step: int) -> None:
    steps = [
        PROTOCOL_HEADER,
        method(0, "connection.start-ok", mechanism="PLAIN", response="\0guest\0guest"),
        method(0, "connection.tune-ok", channel_max=9, frame_max=4_096),
        method(0, "connection.open", virtual_host="/"),
    ]
    play(b"".join(steps[: step + 1] + frames + steps[step + 1 :]), [])


# -- known tricks


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x01\x00\x01\xff\xff\xff\xff" * 9, id="largest-frame"),
        pytest.param(frame(1, 1, b"") * 99, id="empty-methods"),
        pytest.param(frame(3, 1, b"") * 99, id="empty-bodies"),
        pytest.param(frame(8, 0, b"") * 9_999, id="heartbeats"),
        pytest.param(method(1, "basic.publish") + header(1, 9) + frame(3, 1, b"") * 9_999, id="0s"),
        pytest.param(
            b"".join(method(channel, "channel.open") for channel in range(3, 4_000)), id="channels"
        ),
        pytest.param(
            method(1, "queue.declare", arguments=b"\x00\x00\xff\xff" + b"\x01aF\x00\x00" * 13_107),
            id="nested-tables",
        ),
        pytest.param(
            method(
                1,
                "queue.declare",
                arguments=(20_000).to_bytes(4, "big")
                + b"\x01kA"
                + b"".join((left * 5).to_bytes(4, "big") + b"A" for left in range(3_999, 0, -1)),
            ),
            id="nested-arrays",
        ),
        pytest.param(method(1, "tx.select") + publish(1, "q") * 2_000, id="uncommitted"),
        pytest.param(method(1, "basic.consume", queue="q") * 999, id="consumers"),
        pytest.param(
            method(1, "basic.ack", delivery_tag=(1 << 64) - 1, multiple=True), id="largest-tag"
        ),
        pytest.param(method(1, "basic.nack", delivery_tag=1 << 63, multiple=True), id="signed-tag"),
        pytest.param(
            (method(1, "queue.declare") + method(1, "channel.close") + method(1, "channel.open"))
            * 300,
            id="channel-churn",
        ),
    ],
)
def test_known_tricks(data: bytes) -> None:
    play(OPEN + SETUP + data, [])


@given(st.integers(0, len(OPEN + SETUP)))
@example(len(OPEN + SETUP))
def test_connections_may_break_anywhere(place: int) -> None:
    play((OPEN + SETUP)[:place], [])


def test_limits_that_are_off_are_no_way_in() -> None:
    """Rule C-43: with everything unlimited there is still an end to a frame."""
    settings = NodeSettings(channel_max=0, frame_max=0)
    unlimited = handshake(channel_max=0, frame_max=0) + method(1, "channel.open")
    play(unlimited + b"\x03\x00\x01\x30\x00\x00\x00", [], settings)
    play(unlimited + b"\x03\x00\x01\x10\x00\x00\x00" + bytes(100), [], settings)
