"""Frames, and contents made of them: rules F-01..F-19, C-63, T-03..T-05, T-11."""

from __future__ import annotations

import pytest

from broker.core.settings import NodeSettings
from tests.helpers.session import (
    HEARTBEAT,
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    assert_dropped,
    body,
    frame,
    handshake,
    header,
    method,
    publish,
)

PUBLISH = method(1, "basic.publish", routing_key="q")


def with_queue() -> Session:
    """A running connection with channel 1, and queue q."""
    session = World().open(1)
    session.ask(1, "queue.declare", queue="q")
    return session


# -- frames that are none

UNKNOWN_FRAMES = [
    pytest.param(0, b"", "type 0, all octets = <<>>", id="type-0"),
    pytest.param(4, b"x", 'type 4, all octets = <<"x">>', id="type-4"),
    pytest.param(1, b"abc", 'type 1, all octets = <<"abc">>', id="short-method"),
    pytest.param(2, b"\x00" * 11, "type 2, all octets = <<" + ",".join("0" * 11) + ">>", id="11"),
    pytest.param(8, b"x", 'type 8, all octets = <<"x">>', id="heartbeat-with-payload"),
    pytest.param(9, b"a" * 16, 'type 9, all octets = <<"aaaaaaaaaaaaaaaa">>', id="16-octets"),
    pytest.param(9, b"a" * 17, 'type 9, first 16 octets = <<"aaaaaaaaaaaaaaaa">>', id="17-octets"),
    pytest.param(9, b"\x7f", "type 9, all octets = <<127>>", id="not-printable"),
    pytest.param(9, b'"\\\t\n', 'type 9, all octets = <<"\\"\\\\\\t\\n">>', id="escapes"),
]


@pytest.mark.parametrize("channel", [0, 1, 7])
@pytest.mark.parametrize(("frame_type", "payload", "text"), UNKNOWN_FRAMES)
def test_a_frame_of_no_known_form_is_501(
    frame_type: int, payload: bytes, text: str, channel: int
) -> None:
    """Rules F-05, F-06, C-63: on whatever channel, and the close waits for its answer."""
    session = World().open(1)
    session.feed(frame(frame_type, channel, payload))
    assert_connection_closing(session, 501, f"FRAME_ERROR - {text}: unknown_frame")
    session.world.wait(3.0)
    assert not session.link.is_closed
    session.send(0, "connection.close-ok")
    assert_dropped(session)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(
            frame(1, 1, b"\x00\x3c\x00\x14", b"\x01"),
            "type 1, all octets = <<0,60,0,20>>: {invalid_frame_end_marker,1}",
            id="end-octet",
        ),
        pytest.param(
            frame(3, 0, b"a" * 17, b"\x00"),
            'type 3, first 16 octets = <<"aaaaaaaaaaaaaaaa">>: {invalid_frame_end_marker,0}',
            id="end-octet-17",
        ),
        pytest.param(
            frame(3, 1, b"a" * 131_073),
            "type 3, all octets = <<>>: {frame_too_large,131073,131064}",
            id="too-large",
        ),
        pytest.param(
            frame(9, 9, b"a" * 131_073)[:7],
            "type 9, all octets = <<>>: {frame_too_large,131073,131064}",
            id="too-large-announced",
        ),
        pytest.param(
            b"HTTP/1.1 ",
            "type 72, all octets = <<>>: {frame_too_large,1345270062,131064}",
            id="another-protocol",
        ),
    ],
)
def test_after_bytes_that_are_no_frame_nothing_is_heard(data: bytes, text: str) -> None:
    """Rules F-02, F-04: the socket closes three seconds later whatever the client says."""
    session = World().open(1)
    session.feed(data)
    assert_connection_closing(session, 501, f"FRAME_ERROR - {text}")
    session.send(0, "connection.close-ok")
    session.send(0, "connection.close")
    assert_dropped(session, 3.0)


