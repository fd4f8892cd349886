"""Section Q, continued: the values of arguments, length limits and priorities."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.steps import drain, fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interop.compare.session import Session

__all__: list[str] = []

WIDTHS: Final = [Typed(kind, 100) for kind in "bBsuIilL"]
WRONG: Final[list[object]] = [
    "100", 1.5, True, None, {}, [], Typed("x", b"a"), Typed("T", 5), Typed("f", 1.0),
    Typed("D", (0, 5)), Typed("D", (1, 50)),
]  # fmt: skip
YEARS: Final = Typed("l", 315360000000)
YEARS_AND_A_BIT: Final = Typed("l", 315360000001)

VALUES: Final[dict[str, list[object]]] = {
    "x-expires": [0, -10, YEARS, YEARS_AND_A_BIT, *WIDTHS, *WRONG],
    "x-message-ttl": [0, -10, YEARS, YEARS_AND_A_BIT, *WIDTHS, *WRONG],
    "x-max-length": [0, -10, Typed("l", 2**62), *WIDTHS, *WRONG],
    "x-max-length-bytes": [0, -10, Typed("l", 2**62), *WIDTHS, *WRONG],
    "x-max-priority": [0, 255, 256, 260, -10, *WIDTHS, *WRONG],
    "x-overflow": ["drop-head", "reject-publish", "reject-publish-dlx", "Drop-Head", "", 5, None,
        Typed("x", b"drop-head")],
    "x-dead-letter-exchange": ["", "no-such-exchange", 133, True, None, [], Typed("x", b"e")],
    "x-queue-mode": ["default", "lazy", "wrong", 5],
    "x-queue-version": [1, 2, 3, 0, -1, "2", 2.0],
    "x-single-active-consumer": [True, False, "true", 1, None],
    "x-queue-type": ["classic", "foo", "Classic", "", 5, True, None, Typed("x", b"classic")],
    "x-queue-leader-locator": ["client-local", "balanced", "random", "least-leaders",
        "min-masters", "foo", 5],
    "x-max-age": ["1h", "foo"],
    "x-delivery-limit": [5],
    "x-quorum-initial-group-size": [1],
    "x-dead-letter-strategy": ["at-least-once"],
    "x-max-in-memory-length": [1],
    "x-stream-max-segment-size-bytes": [1],
    "x-initial-cluster-size": [1],
    "x-unheard-of": ["anything", None, {"a": [1, "b", {}]}],
}  # fmt: skip

COMBINED: Final[dict[str, list[dict[str, object]]]] = {
    "dead-letter-routing-key": [
        {"x-dead-letter-routing-key": "k"},
        {"x-dead-letter-routing-key": "k", "x-dead-letter-exchange": "e"},
        {"x-dead-letter-routing-key": 144, "x-dead-letter-exchange": "e"},
        {"x-dead-letter-routing-key": 144},
        {"x-dead-letter-routing-key": "", "x-dead-letter-exchange": "e"},
    ],
    "first-error-decides": [
        {"x-expires": 0, "x-message-ttl": -1},
        {"x-max-length": -1, "x-message-ttl": -1},
        {"x-max-priority": -1, "x-max-length": -1},
        {"x-overflow": "foo", "x-max-priority": -1},
        {"x-queue-type": "foo", "x-expires": 0},
        {"x-dead-letter-exchange": 5, "x-queue-type": "foo"},
        {"x-max-age": "1h", "x-expires": 0},
        {"x-max-age": "1h", "x-delivery-limit": 5},
        {"x-single-active-consumer": 5, "x-overflow": "foo"},
    ],
}


def declare_each(tables: Sequence[dict[str, object]], session: Session) -> None:
    """Declare a queue of its own with each: all answers are in the order of the table."""
    for number, table in enumerate(tables):
        name = session.name(f"q{number:02}")
        session.channel().call("queue.declare", queue=name, durable=True, arguments=table)


for argument, values in VALUES.items():
    play = partial(declare_each, [{argument: value} for value in values])
    add(f"Q/values-of-{argument}", "Q-20, Q-23..Q-26, S-053, S-055, S-056, S-066, S-067", play)

for case, tables in COMBINED.items():
    add(f"Q/arguments-{case}", "Q-25, Q-26", partial(declare_each, tables))


@scenario("Q/max-length-drops-the-head", "Q-80, S-061")
def max_length(session: Session) -> None:
    for length in range(4):
        queue = session.queue(f"q{length}", arguments={"x-max-length": length})
        fill(session, queue, *(f"message {number}" for number in range(length + 2)))
        drain(session, queue, length)


@scenario("Q/max-length-counts-ready-messages", "Q-80, Q-81, S-061")
def max_length_unacked(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 2})
    channel = fill(session, queue, "one", "two")
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    fill(session, queue, "three", "four", "five")
    drain(session, queue, 2)


@scenario("Q/max-length-bytes", "Q-80")
def max_length_bytes(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length-bytes": 10})
    fill(session, queue, "12345", "67890", "abc", "", "12345678901", "end")
    drain(session, queue, 3)


@scenario("Q/max-length-does-not-count-what-is-delivered-at-once", "Q-81")
def max_length_consumer(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 0})
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    fill(session, queue, "one", "two")
    channel.expect("basic.deliver", 2)


@scenario("Q/max-length-is-applied-to-what-comes-back", "Q-82, S-063")
def max_length_requeue(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 2})
    channel = fill(session, queue, "a1", "a2")
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    fill(session, queue, "b1", "b2")
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    channel.sync()
    session.quiet("requeued")
    drain(session, queue, 2)


@scenario("Q/max-length-dead-letters", "Q-80, Q-81, DL-02, S-062")
def max_length_dead_letter(session: Session) -> None:
    target = session.queue("target")
    arguments: dict[str, object] = {
        "x-max-length": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
    }
    queue = session.queue(arguments=arguments)
    fill(session, queue, "one", "two", "three")
    session.quiet("dropped")
    drain(session, queue, 1)
    drain(session, target, 2)


@scenario("Q/reject-publish", "Q-83, CF-10, S-064")
def reject_publish(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel = session.channel()
    channel.has_raw_confirms = True
    channel.call("confirm.select")
    for body in (b"one", b"two", b"three"):
        channel.publish("", queue, body)
        session.quiet("published")

    channel.call("basic.get", queue=queue)
    channel.publish("", queue, b"four")
    session.quiet("published beside an unacked one")
    drain(session, queue, 1)


@scenario("Q/reject-publish-without-confirms", "Q-83, P-22")
def reject_publish_silently(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel = session.channel()
    channel.publish("", queue, b"one", mandatory=True)
    channel.publish("", queue, b"two", mandatory=True)
    channel.sync()
    drain(session, queue, 1)


@scenario("Q/reject-publish-by-bytes", "Q-83")
def reject_publish_bytes(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length-bytes": 8, "x-overflow": "reject-publish"})
    fill(session, queue, "12345", "6789", "678", "", "x")
    drain(session, queue, 3)


@scenario("Q/reject-publish-comes-before-waiting-consumers", "Q-83")
def reject_publish_consumer(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    fill(session, queue, "one", "two")


@scenario("Q/reject-publish-of-one-queue-of-two", "Q-83, CF-07, P-22")
def reject_publish_one_of_two(session: Session) -> None:
    full = session.queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    other = session.queue("other")
    exchange = session.exchange("fanout")
    session.bind(full, exchange)
    session.bind(other, exchange)
    channel = session.channel()
    channel.call("confirm.select")
    channel.publish(exchange, "k", mandatory=True)
    channel.confirms(1)
    drain(session, other, 1)


@scenario("Q/reject-publish-dlx", "Q-84, DL-02")
def reject_publish_dlx(session: Session) -> None:
    target = session.queue("target")
    arguments: dict[str, object] = {
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
    }
    queue = session.queue(arguments=arguments)
    fill(session, queue, "one", "two")
    session.quiet("rejected")
    drain(session, queue, 1)
    drain(session, target, 1)


PRIORITIES: Final = (3, None, 0, 9, 1, 255, 3, 5, 4)


@scenario("Q/priorities", "Q-90")
def priorities(session: Session) -> None:
    queue = session.queue(arguments={"x-max-priority": 4})
    channel = session.channel()
    for number, priority in enumerate(PRIORITIES):
        body = f"{number}: {priority}".encode()
        if priority is None:
            channel.publish("", queue, body)
        else:
            channel.publish("", queue, body, priority=priority)

    channel.sync()
    drain(session, queue, len(PRIORITIES))


@scenario("Q/priorities-and-requeue", "Q-90, A-05")
def priorities_requeue(session: Session) -> None:
    queue = session.queue(arguments={"x-max-priority": 2})
    channel = session.channel()
    for number in range(3):
        for priority in range(3):
            channel.publish("", queue, b"%d of %d" % (number, priority), priority=priority)

    for _ in range(5):
        channel.call("basic.get", queue=queue)

    channel.send("basic.nack", delivery_tag=4, multiple=False, requeue=True)
    channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)
    channel.sync()
    drain(session, queue, 8)


@scenario("Q/priorities-and-max-length", "Q-91")
def priorities_max_length(session: Session) -> None:
    queue = session.queue(arguments={"x-max-priority": 2, "x-max-length": 2})
    channel = session.channel()
    for priority in (0, 2, 1, 2):
        channel.publish("", queue, b"of %d" % priority, priority=priority)

    channel.sync()
    drain(session, queue, 2)


@scenario("Q/no-priorities-without-the-argument", "P-32")
def priorities_ignored(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for priority in (0, 9, 5):
        channel.publish("", queue, priority=priority)

    channel.sync()
    drain(session, queue, 3)


@scenario("Q/priorities-to-a-waiting-consumer", "Q-90, Q-92")
def priorities_consumer(session: Session) -> None:
    queue = session.queue(arguments={"x-max-priority": 5})
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    for priority in (1, 2, 5, 3):
        channel.publish("", queue, b"of %d" % priority, priority=priority)
        if priority == 1:
            channel.expect("basic.deliver")

    session.quiet("all are in the queue")
    for tag in range(1, 4):
        channel.send("basic.ack", delivery_tag=tag)
        channel.expect("basic.deliver")
