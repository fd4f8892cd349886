"""Section ST: streams, what is declared and refused, and where reading begins."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.queue_arguments import declare_each

if TYPE_CHECKING:
    from interop.compare.client import Channel
    from interop.compare.session import Session

__all__ = ["STREAM", "read", "stream", "write", "written"]

STREAM: Final[dict[str, object]] = {"x-queue-type": "stream"}
FIRST: Final[dict[str, object]] = {"x-stream-offset": "first"}


def stream(session: Session, suffix: str = "q", **more: object) -> str:
    """Declare a stream; returns its name."""
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return session.queue(suffix, arguments=STREAM | given)


def write(session: Session, queue: str, *bodies: str, **given: object) -> None:
    """Append messages one at a time, so that RabbitMQ has each in a chunk of its own.

    They have a delivery mode, since 4.3 delivers one whether or not there was any (rule ST-05).
    """
    properties: dict[str, Any] = {"delivery_mode": 1} | given
    link = session.connect()
    link.is_recording = False
    channel = link.channel()
    channel.call("confirm.select")
    for body in bodies:
        channel.publish("", queue, body.encode(), **properties)
        channel.confirms(1)

    link.call("connection.close", reply_code=200)
    link.end()


def written(session: Session, count: int, suffix: str = "q", **more: object) -> str:
    """Declare a stream with the messages ``0``, ``1`` and so on in it; returns its name."""
    queue = stream(session, suffix, **more)
    write(session, queue, *map(str, range(count)))
    return queue


def read(
    session: Session,
    queue: str,
    arguments: dict[str, object] = FIRST,
    *,
    count: int = 0,
    prefetch: int = 10,
    channel: Channel | None = None,
) -> Channel:
    """Consume from a stream and wait for that many deliveries; returns the channel."""
    channel = channel or session.channel()
    channel.call("basic.qos", prefetch_count=prefetch)
    channel.call("basic.consume", queue=queue, arguments=arguments)
    channel.expect("basic.deliver", count)
    return channel


# -- declaring

VALUES: Final[dict[str, list[object]]] = {
    "x-max-age": ["1Y", "2M", "3D", "4h", "5m", "6s", "7d", "0h", "1w", "h", "", "5", "-1h", " 1h",
        "1.5h", "1h ", 5, True, None],
    "x-max-length-bytes": [0, 20_000_000, -1, "1"],
    "x-stream-max-segment-size-bytes": [0, 100, Typed("l", 3_000_000_000),
        Typed("l", 3_000_000_001), -1, "5"],
    "x-stream-filter-size-bytes": [15, 16, 255, 256, -1, "16"],
    "x-initial-cluster-size": [1, 0, -1, "1"],
    "x-queue-leader-locator": ["client-local", "balanced", "random", "least-leaders", "foo"],
    "x-unheard-of": ["anything"],
}  # fmt: skip

for argument, values in VALUES.items():
    tables = [STREAM | {argument: value} for value in values]
    add(f"ST/values-of-{argument}", "Q-22, Q-25, Q-27", partial(declare_each, tables))

OF_OTHERS: Final[dict[str, object]] = {
    "x-single-active-consumer": True,
    "x-message-ttl": 1000,
    "x-expires": 60000,
    "x-max-length": 10,
    "x-overflow": "drop-head",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "k",
    "x-dead-letter-strategy": "at-most-once",
    "x-max-priority": 5,
    "x-delivery-limit": 5,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-max-in-memory-length": 5,
    "x-consumer-timeout": 60000,
}

for argument, value in OF_OTHERS.items():
    add(
        f"ST/argument-of-other-types-{argument}",
        "ST-11, Q-23",
        partial(declare_each, [STREAM | {argument: value}]),
    )

FLAGS: Final[dict[str, dict[str, object]]] = {
    "exclusive": {"durable": True, "exclusive": True},
    "auto-delete": {"durable": True, "auto_delete": True},
    "not-durable": {},
    "everything": {"exclusive": True, "auto_delete": True},
}


def declare_with(flags: dict[str, object], session: Session) -> None:
    session.channel().call("queue.declare", queue=session.name(), arguments=STREAM, **flags)


for case, flags in FLAGS.items():
    add(f"ST/declare-{case}", "ST-01, Q-28", partial(declare_with, flags))


@scenario("ST/server-named", "ST-01, Q-02")
def server_named(session: Session) -> None:
    session.channel().call("queue.declare", durable=True, arguments=STREAM)


@scenario("ST/redeclare", "ST-01, Q-10, Q-13")
def redeclare(session: Session) -> None:
    queue = stream(session, x_max_age="1h", x_max_length_bytes=20_000_000)
    age: dict[str, object] = {"x-max-age": "1h"}
    size: dict[str, object] = {"x-max-length-bytes": 20_000_000}
    tables = [
        {**STREAM, **age, **size},
        {**STREAM, **age, **size, "x-queue-leader-locator": "balanced"},
        {**STREAM, **age, "x-max-length-bytes": 10_000_000},
        {**STREAM, **age},
        {**STREAM, **size},
        STREAM,
        {**age, **size},
        {"x-queue-type": "quorum"},
        {},
    ]
    for arguments in tables:
        session.channel().call("queue.declare", queue=queue, durable=True, arguments=arguments)

    session.channel().call("queue.declare", queue=queue, arguments=STREAM)
    session.channel().call("queue.declare", queue=queue, passive=True)


@scenario("ST/redeclare-with-another-age", "Q-12, Q-13")
def redeclare_age(session: Session) -> None:
    queue = stream(session, x_max_age="1h")
    for age in ("60m", "2h", "3600s", "1h"):
        arguments = {**STREAM, "x-max-age": age}
        session.channel().call("queue.declare", queue=queue, durable=True, arguments=arguments)


@scenario("ST/redeclare-without-the-arguments-of-segments", "Q-10, Q-14, ST-07")
def redeclare_segments(session: Session) -> None:
    queue = stream(
        session, x_stream_max_segment_size_bytes=1_000_000, x_stream_filter_size_bytes=32
    )
    for arguments in (STREAM, {**STREAM, "x-stream-max-segment-size-bytes": 2_000_000}):
        session.channel().call("queue.declare", queue=queue, durable=True, arguments=arguments)


# -- refused

WRONG_CONSUMERS: Final[dict[str, tuple[str, int, dict[str, object]]]] = {
    "no-prefetch": ("ST-02", 0, {}),
    "no-ack": ("ST-03", 5, {"no_ack": True}),
    "no-ack-and-no-prefetch": ("ST-02, ST-03", 0, {"no_ack": True}),
    "no-ack-and-a-wrong-offset": (
        "ST-03, ST-04",
        5,
        {"no_ack": True, "arguments": {"x-stream-offset": "foo"}},
    ),
    "no-prefetch-and-a-wrong-offset": ("ST-02, ST-04", 0, {"arguments": {"x-stream-offset": "?"}}),
    "wrong-priority": ("ST-02, CO-08", 5, {"arguments": {"x-priority": "high"}}),
    "priority": ("ST-01, CO-08", 5, {"arguments": {"x-priority": 5}}),
}


def consume_wrongly(prefetch: int, more: dict[str, object], session: Session) -> None:
    queue = written(session, 1)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=prefetch)
    channel.call("basic.consume", queue=queue, **more)


for case, (rules, prefetch, more) in WRONG_CONSUMERS.items():
    add(f"ST/consume-with-{case}", rules, partial(consume_wrongly, prefetch, more))


@scenario("ST/global-prefetch-alone", "ST-02, QS-08")
def global_prefetch(session: Session) -> None:
    queue = written(session, 1)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=5, global_=True)
    channel.call("basic.consume", queue=queue)


@scenario("ST/global-prefetch-besides-its-own", "ST-02, QS-08")
def both_prefetches(session: Session) -> None:
    queue = written(session, 1)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=5)
    channel.call("basic.qos", prefetch_count=5, global_=True)
    channel.call("basic.consume", queue=queue)


@scenario("ST/get", "ST-03, G-03")
def get(session: Session) -> None:
    queue = written(session, 1)
    for no_ack in (False, True):
        session.connect().channel().call("basic.get", queue=queue, no_ack=no_ack)


@scenario("ST/purge", "ST-03, Q-55")
def purge(session: Session) -> None:
    session.channel().call("queue.purge", queue=written(session, 1))


@scenario("ST/exclusive-means-nothing", "CO-07, ST-01")
def exclusive(session: Session) -> None:
    queue = written(session, 1)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=5)
    for tag in "ab":
        channel.call("basic.consume", queue=queue, consumer_tag=tag, exclusive=True)


@scenario("ST/tag-in-use", "CO-01, ST-01")
def tag_in_use(session: Session) -> None:
    queue = stream(session)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=5)
    for _ in range(2):
        channel.call("basic.consume", queue=queue, consumer_tag="c")


# -- offsets

OFFSETS: Final[dict[str, tuple[object, int]]] = {
    "first": ("first", 5),
    "last": ("last", 1),
    "next": ("next", 0),
    "zero": (0, 5),
    "three": (3, 2),
    "the-next-number": (5, 0),
    "octet": (Typed("b", 3), 2),
    "unsigned-octet": (Typed("B", 3), 2),
    "short": (Typed("s", 3), 2),
    "unsigned-short": (Typed("u", 3), 2),
    "unsigned-int": (Typed("i", 3), 2),
    "long": (Typed("l", 3), 2),
    "other-long": (Typed("L", 3), 2),
    "early-timestamp": (Typed("T", 1_000_000_000), 5),
    "late-timestamp": (Typed("T", 4_000_000_000), 0),
    "interval-of-an-hour": ("1h", 5),
    "interval-of-days": ("3D", 5),
}
"""An offset, and how many of five messages it leaves to be read."""


def read_from(offset: object, count: int, session: Session) -> None:
    queue = written(session, 5)
    channel = read(session, queue, {"x-stream-offset": offset}, count=count)
    session.quiet("what is there")
    write(session, queue, "5")
    channel.expect("basic.deliver")


for case, (offset, count) in OFFSETS.items():
    add(f"ST/offset-{case}", "ST-04, ST-05", partial(read_from, offset, count))

WRONG_OFFSETS: Final[dict[str, object]] = {
    "word": "foo",
    "first-with-a-space": "first ",
    "capital-first": "First",
    "empty": "",
    "digits": "3",
    "wrong-unit": "1x",
    "interval-of-nothing": "0h",
    "negative": -1,
    "boolean": True,
    "double": 1.5,
    "decimal": Typed("D", (0, 3)),
    "void": None,
    "bytes": Typed("x", b"first"),
    "array": ["first"],
    "table": {"first": 1},
}


def consume_from(offset: object, session: Session) -> None:
    read(session, written(session, 2), {"x-stream-offset": offset})
    session.quiet("consumed")


for case, offset in WRONG_OFFSETS.items():
    add(f"ST/offset-that-is-{case}", "ST-04", partial(consume_from, offset))


@scenario("ST/offset-absent", "ST-04")
def no_offset(session: Session) -> None:
    queue = written(session, 2)
    channel = read(session, queue, {})
    session.quiet("nothing of before")
    write(session, queue, "2", "3")
    channel.expect("basic.deliver", 2)


@scenario("ST/offset-beyond-the-end", "ST-04")
def beyond(session: Session) -> None:
    queue = written(session, 2)
    channel = read(session, queue, {"x-stream-offset": 5})
    write(session, queue, *"23456")
    channel.expect("basic.deliver", 2)


@scenario("ST/offset-of-an-empty-stream", "ST-04")
def empty(session: Session) -> None:
    queue = stream(session)
    channels = [read(session, queue, {"x-stream-offset": offset}) for offset in ("first", "last")]
    write(session, queue, "0")
    for channel in channels:
        channel.expect("basic.deliver")


@scenario("ST/offset-by-time", "ST-04", is_slow=True)
def by_time(session: Session) -> None:
    queue = written(session, 2)
    session.pause(3500)
    now = int(session.target.network.wall())
    write(session, queue, "2", "3")
    read(session, queue, {"x-stream-offset": Typed("T", now - 1)}, count=2)
    read(session, queue, {"x-stream-offset": "2s"}, count=2)
    read(session, queue, {"x-stream-offset": Typed("T", now - 60)}, count=4)
    session.quiet("no more")


@scenario("ST/offset-on-a-classic-queue", "ST-04, CO-08")
def classic(session: Session) -> None:
    queue = session.queue()
    session.channel().call("basic.consume", queue=queue, arguments={"x-stream-offset": "first"})
