"""Sections DL and TTL, continued: rarer ways to a dead-letter queue, and ways that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.compare.catalogue import scenario
from interop.compare.scenarios.steps import drain, fill, filled, letters

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []


@scenario("DL/not-by-auto-delete", "DL-02, Q-62")
def not_by_auto_delete(session: Session) -> None:
    target = session.queue("target")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    queue = session.queue(auto_delete=True, arguments=arguments)
    fill(session, queue, "x", "y")
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="c")
    session.quiet("the queue is gone")
    drain(session, target, 0)


@scenario("DL/not-by-expiry-of-the-queue", "DL-02, Q-72", is_slow=True)
def not_by_queue_expiry(session: Session) -> None:
    queue, target = letters(session, x_expires=150)
    fill(session, queue, "x")
    session.pause(600)
    session.channel().call("queue.declare", queue=queue, passive=True)
    drain(session, target, 0)


@scenario("DL/not-of-what-was-delivered-without-ack", "DL-02, CO-11")
def not_no_ack(session: Session) -> None:
    queue, target = letters(session)
    fill(session, queue, "x")
    channel = session.channel()
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("channel.close", reply_code=200)
    session.quiet("closed")
    drain(session, target, 0)


@scenario("DL/length-limit-in-a-circle", "DL-11, Q-80")
def length_circle(session: Session) -> None:
    queue = session.name()
    arguments = {
        "x-max-length": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
    }
    session.queue(arguments=arguments)
    fill(session, queue, "one", "two", "three")
    session.quiet("dropped")
    drain(session, queue, 1)


@scenario("DL/to-several-queues", "DL-04, P-25")
def several(session: Session) -> None:
    exchange = session.exchange("fanout")
    targets = [session.queue(suffix) for suffix in ("t1", "t2")]
    for target in targets:
        session.bind(target, exchange)

    queue = session.queue(arguments={"x-dead-letter-exchange": exchange})
    channel = fill(session, queue, "x")
    channel.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=1)
    session.quiet("rejected")
    for target in targets:
        drain(session, target, 1)


@scenario("DL/by-the-headers-of-the-message", "DL-04, DL-06, E-90")
def by_headers(session: Session) -> None:
    exchange = session.exchange("headers")
    target = session.queue("target")
    session.bind(target, exchange, "", kind="yes")
    queue = session.queue(arguments={"x-dead-letter-exchange": exchange})
    channel = session.channel()
    channel.publish("", queue, b"one", headers={"kind": "yes"})
    channel.publish("", queue, b"two", headers={"kind": "no"})
    for tag in (1, 2):
        channel.call("basic.get", queue=queue)
        channel.send("basic.nack", delivery_tag=tag)

    channel.sync()
    session.quiet("rejected")
    drain(session, target, 1)


@scenario("DL/several-at-once", "A-01, A-06, DL-14")
def several_at_once(session: Session) -> None:
    queue, target = letters(session)
    fill(session, queue, *"1234")
    channel = session.channel()
    for _ in range(4):
        session.unrecorded(channel, "basic.get", queue=queue)

    channel.send("basic.nack", delivery_tag=3, multiple=True)
    channel.sync()
    session.quiet("three are rejected")
    drain(session, target, 3)


@scenario("DL/rejected-after-the-cancel-of-the-consumer", "A-06, CO-12")
def after_cancel(session: Session) -> None:
    queue, target = letters(session)
    fill(session, queue, "x")
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="c")
    channel.send("basic.nack", delivery_tag=1)
    channel.sync()
    session.quiet("rejected")
    drain(session, target, 1)


@scenario("DL/to-a-priority-queue", "DL-05, Q-90")
def to_priorities(session: Session) -> None:
    target = session.queue("target", arguments={"x-max-priority": 5})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    queue = session.queue(arguments=arguments)
    channel = session.channel()
    for priority in (1, 5, 3):
        channel.publish("", queue, b"of %d" % priority, priority=priority)

    for tag in (1, 2, 3):
        channel.call("basic.get", queue=queue)
        channel.send("basic.nack", delivery_tag=tag)

    channel.sync()
    session.quiet("rejected")
    drain(session, target, 3)


@scenario("DL/to-a-waiting-consumer", "DL-02, CO-17")
def to_consumer(session: Session) -> None:
    queue, target = letters(session)
    consuming = session.channel()
    consuming.call("basic.consume", queue=target, consumer_tag="c", no_ack=True)
    channel = fill(session, queue, "x")
    channel.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=1)
    consuming.expect("basic.deliver")


@scenario("DL/key-that-is-empty", "DL-04")
def empty_key(session: Session) -> None:
    exchange = session.exchange()
    target = session.queue("target")
    session.bind(target, exchange, "")
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": ""}
    queue = session.queue(arguments=arguments)
    channel = fill(session, queue, "x")
    channel.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=1)
    session.quiet("rejected")
    drain(session, target, 1)


@scenario("DL/table-of-headers-that-is-empty", "DL-06")
def empty_headers(session: Session) -> None:
    queue, target = letters(session)
    channel = session.channel()
    channel.publish("", queue, headers={}, content_type="text/plain", app_id="a")
    channel.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=1)
    session.quiet("rejected")
    drain(session, target, 1)


@scenario("DL/delivery-mode-stays", "DL-05, P-31")
def delivery_mode(session: Session) -> None:
    queue, target = letters(session)
    channel = session.channel()
    for mode in (1, 2):
        channel.publish("", queue, delivery_mode=mode)

    for tag in (1, 2):
        channel.call("basic.get", queue=queue)
        channel.send("basic.nack", delivery_tag=tag)

    session.quiet("rejected")
    drain(session, target, 2)


@scenario("TTL/late-consumer", "TTL-02, TTL-05", is_slow=True)
def late_consumer(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", queue, b"head", expiration="60000")
    channel.publish("", queue, b"second", expiration="60")
    channel.sync()
    session.pause(300)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")


@scenario("TTL/with-prefetch", "TTL-02, TTL-05, TTL-07", is_slow=True)
def with_prefetch(session: Session) -> None:
    queue = session.queue(arguments={"x-message-ttl": 200})
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    fill(session, queue, "one", "two")
    channel.expect("basic.deliver")
    session.pause(600)
    channel.send("basic.ack", delivery_tag=1)
    session.quiet("the second has expired meanwhile")
    fill(session, queue, "three")
    channel.expect("basic.deliver")


@scenario("TTL/requeued-messages-keep-their-deadline", "TTL-01, TTL-07", is_slow=True)
def requeued(session: Session) -> None:
    queue = filled(session, 1, x_message_ttl=600)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    session.pause(200)
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    channel.sync()
    session.pause(100)
    channel.call("queue.declare", queue=queue, passive=True)
    session.pause(700)
    channel.call("queue.declare", queue=queue, passive=True)


@scenario("TTL/expired-messages-are-not-counted", "TTL-03, Q-06", is_slow=True)
def counted(session: Session) -> None:
    queue = filled(session, 3, x_message_ttl=60)
    session.pause(300)
    channel = session.channel()
    channel.call("queue.declare", queue=queue, passive=True)
    channel.call("queue.purge", queue=queue)
    channel.call("queue.delete", queue=queue, if_empty=True)