@pytest.mark.parametrize("frame_max", [4_096, 131_072])
def test_a_payload_may_be_as_large_as_frame_max(frame_max: int) -> None:
    """Rule F-02: eight octets more than it should."""
    session = World().open(1, greeting=handshake(frame_max=frame_max))
    session.ask(1, "queue.declare", queue="q")
    session.feed(PUBLISH + header(1, frame_max) + frame(3, 1, b"a" * frame_max))
    assert session.ask(1, "basic.get", queue="q").body == b"a" * frame_max
    session.feed(PUBLISH + header(1, frame_max + 1) + frame(3, 1, b"a" * (frame_max + 1)))
    size, limit = frame_max + 1, frame_max - 8
    text = f"FRAME_ERROR - type 3, all octets = <<>>: {{frame_too_large,{size},{limit}}}"
    assert_connection_closing(session, 501, text)


def test_the_bound_of_an_unlimited_frame_is_named_as_it_is() -> None:
    """Rule F-02: with frame_max 0 there is still a largest message."""
    world = World(NodeSettings(frame_max=0))
    session = world.open(1, greeting=handshake(frame_max=0))
    session.feed(b"\x03\x00\x01\xff\xff\xff\xff")
    text = "type 3, all octets = <<>>: {frame_too_large,4294967295,536870904}"
    assert_connection_closing(session, 501, f"FRAME_ERROR - {text}")


@pytest.mark.parametrize("frame_max", [4_096, 8_192, 131_072])
def test_what_is_sent_keeps_to_the_frame_max_of_its_receiver(frame_max: int) -> None:
    """Rule F-03."""
    world = World()
    publisher = world.open(1)
    publisher.ask(1, "queue.declare", queue="q")
    data = bytes(range(256)) * 600
    publisher.feed(publish(1, "q", data))
    session = world.open(1, greeting=handshake(frame_max=frame_max))
    session.send(1, "basic.get", queue="q", no_ack=True)
    written = session.take_bytes()
    sizes = []
    position = 0
    while position < len(written):
        sizes.append(int.from_bytes(written[position + 3 : position + 7], "big"))
        position += sizes[-1] + 8

    assert max(sizes) == min(frame_max - 8, len(data))
    assert sum(sizes[2:]) == len(data)


def test_an_empty_body_has_no_body_frame() -> None:
    """Rules F-03, F-16: and it is complete with its header."""
    session = with_queue()
    session.feed(PUBLISH + header(1, 0))
    session.send(1, "basic.get", queue="q", no_ack=True)
    assert session.take_bytes().endswith(header(1, 0))


# -- methods that do not decode


def method_frame(class_id: int, method_id: int, arguments: bytes, channel: int = 1) -> bytes:
    payload = class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big") + arguments
    return frame(1, channel, payload)


DECLARE = b"\x00\x00\x01q\x00"
UNDECODABLE = [
    pytest.param(50, 10, b"", "", id="nothing"),
    pytest.param(50, 10, b"\x00\x00\x05q", "0,0,5,113", id="cut-name"),
    pytest.param(50, 10, DECLARE, "0,0,1,113,0", id="no-table"),
    pytest.param(50, 10, DECLARE + b"\0\0\0\x09\x01az", "0,0,1,113,0,0,0,0,9,1,97,122", id="cut"),
    pytest.param(50, 10, DECLARE + b"\0\0\0\0x", "0,0,1,113,0,0,0,0,0,120", id="left-over"),
    pytest.param(60, 40, b"\x00\x00\x02", "0,0,2", id="publish-cut"),
    pytest.param(60, 40, b"\x00\x00\x00\x00\x00x", "0,0,0,0,0,120", id="publish-left-over"),
    pytest.param(60, 80, b"\x00", "0", id="ack-cut"),
    pytest.param(60, 80, b"\x00" * 10, ",".join("0" * 10), id="ack-left-over"),
    pytest.param(20, 40, b"\x00", "0", id="close-cut"),
    pytest.param(90, 10, b"tx", "116,120", id="no-arguments-but-some"),
]


