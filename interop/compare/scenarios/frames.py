"""Section F: frames that are wrong, out of order, or of unusual content."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed, encode_properties, encode_short, encode_table
from interop.compare.methods import encode_method

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
PUBLISH: Final = encode_method("basic.publish", {"routing_key": "nowhere", "mandatory": True})


def header(size: int, class_id: int = 60, weight: int = 0, properties: bytes = b"\0\0") -> bytes:
    return struct.pack(">HHQ", class_id, weight, size) + properties


# Frames after the method frame of a publish: type and payload.
SEQUENCES: Final[dict[str, tuple[str, list[tuple[int, bytes]]]]] = {
    "header-without-publish": ("F-10", [(HEADER, header(1))]),
    "body-without-publish": ("F-10", [(BODY, b"x")]),
    "method-instead-of-header": ("F-11, S-014", [(METHOD, PUBLISH), (METHOD, PUBLISH)]),
    "body-instead-of-header": ("F-11", [(METHOD, PUBLISH), (BODY, b"x")]),
    "header-of-another-class": (
        "F-12, S-014", [(METHOD, PUBLISH), (HEADER, header(1, class_id=0x0C22))]),
    "header-with-a-weight": ("F-12", [(METHOD, PUBLISH), (HEADER, header(1, weight=1))]),
    "method-instead-of-body": (
        "F-13, S-014", [(METHOD, PUBLISH), (HEADER, header(1)), (METHOD, PUBLISH)]),
    "header-instead-of-body": (
        "F-13", [(METHOD, PUBLISH), (HEADER, header(1)), (HEADER, header(1))]),
    "body-after-a-whole-message": (
        "F-14, F-10", [(METHOD, PUBLISH), (HEADER, header(1)), (BODY, b"x"), (BODY, b"y")]),
    "body-after-an-empty-message": (
        "F-16, F-10", [(METHOD, PUBLISH), (HEADER, header(0)), (BODY, b"y")]),
    "too-much-body": ("F-14", [(METHOD, PUBLISH), (HEADER, header(1)), (BODY, b"xyz")]),
    "body-in-pieces": (
        "F-03", [(METHOD, PUBLISH), (HEADER, header(3)), (BODY, b"x"), (BODY, b""), (BODY, b"yz")]),
    "enormous-body-announced": ("F-15", [(METHOD, PUBLISH), (HEADER, header(536870913))]),
    "header-cut-before-the-flags": ("F-06, F-18", [(METHOD, PUBLISH), (HEADER, header(1)[:12])]),
    "header-cut": ("F-06", [(METHOD, PUBLISH), (HEADER, header(1)[:11])]),
    "heartbeat-on-a-channel": ("C-63, S-014", [(HEARTBEAT, b"")]),
    "heartbeat-with-content": ("C-63, F-06", [(HEARTBEAT, b"x")]),
    "frame-type-0": ("F-06, S-014", [(0, b"")]),
    "frame-type-4": ("F-06", [(4, b"payload of more than sixteen bytes")]),
    "frame-type-255": ("F-06, F-05", [(255, b"\x01\x02\xff")]),
    "method-frame-of-3-bytes": ("F-06", [(METHOD, b"\0\x3c\0")]),
    "empty-method-frame": ("F-06", [(METHOD, b"")]),
    "unknown-class": ("F-07", [(METHOD, b"\0\x63\0\x0a")]),
    "unknown-method": ("F-07", [(METHOD, b"\0\x3c\0\x63")]),
}  # fmt: skip


def sequence(frames: list[tuple[int, bytes]], session: Session) -> None:
    link = session.connect()
    link.channel()
    for kind, payload in frames:
        link.send_frame(kind, 1, payload)

    link.channels[1].sync()


for case, (rules, frames) in SEQUENCES.items():
    add(f"F/{case}", rules, partial(sequence, frames))


@scenario("F/frames-of-channel-zero", "F-19")
def channel_zero(session: Session) -> None:
    for kind, payload in ((HEADER, header(1)), (BODY, b"x"), (BODY, b"x" * 17)):
        link = session.connect()
        link.send_frame(kind, 0, payload)
        link.await_method("connection.close")


@scenario("F/unknown-frame-on-other-channels", "F-06, F-10")
def unopened(session: Session) -> None:
    for kind, number, payload in ((9, 0, b"x"), (9, 7, b"x"), (BODY, 7, b"x"), (HEADER, 7, b"")):
        link = session.connect()
        link.send_frame(kind, number, payload)
        link.await_method("connection.close")


ENDS: Final = {
    "empty": b"",
    "short": b"abc",
    "sixteen": b"0123456789abcdef",
    "longer": b"0123456789abcdefg",
    "unprintable": b"\x00\x01\x02",
}


def wrong_end(payload: bytes, session: Session) -> None:
    link = session.connect()
    link.is_answering = False
    link.channel()
    link.send_frame(BODY, 1, payload, end=b"\xcd")
    link.await_method("connection.close")
    link.await_end()


for case, content in ENDS.items():
    add(f"F/wrong-end-octet-{case}", "F-04, F-05, T-11", partial(wrong_end, content), is_slow=True)


@scenario("F/frame-too-large", "F-02, S-015", is_slow=True)
def too_large(session: Session) -> None:
    link = session.connect(frame_max=8192)
    link.channel()
    link.send_frame(BODY, 1, bytes(8193))
    link.await_method("connection.close")
    link.await_end()


@scenario("F/frame-with-slack", "F-02")
def slack(session: Session) -> None:
    link = session.connect(frame_max=8192)
    channel = link.channel()
    queue = session.queue()
    channel.send("basic.publish", routing_key=queue)
    link.send_frame(HEADER, 1, header(8192))
    link.send_frame(BODY, 1, bytes(8192))
    channel.call("basic.get", queue=queue, no_ack=True)


CUT: Final = {
    "queue-declare-cut": encode_method("queue.declare", {"queue": "abc"})[:-5],
    "queue-declare-with-more": encode_method("queue.declare", {"queue": "abc"}) + b"more",
    "basic-ack-cut": encode_method("basic.ack", {"delivery_tag": 1})[:-1],
    "basic-publish-cut": PUBLISH[:-3],
    "tx-select-with-more": encode_method("tx.select", {}) + b"\0",
    "table-longer-than-the-frame": encode_method("queue.declare", {"queue": "abc"})[:-4]
    + b"\0\0\0\x09abc",
    "malformed-utf-8": encode_method("queue.declare", {"queue": b"\xff\xfe"}),
    "surrogate-in-utf-8": encode_method("queue.declare", {"queue": b"\xed\xa0\x80",
                                                          "passive": True}),
    "unknown-letter-in-a-table": encode_method(
        "queue.declare", {"queue": "abc", "arguments": b"\x01kZ\0\0"}
    ),
    "cut-value-in-a-table": encode_method(
        "queue.declare", {"queue": "abc", "arguments": b"\x01kI\0\0"}
    ),
    "cut-key-in-a-table": encode_method("queue.declare", {"queue": "abc", "arguments": b"\x09k"}),
}  # fmt: skip


def cut(payload: bytes, session: Session) -> None:
    link = session.connect()
    link.channel()
    link.send_frame(METHOD, 1, payload)
    link.channels[1].sync()


for case, payload in CUT.items():
    add(f"F/arguments-{case}", "F-08, F-09", partial(cut, payload))


@scenario("F/arguments-cut-on-an-unopened-channel", "F-08")
def cut_unopened(session: Session) -> None:
    link = session.connect()
    link.send_frame(METHOD, 3, encode_method("queue.declare", {"queue": "abc"})[:-5])
    link.await_method("connection.close")


@scenario("F/arguments-cut-on-channel-zero", "F-08")
def cut_channel_zero(session: Session) -> None:
    link = session.connect()
    link.send_frame(METHOD, 0, encode_method("connection.close", {})[:-2])
    link.await_method("connection.close")


ONE_HEADER: Final = encode_properties({"headers": {"k": "v"}})

PROPERTIES: Final[dict[str, bytes]] = {
    "cut": ONE_HEADER[:-1],
    "left-over": ONE_HEADER + b"x",
    "left-over-without-properties": b"\0\0x",
    "unknown-letter": b"\x20\0" + encode_table(b"\x01kZ"),
    "flag-bit-1": b"\0\x02",
    "flag-bit-0": b"\0\x01\0\0",
    "flag-bit-0-without-more": b"\0\x01",
    "nan": encode_properties({"headers": {"k": Typed("d", float("nan"))}}),
    "infinity": encode_properties({"headers": {"k": Typed("f", float("inf"))}}),
    "short-string-cut": b"\x80\0\x05abc",
    "table-of-wrong-length": b"\x20\0\0\0\0\x09" + encode_short("k") + b"t\x01",
    "boolean-of-2": b"\x20\0" + encode_table(b"\x01kt\x02"),
    "decimal-of-a-negative-number": b"\x20\0" + encode_table(b"\x01kD\x02\xff\xff\xff\xfe"),
}


def properties(raw: bytes, session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.send("basic.publish", routing_key=queue)
    channel.send_content(b"x", raw)
    channel.sync()
    if channel.is_usable:
        channel.call("basic.get", queue=queue, no_ack=True)


for case, raw in PROPERTIES.items():
    add(f"F/properties-{case}", "F-18, X-05", partial(properties, raw))


@scenario("F/properties-of-an-unroutable-message", "F-18")
def properties_unroutable(session: Session) -> None:
    channel = session.channel()
    channel.send("basic.publish", routing_key="nowhere")
    channel.send_content(b"x", ONE_HEADER[:-1])
    channel.sync()


@scenario("F/frames-of-channels-interleaved", "F-17")
def interleaved(session: Session) -> None:
    link = session.connect()
    one, two = link.channel(), link.channel()
    for channel in (one, two):
        channel.send("basic.publish", routing_key="nowhere", mandatory=True)

    for channel in (two, one):
        link.send_frame(HEADER, channel.number, header(4))

    for part in (b"ab", b"cd"):
        link.send_frame(BODY, one.number, part)
        link.send_frame(BODY, two.number, part.upper())

    one.expect("basic.return")
    two.expect("basic.return")


@scenario("F/body-for-a-smaller-frame-size", "F-03")
def smaller_frames(session: Session) -> None:
    wide, narrow = session.connect(), session.connect(frame_max=8192)
    queue = session.queue()
    publishing = wide.channel()
    publishing.publish("", queue, b"x" * 20000)
    publishing.sync()
    narrow.channel().call("basic.get", queue=queue, no_ack=True)


@scenario("F/one-byte-at-a-time", "F-01, F-17")
def byte_by_byte(session: Session) -> None:
    link = session.connect()
    channel = link.channel()
    payload = encode_method("basic.publish", {"routing_key": "nowhere", "mandatory": True})
    frames = struct.pack(">BHI", METHOD, 1, len(payload)) + payload + b"\xce"
    content = header(2)
    frames += struct.pack(">BHI", HEADER, 1, len(content)) + content + b"\xce"
    frames += struct.pack(">BHI", BODY, 1, 2) + b"ok\xce"
    for byte in frames:
        link.send_bytes(bytes([byte]))
        link.flush()

    channel.expect("basic.return")
