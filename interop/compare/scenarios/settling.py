"""Section A: ack, nack, reject and recover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.compare.catalogue import scenario
from interop.compare.scenarios.steps import drain, fill, filled

if TYPE_CHECKING:
    from interop.compare.client import Channel
    from interop.compare.session import Session

__all__: list[str] = []


def got(session: Session, count: int, more: int = 0) -> tuple[str, Channel]:
    """A queue, and a channel that has got so many messages of it."""
    queue = filled(session, count + more)
    channel = session.channel()
    for _ in range(count):
        session.unrecorded(channel, "basic.get", queue=queue)

    return queue, channel


@scenario("A/ack-of-several", "A-01, A-09")
def ack_multiple(session: Session) -> None:
    queue, channel = got(session, 4)
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    channel.send("basic.ack", delivery_tag=4)
    channel.call("basic.recover", requeue=True)
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)


@scenario("A/ack-of-several-up-to-an-unknown-tag", "A-01")
def ack_multiple_unknown(session: Session) -> None:
    queue, channel = got(session, 3)
    channel.send("basic.ack", delivery_tag=2)
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    channel.sync()
    session.quiet("closed")
    drain(session, queue, 2)


@scenario("A/ack-of-all", "A-02")
def ack_all(session: Session) -> None:
    queue, channel = got(session, 3)
    channel.send("basic.ack", delivery_tag=0, multiple=True)
    channel.send("basic.ack", delivery_tag=0, multiple=True)
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    channel.call("basic.recover", requeue=True)
    channel.call("basic.get", queue=queue)


@scenario("A/tag-zero", "A-02")
def tag_zero(session: Session) -> None:
    queue, channel = got(session, 1)
    channel.send("basic.ack", delivery_tag=0)
    channel.sync()
    session.quiet("closed")
    drain(session, queue, 1)


@scenario("A/unknown-tags", "A-03, S-084, T-05")
def unknown_tags(session: Session) -> None:
    for method in ("basic.ack", "basic.nack", "basic.reject"):
        channel = session.channel()
        channel.send(method, delivery_tag=123456)
        channel.sync()

    for tag in (2**63, 2**64 - 1):
        channel = session.channel()
        channel.send("basic.ack", delivery_tag=tag)
        channel.sync()


@scenario("A/ack-twice", "A-03, S-084")
def ack_twice(session: Session) -> None:
    _, channel = got(session, 1)
    channel.send("basic.ack", delivery_tag=1)
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()


@scenario("A/tag-of-another-channel", "A-04")
def other_channel(session: Session) -> None:
    queue, _ = got(session, 1)
    channel = session.channel()
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()
    drain(session, queue, 0)


@scenario("A/requeue-restores-the-order", "A-05, S-085")
def requeue(session: Session) -> None:
    queue, channel = got(session, 4, 1)
    channel.send("basic.reject", delivery_tag=3, requeue=True)
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    channel.sync()
    session.quiet("two are back")
    other = session.channel()
    other.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    channel.sync()
    session.quiet("all but one are back")
    drain(session, queue, 4)


@scenario("A/requeue-to-the-same-consumer", "A-07")
def requeue_same(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    for tag in (1, 2):
        channel.expect("basic.deliver")
        channel.send("basic.nack", delivery_tag=tag, requeue=True)

    channel.expect("basic.deliver")


@scenario("A/rejected-is-gone", "A-06")
def rejected(session: Session) -> None:
    queue, channel = got(session, 2)
    channel.send("basic.reject", delivery_tag=1)
    channel.send("basic.nack", delivery_tag=2)
    channel.sync()
    channel.call("channel.close", reply_code=200)
    drain(session, queue, 0)


@scenario("A/ack-for-a-deleted-queue", "A-08, Q-53")
def deleted_queue(session: Session) -> None:
    queue, channel = got(session, 3)
    channel.call("queue.delete", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    channel.send("basic.nack", delivery_tag=2, requeue=True)
    channel.call("basic.recover", requeue=True)
    channel.send("basic.ack", delivery_tag=3)
    channel.sync()


@scenario("A/several-queues-at-once", "A-09")
def several_queues(session: Session) -> None:
    one, two = filled(session, 2, "q1"), filled(session, 1, "q2")
    channel = session.channel()
    for queue in (one, two, one):
        channel.call("basic.get", queue=queue)

    channel.send("basic.nack", delivery_tag=2, multiple=True, requeue=True)
    channel.send("basic.ack", delivery_tag=3)
    channel.sync()
    session.quiet("settled")
    drain(session, one, 1)
    drain(session, two, 1)


@scenario("A/recover", "A-10, A-11, S-088")
def recover(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    channel.call("basic.recover", requeue=True)
    channel.expect("basic.deliver", 3)


@scenario("A/recover-without-requeue", "A-10, S-088")
def recover_no_requeue(session: Session) -> None:
    session.channel().call("basic.recover", requeue=False)


@scenario("A/recover-async", "A-10")
def recover_async(session: Session) -> None:
    queue, channel = got(session, 1)
    channel.send("basic.recover-async", requeue=True)
    channel.sync()
    session.quiet("recovered")
    drain(session, queue, 1)
    other = session.channel()
    other.send("basic.recover-async", requeue=False)
    other.sync()


@scenario("A/recover-of-nothing", "A-10")
def recover_nothing(session: Session) -> None:
    session.channel().call("basic.recover", requeue=True)


@scenario("A/closing-requeues", "CH-06, CO-15, S-095")
def closing(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 3)
    channel.send("basic.ack", delivery_tag=2)
    channel.call("channel.close", reply_code=200)
    session.quiet("closed")
    drain(session, queue, 2)


@scenario("A/an-error-requeues", "CH-07, CO-15")
def error_requeues(session: Session) -> None:
    queue = filled(session, 2)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    channel.send("basic.ack", delivery_tag=9)
    channel.sync()
    session.quiet("closed")
    drain(session, queue, 2)


@scenario("A/requeued-goes-to-another-consumer", "A-05, CO-10, S-086")
def requeue_other(session: Session) -> None:
    queue = session.queue()
    one, two = session.channel(), session.channel()
    one.call("basic.qos", prefetch_count=1)
    one.call("basic.consume", queue=queue, consumer_tag="c")
    fill(session, queue, "x")
    one.expect("basic.deliver")
    two.call("basic.consume", queue=queue, consumer_tag="d")
    one.call("basic.cancel", consumer_tag="c")
    one.send("basic.reject", delivery_tag=1, requeue=True)
    two.expect("basic.deliver")


@scenario("A/unacked-messages-of-two-channels", "A-04, A-10")
def two_channels(session: Session) -> None:
    queue = filled(session, 2)
    one, two = session.channel(), session.channel()
    one.call("basic.get", queue=queue)
    two.call("basic.get", queue=queue)
    two.call("basic.recover", requeue=True)
    session.quiet("only those of one channel are back")
    drain(session, queue, 1)


@scenario("A/nack-of-all-without-requeue", "A-02, A-06")
def nack_all(session: Session) -> None:
    queue, channel = got(session, 2)
    channel.send("basic.nack", delivery_tag=0, multiple=True)
    channel.sync()
    channel.call("basic.recover", requeue=True)
    drain(session, queue, 0)


@scenario("A/requeued-twice", "A-05, CO-15")
def requeued_twice(session: Session) -> None:
    queue = filled(session, 3)
    for _ in range(2):
        channel = session.channel()
        for _ in range(2):
            channel.call("basic.get", queue=queue)

        channel.send("basic.nack", delivery_tag=2, multiple=True, requeue=True)
        channel.sync()
        session.quiet("requeued")

    drain(session, queue, 3)