@pytest.mark.parametrize("channel", [1, 7])
@pytest.mark.parametrize(("class_id", "method_id", "arguments", "shown"), UNDECODABLE)
def test_arguments_that_do_not_decode_are_501(
    class_id: int, method_id: int, arguments: bytes, shown: str, channel: int
) -> None:
    """Rule F-08: as decimal numbers, and before the missing channel is noticed (rule CH-03)."""
    session = World().open(1)
    session.feed(method_frame(class_id, method_id, arguments, channel))
    text = f"FRAME_ERROR - cannot decode <<{shown}>>"
    assert_connection_closing(session, 501, text, (class_id, method_id))


def test_the_text_of_long_arguments_is_cut() -> None:
    """Rules F-08, T-03: 252 octets and three points."""
    session = World().open(1)
    session.feed(method_frame(60, 80, b"\x07" * 300))
    text = ("FRAME_ERROR - cannot decode <<" + "7," * 200)[:252] + "..."
    assert_connection_closing(session, 501, text, (60, 80))


def test_a_table_with_undecodable_entries_ends_the_connection() -> None:
    """Rule F-08: RabbitMQ drops it; here the client learns why."""
    session = World().open(1)
    session.feed(method_frame(50, 10, DECLARE + b"\0\0\0\x03\x01az"))
    last = session.heard()[-1]
    assert last.name == "connection.close"
    assert last.arguments["reply_code"] in (501, 502)
    assert session.world.bugs == []


@pytest.mark.parametrize("channel", [0, 1, 7])
def test_an_unknown_method_ends_the_connection(channel: int) -> None:
    """Rule F-07: RabbitMQ drops it; here the client learns why."""
    session = World().open(1)
    session.feed(method_frame(60, 99, b"", channel))
    last = session.heard()[-1]
    assert last.name == "connection.close"
    assert (last.arguments["class_id"], last.arguments["method_id"]) == (60, 99)
    assert last.arguments["reply_code"] == (504 if channel == 0 else 503)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xc3", b"a\xed\xa0\x80", b"\xc0\x80"])
def test_names_must_be_utf_8(raw: bytes) -> None:
    """Rule F-09."""
    session = World().open(1)
    session.send(1, "queue.declare", queue=raw)
    assert_connection_closing(session, 501, "FRAME_ERROR - Malformed UTF-8 in shortstr")


def test_addresses_of_publishes_need_not_be_utf_8() -> None:
    """Rule F-09: they are delivered as they came."""
    session = with_queue()
    session.ask(1, "queue.bind", queue="q", exchange="amq.fanout")
    session.feed(
        method(1, "basic.publish", exchange="amq.fanout", routing_key=b"\xff\xfe") + header(1, 0)
    )
    answer = session.ask(1, "basic.get", queue="q")
    assert answer.arguments["routing_key"] == b"\xff\xfe".decode("utf-8", "surrogateescape")


# -- frames out of place

EXPECTED_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got "
NO_HEADER = EXPECTED_HEADER + "non content header frame instead"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"


def raw_header(class_id: int, weight: int, size: int = 4) -> bytes:
    head = class_id.to_bytes(2, "big") + weight.to_bytes(2, "big") + size.to_bytes(8, "big")
    return frame(2, 1, head + b"\x00\x00")


