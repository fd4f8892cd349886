"""Sections DL and TTL: dead lettering and expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.steps import drain, fill, filled, letters

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

SOON_MS: Final = 60
TIME_FOR_IT_MS: Final = 300


@scenario("DL/rejected", "DL-02, DL-04, DL-06..DL-08, A-06")
def rejected(session: Session) -> None:
    queue, target = letters(session)
    channel = session.channel()
    channel.publish("", queue, headers={"own": 1}, message_id="m", timestamp=5, delivery_mode=2)
    channel.publish("", queue)
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    channel.send("basic.reject", delivery_tag=1)
    channel.send("basic.nack", delivery_tag=2)
    channel.sync()
    session.quiet("rejected")
    drain(session, target, 2)


@scenario("DL/rejected-after-a-requeue", "DL-05")
def rejected_redelivered(session: Session) -> None:
    queue, target = letters(session)
    fill(session, queue, "x")
    channel = session.channel()
    for tag, method in ((1, "basic.nack"), (2, "basic.nack")):
        channel.call("basic.get", queue=queue)
        channel.send(method, delivery_tag=tag, requeue=tag == 1)
        session.quiet(f"{method} {tag}")

    drain(session, target, 1)


@scenario("DL/rejected-by-basic-reject", "DL-05")
def rejected_by_reject(session: Session) -> None:
    queue, target = letters(session)
    fill(session, queue, "x")
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    channel.send("basic.reject", delivery_tag=1)
    session.quiet("rejected")
    drain(session, target, 1)


@scenario("DL/expired-by-the-queue", "DL-02, DL-07, TTL-01, TTL-03, S-120", is_slow=True)
def expired(session: Session) -> None:
    queue, target = letters(session, x_message_ttl=SOON_MS)
    fill(session, queue, "x", "y")
    session.pause(TIME_FOR_IT_MS)
    drain(session, queue, 0)
    drain(session, target, 2)


@scenario("DL/expired-by-the-message", "DL-05, DL-07, TTL-01, S-120", is_slow=True)
def expired_message(session: Session) -> None:
    queue, target = letters(session)
    channel = session.channel()
    channel.publish("", queue, expiration="0060", headers={"a": 1})
    channel.sync()
    session.pause(TIME_FOR_IT_MS)
    drain(session, target, 1)


@scenario("DL/to-a-named-exchange-with-the-own-keys", "DL-04, DL-07, P-41", is_slow=True)
def own_keys(session: Session) -> None:
    exchange = session.exchange()
    queue = session.queue(arguments={"x-dead-letter-exchange": exchange, "x-message-ttl": SOON_MS})
    for suffix in ("main", "cc", "bcc"):
        session.bind(session.queue(suffix), exchange, suffix)

    session.bind(queue, "amq.direct", queue)
    channel = session.channel()
    headers = {"CC": ["cc"], "BCC": ["bcc", queue]}
    channel.publish("amq.direct", "main", headers=headers)
    channel.sync()
    session.pause(TIME_FOR_IT_MS)
    for suffix in ("main", "cc", "bcc"):
        drain(session, session.name(suffix), 1)


@scenario("DL/key-of-the-queue-wins-over-cc", "DL-04, DL-05, S-124", is_slow=True)
def key_wins(session: Session) -> None:
    queue, target = letters(session, x_message_ttl=SOON_MS)
    other = session.queue("other")
    channel = session.channel()
    channel.publish("", queue, headers={"CC": ["foo"], "BCC": ["bar"]})
    channel.publish("", queue, headers={"BCC": [other]})
    channel.sync()
    drain(session, other, 1)
    session.pause(TIME_FOR_IT_MS)
    drain(session, target, 2)
    drain(session, other, 0)


@scenario("DL/missing-exchange", "DL-03, S-121")
def missing_exchange(session: Session) -> None:
    queue = session.queue(arguments={"x-dead-letter-exchange": session.name("x")})
    target = session.queue("target")
    for number in range(2):
        channel = fill(session, queue, f"message {number}")
        channel.call("basic.get", queue=queue)
        channel.send("basic.reject", delivery_tag=1)
        session.quiet("rejected")
        session.bind(target, session.exchange("fanout"))

    drain(session, target, 1)


@scenario("DL/unroutable", "DL-03")
def unroutable(session: Session) -> None:
    caught = session.queue("caught")
    alternate = session.exchange("fanout", "alternate")
    session.bind(caught, alternate)
    exchange = session.exchange(arguments={"alternate-exchange": alternate})
    queue = session.queue(arguments={"x-dead-letter-exchange": exchange})
    channel = fill(session, queue, "x")
    channel.call("basic.get", queue=queue)
    channel.send("basic.reject", delivery_tag=1)
    session.quiet("rejected")
    drain(session, caught, 1)


@scenario("DL/not-by-purge-or-delete", "DL-02, Q-54")
def not_by_purge(session: Session) -> None:
    queue, target = letters(session)
    channel = fill(session, queue, "x")
    channel.call("queue.purge", queue=queue)
    fill(session, queue, "y")
    channel.call("queue.delete", queue=queue)
    session.quiet("deleted")
    drain(session, target, 0)


@scenario("DL/history-grows-newest-first", "DL-06, DL-08, DL-10, S-122")
def history(session: Session) -> None:
    names = [session.name(f"q{number}") for number in range(3)]
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        suffix = name.rpartition("-")[2]
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        session.queue(suffix, arguments=arguments)

    fill(session, names[0], "x")
    channel = session.channel()
    for tag in range(1, 6):
        channel.call("basic.get", queue=names[(tag - 1) % 3])
        channel.send("basic.nack", delivery_tag=tag)
        session.quiet(f"nack {tag}")

    drain(session, names[2], 1)


@scenario("DL/circle-by-expiry-ends", "DL-11, S-123", is_slow=True)
def circle_by_expiry(session: Session) -> None:
    one, two = session.name("q1"), session.name("q2")
    for suffix, following in (("q1", two), ("q2", one)):
        arguments = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": following,
            "x-message-ttl": SOON_MS,
        }
        session.queue(suffix, arguments=arguments)

    alone = session.name("q3")
    arguments = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": alone,
        "x-message-ttl": SOON_MS,
    }
    session.queue("q3", arguments=arguments)
    fill(session, one, "x")
    fill(session, alone, "y")
    session.pause(2 * TIME_FOR_IT_MS)
    for queue in (one, two, alone):
        drain(session, queue, 0)


@scenario("DL/circle-by-rejection-goes-on", "DL-06, DL-11, S-123, S-125")
def circle_by_rejection(session: Session) -> None:
    queue = session.name()
    session.queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue})
    fill(session, queue, "x")
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    for tag in range(1, 4):
        channel.expect("basic.deliver")
        channel.send("basic.nack", delivery_tag=tag)

    channel.expect("basic.deliver")


@scenario("DL/rejection-and-expiry-in-a-circle", "DL-06, DL-11, S-125", is_slow=True)
def mixed_circle(session: Session) -> None:
    first, second = session.name("q1"), session.name("q2")
    session.queue(
        "q1",
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": second,
            "x-message-ttl": SOON_MS,
        },
    )
    session.queue(
        "q2", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": first}
    )
    channel = session.channel()
    channel.call("basic.consume", queue=second, consumer_tag="c")
    fill(session, first, "x")
    for tag in range(1, 4):
        channel.expect("basic.deliver")
        channel.send("basic.nack", delivery_tag=tag)

    channel.expect("basic.deliver")


@scenario("DL/published-history", "DL-09")
def published_history(session: Session) -> None:
    queue, target = letters(session)
    entry = {
        "count": Typed("l", 7),
        "reason": "rejected",
        "queue": queue,
        "exchange": "",
        "routing-keys": [queue],
        "time": Typed("T", 1000),
    }
    channel = session.channel()
    headers: dict[str, object] = {"x-death": [entry], "x-first-death-queue": "made-up"}
    channel.publish("", queue, headers=headers)
    channel.publish("", queue, headers={"x-death": "no array"})
    channel.publish("", queue, headers={"x-death": []})
    for tag in range(1, 4):
        channel.call("basic.get", queue=queue)
        channel.send("basic.reject", delivery_tag=tag)
        channel.sync()

    session.quiet("rejected")
    drain(session, target, 3)


@scenario("DL/confirms-know-nothing-of-it", "DL-12")
def confirms(session: Session) -> None:
    queue, target = letters(session, x_message_ttl=0)
    channel = session.channel()
    channel.call("confirm.select")
    channel.publish("", queue, delivery_mode=2)
    channel.confirms(1)
    session.quiet("expired at once")
    drain(session, target, 1)


@scenario("DL/length-limit-of-the-target", "DL-02, DL-06, Q-80")
def target_limit(session: Session) -> None:
    last = session.queue("last")
    middle = session.queue(
        "middle",
        arguments={
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": last,
        },
    )
    queue = session.queue(
        arguments={
            "x-max-length": 0,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": middle,
        }
    )
    fill(session, queue, "one")
    fill(session, queue, "two")
    session.quiet("both have been dropped once, one of them twice")
    drain(session, middle, 1)
    drain(session, last, 1)


@scenario("DL/user-id-is-kept", "DL-16")
def user_id(session: Session) -> None:
    queue, target = letters(session)
    channel = session.channel()
    channel.publish("", queue, user_id="guest", reply_to="back", type="t", priority=3)
    channel.call("basic.get", queue=queue)
    channel.send("basic.reject", delivery_tag=1)
    session.quiet("rejected")
    drain(session, target, 1)


@scenario("TTL/the-lower-one-counts", "TTL-01", is_slow=True)
def lower_counts(session: Session) -> None:
    short = session.queue("short", arguments={"x-message-ttl": SOON_MS})
    long = session.queue("long", arguments={"x-message-ttl": 60000})
    channel = session.channel()
    for queue in (short, long):
        channel.publish("", queue, b"long", expiration="60000")
        channel.publish("", queue, b"none")
        channel.publish("", queue, b"short", expiration="60")

    channel.sync()
    session.pause(TIME_FOR_IT_MS)
    drain(session, short, 0)
    drain(session, long, 2)


@scenario("TTL/only-the-head-expires", "TTL-02", is_slow=True)
def only_the_head(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", queue, b"head", expiration="60000")
    channel.publish("", queue, b"second", expiration="60")
    channel.publish("", queue, b"third")
    channel.sync()
    session.pause(TIME_FOR_IT_MS)
    channel.call("queue.declare", queue=queue, passive=True)
    drain(session, queue, 2)


@scenario("TTL/zero-without-a-consumer", "TTL-04, CO-17")
def zero(session: Session) -> None:
    queue = session.queue(arguments={"x-message-ttl": 0})
    other = session.queue("other")
    channel = session.channel()
    channel.publish("", queue)
    channel.publish("", other, expiration="0")
    channel.sync()
    session.quiet("expired")
    drain(session, queue, 0)
    drain(session, other, 0)


@scenario("TTL/zero-with-a-consumer", "TTL-04, CO-17, S-127")
def zero_consumer(session: Session) -> None:
    queue = session.queue(arguments={"x-message-ttl": 0})
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.publish("", queue)
    channel.expect("basic.deliver")
    channel.send("basic.reject", delivery_tag=1, requeue=True)
    session.quiet("requeued, and expired")
    channel.publish("", queue, b"next", expiration="0")
    channel.expect("basic.deliver")


@scenario("TTL/unacked-messages-do-not-expire", "TTL-07", is_slow=True)
def unacked(session: Session) -> None:
    queue = filled(session, 2, x_message_ttl=250)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    session.pause(500)
    channel.call("queue.declare", queue=queue, passive=True)
    channel.send("basic.reject", delivery_tag=1, requeue=True)
    session.quiet("requeued, and expired")
    channel.call("basic.get", queue=queue)


@scenario("TTL/in-the-order-of-the-queue", "DL-14, TTL-03, S-126", is_slow=True)
def in_order(session: Session) -> None:
    queue, target = letters(session, x_message_ttl=SOON_MS)
    fill(session, queue, *"123456")
    session.pause(TIME_FOR_IT_MS)
    drain(session, target, 6)


@scenario("TTL/of-priorities", "Q-91, TTL-02", is_slow=True)
def of_priorities(session: Session) -> None:
    queue = session.queue(arguments={"x-max-priority": 2})
    channel = session.channel()
    channel.publish("", queue, b"low", expiration="60", priority=0)
    channel.publish("", queue, b"high", priority=2)
    channel.sync()
    session.pause(TIME_FOR_IT_MS)
    channel.call("queue.declare", queue=queue, passive=True)
    drain(session, queue, 1)
