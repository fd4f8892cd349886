"""Section P: basic.publish, its checks, and the properties of messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed, encode_properties

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

ALL_KINDS: Final[dict[str, object]] = {
    "I": -5, "S": "text", "D": Typed("D", (2, 314)), "T": Typed("T", 1000), "F": {"in": {"er": 1}},
    "b": Typed("b", -1), "B": Typed("B", 200), "d": 1.5, "f": Typed("f", 0.5), "l": Typed("l", -7),
    "L": Typed("L", 7), "s": Typed("s", -300), "u": Typed("u", 300), "i": Typed("i", 3000000000),
    "t": True, "x": Typed("x", b"\x00\xff"), "V": None, "A": [1, "a", [], {}],
    "S-not-utf-8": b"\xff\xfe", "empty-F": {}, "empty-A": [], "empty-S": "",
}  # fmt: skip

PROPERTIES: Final[dict[str, object]] = {
    "content_type": "text/plain", "content_encoding": "utf-8", "headers": {"k": "v"},
    "delivery_mode": 2, "priority": 9, "correlation_id": "corr", "reply_to": "somewhere",
    "expiration": "60000", "message_id": "id-1", "timestamp": 1000, "type": "kind",
    "user_id": "guest", "app_id": "compare", "cluster_id": "cluster",
}  # fmt: skip

EMPTY_ONES: Final[dict[str, object]] = {
    "content_type": "", "content_encoding": "", "headers": {}, "priority": 0, "correlation_id": "",
    "reply_to": "", "message_id": "", "timestamp": 0, "type": "", "app_id": "", "cluster_id": "",
}  # fmt: skip


def round_trip(properties: dict[str, object], session: Session) -> None:
    """Publish to a queue; what is got, or why it was refused."""
    queue = session.queue()
    channel = session.channel()
    channel.send("basic.publish", routing_key=queue)
    channel.send_content(b"body", encode_properties(properties))
    channel.sync()
    session.channel().call("basic.get", queue=queue, no_ack=True)


ROUND_TRIPS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "all-properties": ("P-30, P-35", PROPERTIES),
    "empty-properties": ("P-30, X-04", EMPTY_ONES),
    "no-properties": ("P-30", {}),
    "all-kinds-of-headers": ("F-20, S-098", {"headers": ALL_KINDS}),
    "duplicate-header": ("F-21", {"headers": [("k", 1), ("k", 2)]}),
    "header-names-of-any-content": ("P-30", {"headers": {"": 1, "\u00e9": 2, "a b": 3}}),
    "properties-that-are-not-utf-8": ("F-18", {"correlation_id": b"\xff", "message_id": b"\xe9"}),
    "timestamp-of-64-bits": ("P-33", {"timestamp": 2**63 - 1}),
    "delivery-mode-1": ("P-31", {"delivery_mode": 1}),
    "delivery-mode-0": ("P-31", {"delivery_mode": 0}),
    "delivery-mode-3": ("P-31", {"delivery_mode": 3}),
    "delivery-mode-255": ("P-31", {"delivery_mode": 255}),
    "priority-255": ("P-32", {"priority": 255}),
    "user-id-of-another": ("P-10, S-082", {"user_id": "somebody"}),
    "user-id-that-is-empty": ("P-10", {"user_id": ""}),
    "cc-that-is-no-array": ("P-08, S-081", {"headers": {"CC": 0}}),
    "cc-that-is-text": ("P-08", {"headers": {"CC": "k"}}),
    "bcc-that-is-no-array": ("P-08", {"headers": {"BCC": True}}),
    "cc-of-other-things": ("P-40", {"headers": {"CC": [1, None, {}]}}),
    "bcc-alone": ("P-41", {"headers": {"BCC": ["k"]}}),
    "bcc-and-more": ("P-41", {"headers": {"a": 1, "BCC": ["k"], "z": 2}}),
    "headers-of-brokers": ("DL-09", {"headers": {"x-death": "mine", "x-delivery-count": 5}}),
}

EXPIRATIONS: Final = (
    "0", "100000", "0070000", "+50000", "315360000000", "315360000001", "-10", "", "foobar",
    "10000foobar", " 5000", "5000 ", "5000.5", "1e5", "99999999999999999999", "\u0665", "0x10",
    "-0", "+", "-", "5000-", "5_000",
)  # fmt: skip


def expirations(session: Session) -> None:
    for number, expiration in enumerate(EXPIRATIONS):
        channel = session.channel()
        queue = session.queue(f"q{number:02}", channel)
        channel.publish("", queue, b"body", expiration=expiration)
        channel.sync()
        session.channel().call("basic.get", queue=queue, no_ack=True)


for case, (rules, properties) in ROUND_TRIPS.items():
    add(f"P/{case}", rules, partial(round_trip, properties))

add("P/expiration", "P-07, P-34, S-083, T-15", expirations)


@scenario("P/immediate", "P-01, S-080")
def immediate(session: Session) -> None:
    session.channel().publish("", "nowhere", immediate=True)


@scenario("P/immediate-comes-first", "P-01, CH-18")
def immediate_first(session: Session) -> None:
    session.channel().publish("no-such-exchange", "nowhere", immediate=True, expiration="x")


@scenario("P/missing-exchange", "P-04, P-11, P-12, S-020, T-05")
def missing_exchange(session: Session) -> None:
    channel = session.channel()
    queue = session.queue()
    channel.publish("no-such-exchange", "k")
    channel.publish("", queue)
    channel.send("basic.qos", prefetch_count=1)
    channel.expect("channel.close")
    session.quiet("the channel is closed")
    session.channel().call("basic.get", queue=queue)


@scenario("P/order-of-the-checks", "P-11, CH-18")
def order_of_checks(session: Session) -> None:
    wrong: list[tuple[str, dict[str, object]]] = [
        ("reply_to", {"reply_to": "amq.rabbitmq.reply-to"}),
        ("expiration", {"expiration": "foo"}),
        ("headers", {"headers": {"CC": 5}}),
        ("user_id", {"user_id": "somebody"}),
    ]
    given: dict[str, object] = {}
    for name, more in reversed(wrong):
        given |= more
        channel = session.channel()
        channel.send("basic.publish", routing_key="nowhere", mandatory=True)
        channel.send_content(name.encode(), encode_properties(given))
        channel.sync()


@scenario("P/body-of-a-megabyte", "P-02, F-03")
def megabyte(session: Session) -> None:
    channel = session.channel()
    channel.publish("", "nowhere", bytes(1 << 20), mandatory=True)
    channel.sync()


@scenario("P/unroutable", "P-20, P-21, S-080, T-06")
def unroutable(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", "nowhere", b"silently dropped")
    headers = {"CC": ["nor-there"], "BCC": ["neither"]}
    channel.publish("", "nowhere", b"returned", mandatory=True, headers=headers, priority=3)
    channel.publish("", queue, b"routed", mandatory=True)
    channel.publish("amq.fanout", "k", b"", mandatory=True)
    channel.sync()


@scenario("P/returns-come-before-confirms", "P-21, P-24, CF-06")
def returns_and_confirms(session: Session) -> None:
    channel = session.channel()
    channel.has_raw_confirms = True
    channel.call("confirm.select")
    for number in range(2):
        channel.publish("", "nowhere", b"%d" % number, mandatory=True)
        channel.expect("basic.ack")


@scenario("P/returned-body-of-several-frames", "P-21, F-03")
def large_return(session: Session) -> None:
    link = session.connect(frame_max=8192)
    channel = link.channel()
    channel.publish("", "nowhere", b"x" * 20000, mandatory=True)
    channel.sync()


@scenario("P/cc-and-bcc", "P-40, P-41, P-42, E-11, S-081")
def cc_and_bcc(session: Session) -> None:
    queues = [session.queue(f"q{number}") for number in range(4)]
    channel = session.channel()
    headers = {"CC": [queues[1], queues[1], queues[0]], "BCC": [queues[2]], "other": 1}
    channel.publish("", queues[0], headers=headers)
    channel.publish("", "nowhere", mandatory=True, headers={"CC": [queues[3]]})
    channel.publish("", "nowhere", mandatory=True, headers={"BCC": [queues[3]]})
    channel.sync()
    for queue in queues:
        for _ in range(3):
            channel.call("basic.get", queue=queue, no_ack=True)


@scenario("P/exchange-and-key-that-are-not-utf-8", "F-09")
def not_utf_8(session: Session) -> None:
    channel = session.channel()
    queue = session.queue()
    exchange = session.exchange("fanout")
    session.bind(queue, exchange)
    channel.publish(exchange, b"\xff\xe9")
    channel.call("basic.get", queue=queue, no_ack=True)


@scenario("P/bodies", "F-03, F-16")
def bodies(session: Session) -> None:
    link = session.connect(frame_max=8192)
    channel = link.channel()
    queue = session.queue()
    for size in (0, 1, 8184, 8185, 20000):
        channel.publish("", queue, b"x" * size)
        channel.call("basic.get", queue=queue, no_ack=True)


@scenario("P/one-copy-in-each-queue", "P-25, E-70")
def copies(session: Session) -> None:
    exchange = session.exchange("fanout")
    queues = [session.queue(f"q{number}") for number in range(3)]
    for queue in queues:
        session.bind(queue, exchange)

    channel = session.channel()
    channel.publish(exchange, "k", message_id="m")
    for queue in queues:
        channel.call("basic.get", queue=queue)

    channel.send("basic.reject", delivery_tag=1, requeue=True)
    channel.sync()
    for queue in queues:
        session.channel().call("basic.get", queue=queue)