@pytest.mark.parametrize(
    ("data", "text", "index"),
    [
        pytest.param(header(1, 0), NO_METHOD, (0, 0), id="header-alone"),
        pytest.param(body(1, b"x"), NO_METHOD, (0, 0), id="body-alone"),
        pytest.param(header(7, 0), NO_METHOD, (0, 0), id="header-unopened"),
        pytest.param(body(7, b"x"), NO_METHOD, (0, 0), id="body-unopened"),
        pytest.param(publish(1, "q") + body(1, b"x"), NO_METHOD, (0, 0), id="body-after"),
        pytest.param(PUBLISH + header(1, 0) + body(1, b"x"), NO_METHOD, (0, 0), id="after-empty"),
        pytest.param(PUBLISH + PUBLISH, NO_HEADER, (60, 40), id="method-for-header"),
        pytest.param(PUBLISH + body(1, b"hare"), NO_HEADER, (60, 40), id="body-for-header"),
        pytest.param(PUBLISH + raw_header(60, 1), NO_HEADER, (60, 40), id="weight"),
        pytest.param(
            PUBLISH + raw_header(50, 0),
            EXPECTED_HEADER + "one for class 50 instead",
            (60, 40),
            id="class",
        ),
        pytest.param(
            PUBLISH + raw_header(0x0C22, 0),
            EXPECTED_HEADER + "one for class 3106 instead",
            (60, 40),
            id="class-3106",
        ),
        pytest.param(PUBLISH + header(1, 4) + PUBLISH, NO_BODY, (60, 40), id="method-for-body"),
        pytest.param(PUBLISH + header(1, 4) * 2, NO_BODY, (60, 40), id="header-for-body"),
        pytest.param(
            PUBLISH + header(1, 4) + body(1, b"ha") + method(1, "channel.close"),
            NO_BODY,
            (60, 40),
            id="close-for-body",
        ),
        pytest.param(
            method(1, "basic.deliver") + method(1, "basic.qos"), NO_HEADER, (60, 60), id="deliver"
        ),
        pytest.param(
            frame(2, 0, b"a" * 12),
            'UNEXPECTED_FRAME - type 2, all octets = <<"aaaaaaaaaaaa">>',
            (0, 0),
            id="header-on-0",
        ),
        pytest.param(
            body(0, b"x" * 17),
            'UNEXPECTED_FRAME - type 3, first 16 octets = <<"xxxxxxxxxxxxxxxx">>',
            (0, 0),
            id="body-on-0",
        ),
        pytest.param(
            frame(8, 1, b""),
            "UNEXPECTED_FRAME - type 8, all octets = <<>>",
            (0, 0),
            id="heartbeat-on-a-channel",
        ),
    ],
)
def test_frames_out_of_place_are_505(data: bytes, text: str, index: tuple[int, int]) -> None:
    """Rules F-10..F-13, F-19, C-63."""
    session = with_queue()
    session.feed(data)
    assert_connection_closing(session, 505, text, index)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(
            PUBLISH + header(1, 3) + body(1, b"hare"),
            "content body frame exceeds remaining content size",
            id="one-frame",
        ),
        pytest.param(
            PUBLISH + header(1, 3) + body(1, b"ha") + body(1, b"re"),
            "content body frame exceeds remaining content size",
            id="second-frame",
        ),
        pytest.param(
            PUBLISH + header(1, 536_870_913),
            "content body size 536870913 exceeds maximum allowed size 536870912",
            id="size",
        ),
        pytest.param(
            PUBLISH + header(1, (1 << 64) - 1),
            "content body size 18446744073709551615 exceeds maximum allowed size 536870912",
            id="largest-size",
        ),
    ],
)
def test_bodies_that_are_too_large_are_501(data: bytes, text: str) -> None:
    """Rules F-14, F-15."""
    session = with_queue()
    session.feed(data)
    assert_connection_closing(session, 501, f"FRAME_ERROR - {text}", (60, 40))


# -- contents


@pytest.mark.parametrize("sizes", [[4], [1, 1, 1, 1], [0, 3, 0, 0, 1], [1] * 4, [2, 2]])
def test_a_body_may_come_in_any_number_of_frames(sizes: list[int]) -> None:
    """Rule F-17: empty frames are frames too."""
    session = with_queue()
    session.feed(PUBLISH + header(1, 4))
    position = 0
    for size in sizes:
        assert session.take_bytes() == b""
        session.feed(frame(3, 1, b"hare"[position : position + size]))
        position += size

    assert session.ask(1, "basic.get", queue="q").body == b"hare"


def test_a_body_may_come_in_a_thousand_frames() -> None:
    """Rule F-17: what goes out is what came in, in fewer frames."""
    session = with_queue()
    data = bytes(place % 251 for place in range(1_000))
    session.feed(PUBLISH + header(1, 1_000) + body(1, data, 1))
    assert session.ask(1, "basic.get", queue="q").body == data


