"""Section ST, continued: what is delivered, credit, retention, filters, confirms, the end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.streams import STREAM, read, stream, write, written

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

FIRST: Final[dict[str, object]] = {"x-stream-offset": "first"}

# -- what is delivered


@scenario("ST/all-properties", "ST-05, P-30")
def all_properties(session: Session) -> None:
    queue = stream(session)
    write(
        session, queue, "all",
        content_type="text/plain", content_encoding="utf-8", headers={"k": "v"}, delivery_mode=2,
        priority=3, correlation_id="c", reply_to="r", expiration="1", message_id="m",
        timestamp=1234567890, type="t", user_id="guest", app_id="a",
    )  # fmt: skip
    read(session, queue, count=1)


@scenario("ST/delivery-modes", "ST-05")
def delivery_modes(session: Session) -> None:
    queue = stream(session)
    channel = session.channel()
    channel.publish("", queue, b"none")
    channel.publish("", queue, b"transient", delivery_mode=1)
    channel.publish("", queue, b"persistent", delivery_mode=2)
    read(session, queue, count=3)


@scenario("ST/all-kinds-of-headers", "ST-05")
def all_headers(session: Session) -> None:
    queue = stream(session)
    headers = {
        "int": 5, "long": Typed("l", 3), "short": Typed("s", 3), "octet": Typed("b", -1),
        "unsigned": Typed("B", 200), "void": None, "double": 1.5, "float": Typed("f", 1.5),
        "table": {"a": 1}, "array": [1, "x"], "time": Typed("T", 1000), "bool": True,
        "bytes": Typed("x", b"z"), "text": "x",
    }  # fmt: skip
    write(session, queue, "typed", headers=headers)
    read(session, queue, count=1)


@scenario("ST/header-of-the-offset-given-by-the-publisher", "ST-05")
def own_offset(session: Session) -> None:
    queue = stream(session)
    write(session, queue, "mine", headers={"x-stream-offset": "mine"})
    write(session, queue, "empty", headers={})
    read(session, queue, count=2)


@scenario("ST/through-exchanges", "ST-05, ST-09")
def through_exchanges(session: Session) -> None:
    queue, exchange = stream(session), session.exchange("topic")
    other = session.queue("other")
    session.bind(queue, exchange, "a.*")
    session.bind(other, exchange, "#")
    channel = session.channel()
    channel.call("confirm.select")
    for key in ("a.b", "c.d", "a.c"):
        channel.publish(exchange, key, mandatory=True, delivery_mode=1)

    channel.confirms(3)
    read(session, queue, count=2)
    session.channel().call("basic.get", queue=other, no_ack=True)


@scenario("ST/unbound-again", "ST-09, P-20")
def unbound(session: Session) -> None:
    queue, exchange = stream(session), session.exchange("fanout")
    session.bind(queue, exchange)
    channel = session.channel()
    channel.call("queue.unbind", queue=queue, exchange=exchange)
    channel.publish(exchange, "", mandatory=True)
    channel.expect("basic.return")


@scenario("ST/keys-of-CC-and-BCC", "ST-05, P-40")
def copies(session: Session) -> None:
    queue, other = stream(session), session.queue("other")
    headers = {"CC": [other], "BCC": ["nowhere"]}
    write(session, queue, "copied", headers=headers)
    read(session, queue, count=1)
    session.channel().call("basic.get", queue=other, no_ack=True)


@scenario("ST/bodies-empty-and-large", "ST-05")
def bodies(session: Session) -> None:
    queue = stream(session)
    write(session, queue, "", "x" * 300_000)
    read(session, queue, count=2)


@scenario("ST/expiration-and-priority-mean-nothing", "ST-09")
def no_expiration(session: Session) -> None:
    queue = stream(session)
    write(session, queue, "low", expiration="0", priority=0)
    write(session, queue, "high", expiration="0", priority=9)
    session.pause(20)
    read(session, queue, count=2)


@scenario("ST/read-twice", "ST-01, ST-05")
def read_twice(session: Session) -> None:
    queue = written(session, 3)
    for _ in range(2):
        channel = read(session, queue, count=3)
        channel.send("basic.ack", delivery_tag=0, multiple=True)
        channel.call("channel.close", reply_code=200)


@scenario("ST/two-consumers-of-a-channel", "ST-01")
def two_consumers(session: Session) -> None:
    queue = written(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=10)
    for tag, offset in {"a": "first", "b": 2}.items():
        arguments = {"x-stream-offset": offset}
        channel.call("basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)
        channel.expect("basic.deliver", 3 if tag == "a" else 1)

    channel.call("basic.cancel", consumer_tag="a")
    channel.send("basic.ack", delivery_tag=0, multiple=True)
    write(session, queue, "3")
    channel.expect("basic.deliver")
    session.quiet("to b alone")


@scenario("ST/a-slow-reader-holds-up-nobody", "ST-01, ST-10")
def slow_reader(session: Session) -> None:
    queue = written(session, 2)
    read(session, queue, count=1, prefetch=1)
    quick = read(session, queue, count=2)
    write(session, queue, "2", "3")
    quick.expect("basic.deliver", 2)


@scenario("ST/counts", "ST-09, Q-05")
def counts(session: Session) -> None:
    queue = stream(session)
    read(session, queue)
    session.channel().call("queue.declare", queue=queue, passive=True)
    session.channel().call("queue.declare", queue=queue, durable=True, arguments=STREAM)


# -- credit


def settle(method: str, more: dict[str, object], session: Session) -> None:
    queue = written(session, 5)
    channel = read(session, queue, count=2, prefetch=2)
    session.quiet("two at most")
    channel.send(f"basic.{method}", delivery_tag=1, **more)
    channel.expect("basic.deliver")
    channel.send(f"basic.{method}", delivery_tag=3, **more)
    channel.expect("basic.deliver")
    session.quiet("two more")


SETTLEMENTS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "ack": ("ack", {}),
    "ack-of-several": ("ack", {"multiple": True}),
    "nack": ("nack", {}),
    "nack-with-requeue": ("nack", {"requeue": True}),
    "nack-of-several": ("nack", {"multiple": True, "requeue": True}),
    "reject": ("reject", {}),
    "reject-with-requeue": ("reject", {"requeue": True}),
}

for case, (name, more) in SETTLEMENTS.items():
    add(f"ST/credit-by-{case}", "ST-06", partial(settle, name, more))


@scenario("ST/unknown-tags", "ST-06, A-02")
def unknown_tags(session: Session) -> None:
    queue = written(session, 2)
    channel = read(session, queue, count=2)
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()
    channel.send("basic.ack", delivery_tag=1)
    channel.expect("channel.close")


@scenario("ST/recover", "ST-06, A-07")
def recover(session: Session) -> None:
    queue = written(session, 4)
    channel = read(session, queue, count=2, prefetch=2)
    channel.call("basic.recover", requeue=True)
    channel.expect("basic.deliver", 2)
    session.quiet("recovered")


@scenario("ST/prefetch-of-later-consumers", "ST-02, QS-02")
def later_prefetch(session: Session) -> None:
    queue = written(session, 3)
    channel = read(session, queue, count=1, prefetch=1)
    read(session, queue, count=2, prefetch=2, channel=channel)
    session.quiet("one and two")


@scenario("ST/cancel-and-ack", "ST-06, CO-12")
def cancel(session: Session) -> None:
    queue = written(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="c", arguments=FIRST)
    channel.expect("basic.deliver", 2)
    channel.call("basic.cancel", consumer_tag="c")
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    session.quiet("no more")
    read(session, queue, count=2, prefetch=2, channel=channel)


# -- publishing


@scenario("ST/confirms", "ST-09, CF-06")
def confirms(session: Session) -> None:
    queue = stream(session)
    channel = session.channel()
    channel.call("confirm.select")
    for number in range(10):
        channel.publish("", queue, b"%d" % number, delivery_mode=1)

    channel.confirms(10)
    read(session, queue, count=10)


@scenario("ST/transaction", "ST-09, TX-03")
def transaction(session: Session) -> None:
    queue = stream(session)
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue, b"back", delivery_mode=1)
    channel.call("tx.rollback")
    channel.publish("", queue, b"kept", delivery_mode=1)
    reader = read(session, queue)
    session.quiet("nothing yet")
    channel.call("tx.commit")
    reader.expect("basic.deliver")


@scenario("ST/acks-in-a-transaction", "ST-06, TX-04")
def transacted_acks(session: Session) -> None:
    queue = written(session, 3)
    channel = session.channel()
    channel.call("tx.select")
    read(session, queue, count=1, prefetch=1, channel=channel)
    channel.send("basic.ack", delivery_tag=1)
    session.quiet("not settled yet")
    channel.call("tx.commit")
    channel.expect("basic.deliver")


@scenario("ST/dead-letters-to-a-stream", "ST-09, DL-02")
def dead_letters(session: Session) -> None:
    target = stream(session, "target")
    arguments = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
        "x-message-ttl": 0,
    }
    queue = session.queue(arguments=arguments)
    reader = read(session, target)
    session.channel().publish("", queue, b"dead", delivery_mode=1)
    reader.expect("basic.deliver")


# -- retention


def is_first_gone(session: Session, queue: str) -> None:
    """Write down whether the first message is still there; how many are gone is no promise."""
    link = session.connect()
    link.is_recording = False
    channel = read(session, queue, count=1, prefetch=1, channel=link.channel())
    is_there = channel.last_properties["headers"] == [("x-stream-offset", Typed("l", 0))]
    session.note(f"the first is {'there' if is_there else 'gone'}")


@scenario("ST/retention-by-size", "ST-07")
def retention_by_size(session: Session) -> None:
    queue = stream(session, x_max_length_bytes=3000, x_stream_max_segment_size_bytes=1000)
    write(session, queue, *["x" * 300] * 40)
    session.pause(300)
    is_first_gone(session, queue)


@scenario("ST/retention-keeps-a-segment", "ST-07")
def keeps_a_segment(session: Session) -> None:
    queue = stream(session, x_max_length_bytes=1)
    write(session, queue, *["x" * 300] * 4)
    is_first_gone(session, queue)


@scenario("ST/retention-by-age", "ST-07", is_slow=True)
def retention_by_age(session: Session) -> None:
    queue = stream(session, x_max_age="1s", x_stream_max_segment_size_bytes=1000)
    write(session, queue, *["x" * 300] * 8)
    session.pause(2500)
    write(session, queue, *["x" * 300] * 8)
    session.pause(300)
    is_first_gone(session, queue)


@scenario("ST/offset-that-is-gone", "ST-04, ST-07")
def offset_gone(session: Session) -> None:
    queue = stream(session, x_max_length_bytes=3000, x_stream_max_segment_size_bytes=1000)
    write(session, queue, *["x" * 300] * 40)
    session.pause(300)
    link = session.connect()
    link.is_recording = False
    read(session, queue, {"x-stream-offset": 0}, count=2, prefetch=2, channel=link.channel())
    session.note(f"{len(link.channels[1].inbox)} methods")


# -- filters

FILTERED: Final = ("a", "b", None, "", "a")

FILTERS: Final[dict[str, dict[str, object]]] = {
    "one": {"x-stream-filter": "a"},
    "two": {"x-stream-filter": ["a", "b"]},
    "none-that-matches": {"x-stream-filter": "z"},
    "one-and-unfiltered": {"x-stream-filter": "a", "x-stream-match-unfiltered": True},
    "one-and-not-unfiltered": {"x-stream-filter": "a", "x-stream-match-unfiltered": False},
    "unfiltered-alone": {"x-stream-match-unfiltered": True},
    "empty-text": {"x-stream-filter": ""},
    "empty-array": {"x-stream-filter": []},
    "number": {"x-stream-filter": 5},
    "array-of-numbers": {"x-stream-filter": [5]},
    "unfiltered-that-is-text": {"x-stream-filter": "a", "x-stream-match-unfiltered": "true"},
}


def filtered(arguments: dict[str, object], session: Session) -> None:
    queue = stream(session)
    for number, value in enumerate(FILTERED):
        headers = {} if value is None else {"x-stream-filter-value": value}
        write(session, queue, f"{number} of {value}", headers=headers)

    read(session, queue, FIRST | arguments)
    session.pause(100)
    session.quiet("filtered")


for case, arguments in FILTERS.items():
    add(f"ST/filter-{case}", "ST-08", partial(filtered, arguments))


@scenario("ST/filter-on-what-comes", "ST-08")
def filtered_later(session: Session) -> None:
    queue = stream(session)
    channel = read(session, queue, {"x-stream-offset": "next", "x-stream-filter": "b"})
    for value in "abab":
        headers = {"x-stream-filter-value": value}
        write(session, queue, value, headers=headers)

    channel.expect("basic.deliver", 2)


# -- the end


def delete(more: dict[str, object], session: Session) -> None:
    queue = written(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="c", arguments=FIRST)
    channel.expect("basic.deliver", 2)
    session.channel().call("queue.delete", queue=queue, **more)
    channel.expect("basic.cancel")
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    channel.sync()


add("ST/deleting-cancels-consumers", "ST-10, Q-53", partial(delete, {}))
add(
    "ST/deleting-whatever-the-conditions",
    "ST-10, Q-52",
    partial(delete, {"if_unused": True, "if_empty": True}),
)


@scenario("ST/declared-anew", "ST-10, ST-04")
def anew(session: Session) -> None:
    queue = written(session, 2)
    session.channel().call("queue.delete", queue=queue)
    written(session, 1)
    read(session, queue, count=1)


def gone(end: str, session: Session) -> None:
    queue = written(session, 2)
    link = session.connect()
    channel = read(session, queue, count=2, channel=link.channel())
    if end == "channel":
        channel.call("channel.close", reply_code=200)
    else:
        link.end()

    read(session, queue, {"x-stream-offset": 1}, count=1)


for end in ("channel", "socket"):
    add(f"ST/{end}-lost-before-the-acks", "ST-06, A-08", partial(gone, end))


@scenario("ST/consumer-outlives-growth", "ST-10")
def growth(session: Session) -> None:
    queue = stream(session)
    channel = read(session, queue, prefetch=2)
    for number in range(6):
        write(session, queue, str(number))
        channel.expect("basic.deliver")
        channel.send("basic.ack", delivery_tag=number + 1)
