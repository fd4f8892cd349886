"""Sections QS and G: prefetch and basic.get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.compare.catalogue import scenario
from interop.compare.scenarios.steps import fill, filled

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []


@scenario("QS/prefetch-size", "QS-01, S-089")
def prefetch_size(session: Session) -> None:
    session.channel().call("basic.qos", prefetch_size=1000)


@scenario("QS/prefetch-per-consumer", "QS-02, QS-06, QS-07, S-090")
def prefetch(session: Session) -> None:
    queue = filled(session, 9)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=3)
    session.quiet("what was got frees nothing")
    channel.send("basic.ack", delivery_tag=2)
    channel.expect("basic.deliver")
    channel.send("basic.ack", delivery_tag=4, multiple=True)
    channel.expect("basic.deliver", 2)
    channel.send("basic.nack", delivery_tag=5)
    channel.expect("basic.deliver")
    channel.send("basic.reject", delivery_tag=6)
    channel.expect("basic.deliver")
    channel.send("basic.nack", delivery_tag=8, requeue=True)
    channel.expect("basic.deliver")


@scenario("QS/recover-frees-prefetch", "QS-07, A-10, A-11, S-090")
def prefetch_recover(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    channel.call("basic.recover", requeue=True)
    channel.expect("basic.deliver", 2)


@scenario("QS/prefetch-is-for-later-consumers", "QS-02")
def prefetch_later(session: Session) -> None:
    one, two = filled(session, 3, "q1"), filled(session, 3, "q2")
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=one, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.qos", prefetch_count=2)
    session.quiet("the first keeps its own")
    channel.call("basic.consume", queue=two, consumer_tag="d")
    channel.expect("basic.deliver", 2)
    session.quiet("the second has two")
    channel.call("basic.qos", prefetch_count=0)
    channel.call("basic.consume", queue=one, consumer_tag="e")
    channel.expect("basic.deliver", 2)


@scenario("QS/prefetch-and-no-ack", "QS-05, S-091")
def prefetch_no_ack(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    channel.expect("basic.deliver", 3)


@scenario("QS/two-consumers-share-by-prefetch", "QS-10, CO-10")
def prefetch_two(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.consume", queue=queue, consumer_tag="d")
    fill(session, queue, *"123456")
    channel.expect("basic.deliver", 4)
    session.quiet("both are full")
    channel.send("basic.ack", delivery_tag=4, multiple=True)
    channel.expect("basic.deliver", 2)


@scenario("QS/global-prefetch", "QS-03")
def prefetch_global(session: Session) -> None:
    one, two = filled(session, 3, "q1"), filled(session, 3, "q2")
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2, global_=True)
    channel.call("basic.consume", queue=one, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    channel.call("basic.consume", queue=two, consumer_tag="d")
    session.quiet("the limit is that of the channel")


@scenario("QS/global-prefetch-is-lifted", "QS-03")
def prefetch_global_off(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1, global_=True)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.qos", prefetch_count=0, global_=True)
    session.quiet("no limit any more")


@scenario("QS/global-prefetch-and-per-consumer", "QS-04")
def prefetch_both(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.qos", prefetch_count=3, global_=True)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.consume", queue=queue, consumer_tag="d")
    fill(session, queue, *"123456")
    session.quiet("three between the two")


@scenario("QS/global-prefetch-counts-retroactively", "QS-03, QS-07")
def prefetch_global_lowered(session: Session) -> None:
    queue = filled(session, 5)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=3)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 3)
    channel.call("basic.qos", prefetch_count=1, global_=True)
    channel.send("basic.ack", delivery_tag=1)
    session.quiet("still over the limit")
    channel.send("basic.ack", delivery_tag=3, multiple=True)
    session.quiet("below it")


@scenario("QS/global-prefetch-holds-no-ack-back", "QS-05")
def prefetch_global_no_ack(session: Session) -> None:
    one, two = filled(session, 2, "q1"), filled(session, 2, "q2")
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1, global_=True)
    channel.call("basic.consume", queue=one, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.consume", queue=two, consumer_tag="d", no_ack=True)
    session.quiet("the limit is used up")
    channel.call("basic.cancel", consumer_tag="c")
    channel.send("basic.ack", delivery_tag=1)
    session.quiet("free again")


@scenario("G/get", "G-01, G-02, CO-09, S-097")
def get(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue="no-such-queue")


@scenario("G/got-without-ack-is-gone", "G-03, CO-11")
def get_no_ack(session: Session) -> None:
    queue = filled(session, 2)
    channel = session.channel()
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("basic.get", queue=queue)
    channel.call("channel.close", reply_code=200)
    session.quiet("closed")
    other = session.channel()
    other.call("basic.get", queue=queue)
    other.call("basic.get", queue=queue)


@scenario("G/get-beside-a-consumer", "G-04, CO-17")
def get_beside(session: Session) -> None:
    queue = session.queue()
    consuming = session.channel()
    consuming.call("basic.consume", queue=queue, consumer_tag="c")
    channel = session.channel()
    channel.publish("", queue)
    channel.call("basic.get", queue=queue)
    consuming.expect("basic.deliver")


@scenario("G/tags-are-shared-with-deliveries", "CO-09")
def shared_tags(session: Session) -> None:
    one, two = filled(session, 2, "q1"), filled(session, 1, "q2")
    channel = session.channel()
    channel.call("basic.get", queue=one)
    channel.call("basic.consume", queue=two, consumer_tag="c", no_ack=True)
    channel.expect("basic.deliver")
    channel.call("basic.get", queue=one)


@scenario("G/publish-and-get-on-one-channel", "OR-02, OR-03")
def publish_and_get(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for number in range(5):
        channel.publish("", queue, b"%d" % number)
        channel.call("basic.get", queue=queue, no_ack=True)


@scenario("QS/prefetch-is-of-one-channel", "QS-02")
def per_channel(session: Session) -> None:
    queue = filled(session, 4)
    one, two = session.channel(), session.channel()
    one.call("basic.qos", prefetch_count=1)
    one.call("basic.consume", queue=queue, consumer_tag="c")
    one.expect("basic.deliver")
    two.call("basic.consume", queue=queue, consumer_tag="d")
    two.expect("basic.deliver", 3)


@scenario("QS/what-a-cancelled-consumer-holds-frees-nothing-else", "QS-07, CO-12")
def cancelled_holds(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("basic.consume", queue=queue, consumer_tag="d")
    channel.expect("basic.deliver")
    channel.send("basic.ack", delivery_tag=1)
    session.quiet("that was of the one that is gone")
    channel.send("basic.ack", delivery_tag=2)
    channel.expect("basic.deliver")


@scenario("QS/largest-prefetch", "QS-02")
def largest(session: Session) -> None:
    queue = filled(session, 2)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=65535)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