def test_contents_of_channels_may_be_interleaved() -> None:
    """Rule F-17: each channel has its own sequence, and heartbeats come between."""
    session = World().open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    first, second = b"first hare", b"second leveret"
    one = [PUBLISH, header(1, len(first)), *(frame(3, 1, bytes((x,))) for x in first)]
    two = [
        method(2, "basic.publish", routing_key="q"),
        header(2, len(second)),
        *(frame(3, 2, bytes((x,))) for x in second),
    ]
    for place in range(max(len(one), len(two))):
        session.feed(b"".join(one[place : place + 1]) + HEARTBEAT)
        session.feed(b"".join(two[place : place + 1]))

    session.feed(publish(1, "q", b"third"))
    bodies = [session.ask(1, "basic.get", queue="q", no_ack=True).body for _ in range(3)]
    assert bodies == [first, second, b"third"]


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(b"", id="no-flags"),
        pytest.param(b"\x00", id="half-the-flags"),
        pytest.param(b"\x80\x00", id="cut"),
        pytest.param(b"\x80\x00\x05a", id="cut-text"),
        pytest.param(b"\x00\x00x", id="left-over"),
        pytest.param(b"\x10\x00\x02\x00", id="left-over-behind-a-property"),
        pytest.param(b"\x20\x00\x00\x00\x00\x03\x01az", id="unknown-letter"),
        pytest.param(b"\x20\x00\x00\x00\x00\x07\x01af\x7f\xc0\x00\x00", id="nan"),
        pytest.param(b"\x20\x00\x00\x00\x00\x0b\x01ad\x7f\xf0" + b"\x00" * 6, id="infinity"),
    ],
)
@pytest.mark.parametrize("key", ["q", "nowhere"])
def test_properties_that_do_not_decode_are_541(properties: bytes, key: str) -> None:
    """Rules F-06, F-18, T-04: also when the message reaches no queue."""
    session = with_queue()
    session.feed(publish(1, key, b"hare", properties))
    assert_connection_closing(session, 541, "INTERNAL_ERROR")
    assert session.world.bugs == []


def test_properties_of_a_transaction_are_checked_when_they_come() -> None:
    """Rules F-18, TX-03."""
    session = with_queue()
    session.ask(1, "tx.select")
    session.feed(publish(1, "q", b"hare", b"\x00\x00x"))
    assert_connection_closing(session, 541, "INTERNAL_ERROR")


def test_invalid_utf_8_in_properties_is_passed_on() -> None:
    """Rule F-18."""
    session = with_queue()
    properties = b"\x00\x80\x02\xff\xfe"
    session.feed(publish(1, "q", b"hare", properties))
    assert session.ask(1, "basic.get", queue="q").properties == properties


# -- how errors are told


def test_a_channel_error_leaves_the_rest_of_the_read_to_be_served() -> None:
    """Rules T-01, P-12: publishes behind the faulty one are discarded, other channels go on."""
    session = World().open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    session.feed(
        publish(1, "q", b"before")
        + publish(1, exchange="nowhere")
        + publish(1, "q", b"after")
        + publish(2, "q", b"beside")
        + method(2, "queue.purge", queue="q")
    )
    close, purged = session.heard()
    assert (close.channel, close.name) == (1, "channel.close")
    assert (purged.channel, purged.arguments) == (2, {"message_count": 2})


def test_a_reply_text_is_cut_to_255_octets() -> None:
    """Rules T-02, T-03."""
    session = World().open(1)
    session.send(1, "queue.declare", queue="q" * 255, passive=True)
    text = ("NOT_FOUND - no queue '" + "q" * 255)[:252] + "..."
    assert_channel_closed(session, 1, 404, text, (50, 10))


@pytest.mark.parametrize("letters", ["é", "ω", "兎", "🐇"])
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_a_reply_text_is_cut_between_characters(letters: str, shift: int) -> None:
    """Rule T-03."""
    name = "x" * shift + letters * ((255 - shift) // len(letters.encode()))
    session = World().open(1)
    session.send(1, "exchange.declare", exchange=name, passive=True)
    text = str(session.heard()[-1].arguments["reply_text"])
    assert text.endswith("...")
    assert 255 - 3 <= len(text.encode()) <= 255
    assert text[:-3] in f"NOT_FOUND - no exchange '{name}' in vhost '/'"
