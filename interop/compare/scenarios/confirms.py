"""Sections CF and TX: publisher confirms and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.compare.catalogue import scenario

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []


@scenario("CF/select", "CF-01, CF-03, CH-13")
def select(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", queue, b"before")
    channel.call("confirm.select")
    channel.publish("", queue, b"one")
    channel.confirms(1)
    channel.call("confirm.select")
    channel.call("confirm.select", nowait=True)
    channel.publish("", queue, b"two")
    channel.confirms(1)


@scenario("CF/select-on-a-transactional-channel", "CF-02, S-102")
def select_on_tx(session: Session) -> None:
    channel = session.channel()
    channel.call("tx.select")
    channel.call("confirm.select")


@scenario("CF/everything-is-confirmed-once", "CF-03, CF-04, CF-06, S-100")
def once(session: Session) -> None:
    queue = session.queue()
    exchange = session.exchange("fanout")
    for suffix in "ab":
        session.bind(session.queue(suffix), exchange)

    consuming = session.channel()
    consumed = session.queue("consumed")
    consuming.call("basic.consume", queue=consumed, consumer_tag="c", no_ack=True)
    channel = session.channel()
    channel.call("confirm.select")
    for number in range(20):
        mode = 1 + number % 2
        channel.publish("", queue, delivery_mode=mode)
        channel.publish(exchange, "k", delivery_mode=mode)
        channel.publish("", "nowhere", delivery_mode=mode)
        channel.publish("", consumed, b"", delivery_mode=mode)

    channel.confirms(80)
    consuming.expect("basic.deliver", 20)


@scenario("CF/one-ack-for-one-message", "CF-05, CF-08")
def one_ack(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.has_raw_confirms = True
    channel.call("confirm.select")
    for mode in (1, 2):
        channel.publish("", queue, delivery_mode=mode)
        channel.expect("basic.ack")


@scenario("CF/messages-that-do-not-stay", "CF-06, S-101")
def ephemeral(session: Session) -> None:
    queues = [
        session.queue("expiring", arguments={"x-message-ttl": 0}),
        session.queue("full", arguments={"x-max-length": 0}),
    ]
    channel = session.channel()
    channel.call("confirm.select")
    for queue in queues:
        channel.publish("", queue, delivery_mode=2)
        channel.publish("", queue)

    channel.publish("", queues[1], delivery_mode=2)
    channel.send("queue.purge", queue=queues[1])
    channel.confirms(5)


@scenario("CF/numbers-are-per-channel", "CF-03")
def per_channel(session: Session) -> None:
    queue = session.queue()
    for _ in range(2):
        channel = session.channel()
        channel.call("confirm.select")
        channel.publish("", queue)
        channel.confirms(1)


@scenario("CF/numbers-begin-anew-on-a-reopened-channel", "CF-03, CH-08")
def reopened(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.has_raw_confirms = True
    channel.call("confirm.select")
    channel.publish("", queue)
    channel.expect("basic.ack")
    channel.call("channel.close", reply_code=200)
    channel.call("channel.open")
    channel.publish("", queue)
    session.quiet("confirms are off on the new channel")
    channel.call("confirm.select")
    channel.publish("", queue)
    channel.expect("basic.ack")


@scenario("CF/a-refused-publish-has-no-confirm", "CF-03, P-12")
def refused(session: Session) -> None:
    channel = session.channel()
    channel.call("confirm.select")
    channel.publish("no-such-exchange", "k")
    channel.sync()


@scenario("TX/select-twice", "TX-01")
def tx_select(session: Session) -> None:
    channel = session.channel()
    channel.call("tx.select")
    channel.call("tx.select")
    channel.call("tx.commit")
    channel.call("tx.rollback")


@scenario("TX/select-on-a-confirming-channel", "TX-01, S-102")
def tx_on_confirm(session: Session) -> None:
    channel = session.channel()
    channel.call("confirm.select")
    channel.call("tx.select")


@scenario("TX/not-transactional", "TX-02, S-105")
def not_transactional(session: Session) -> None:
    session.channel().call("tx.commit")
    session.channel().call("tx.rollback")


@scenario("TX/publishes-wait-for-the-commit", "TX-03, TX-05, TX-07, S-103")
def commit(session: Session) -> None:
    queue = session.queue()
    other = session.channel()
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue, b"one", delivery_mode=2)
    channel.publish("", queue, b"two")
    channel.sync()
    other.call("basic.get", queue=queue, no_ack=True)
    channel.call("tx.commit")
    other.call("basic.get", queue=queue, no_ack=True)
    other.call("basic.get", queue=queue, no_ack=True)
    channel.publish("", queue, b"three")
    channel.sync()
    other.call("basic.get", queue=queue, no_ack=True)
    channel.call("tx.commit")
    other.call("basic.get", queue=queue, no_ack=True)


@scenario("TX/rollback-drops-publishes", "TX-06, S-103")
def rollback(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue)
    channel.call("tx.rollback")
    channel.call("tx.commit")
    channel.call("basic.get", queue=queue)


@scenario("TX/closing-drops-publishes", "TX-09, S-103")
def closing(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue)
    channel.call("channel.close", reply_code=200)
    session.channel().call("basic.get", queue=queue)


@scenario("TX/publishes-are-checked-at-once", "TX-03, P-04")
def checked_at_once(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue)
    channel.publish("no-such-exchange", "k")
    channel.sync()
    session.channel().call("basic.get", queue=queue)


@scenario("TX/returns-come-with-the-commit", "P-23, TX-03, S-108")
def returns(session: Session) -> None:
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", "nowhere", mandatory=True)
    session.quiet("nothing yet")
    channel.call("tx.commit")


@scenario("TX/acks-wait-for-the-commit", "TX-04, TX-09, S-104")
def acks(session: Session) -> None:
    queue = session.queue()
    filling = session.channel()
    for number in range(3):
        filling.publish("", queue, b"message %d" % number)

    filling.sync()
    channel = session.channel()
    channel.call("tx.select")
    for _ in range(3):
        channel.call("basic.get", queue=queue)

    channel.send("basic.ack", delivery_tag=1)
    channel.call("tx.commit")
    channel.send("basic.ack", delivery_tag=2)
    channel.call("channel.close", reply_code=200)
    session.quiet("closed without a commit")
    for _ in range(3):
        filling.call("basic.get", queue=queue)


@scenario("TX/rollback-keeps-messages-unacked", "TX-06, S-106")
def rollback_acks(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", queue)
    channel.call("tx.select")
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    channel.call("tx.rollback")
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    channel.call("tx.commit")
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()


@scenario("TX/unknown-tag-at-once", "TX-04, A-03, S-105")
def unknown_tag(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue)
    channel.call("tx.commit")
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()


@scenario("TX/requeue-waits-for-the-commit", "TX-04, S-107, S-109")
def requeue(session: Session) -> None:
    queue = session.queue()
    other = session.channel()
    channel = session.channel()
    for number in range(4):
        channel.publish("", queue, b"message %d" % number)

    channel.call("tx.select")
    for _ in range(4):
        channel.call("basic.get", queue=queue)

    channel.send("basic.nack", delivery_tag=3, requeue=True)
    channel.send("basic.reject", delivery_tag=1, requeue=True)
    channel.send("basic.ack", delivery_tag=2)
    channel.sync()
    other.call("basic.get", queue=queue)
    channel.call("tx.commit")
    session.quiet("committed")
    for _ in range(3):
        other.call("basic.get", queue=queue)


@scenario("TX/credit-comes-back-with-the-commit", "TX-10, QS-07")
def credit(session: Session) -> None:
    queue = session.queue()
    filling = session.channel()
    filling.publish("", queue, b"one")
    filling.publish("", queue, b"two")
    filling.sync()
    channel = session.channel()
    channel.call("tx.select")
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.send("basic.ack", delivery_tag=1)
    session.quiet("acknowledged, not committed")
    channel.call("tx.commit")
    channel.expect("basic.deliver")


@scenario("TX/recover-leaves-what-is-acked", "TX-10")
def recover(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", queue, b"one")
    channel.publish("", queue, b"two")
    channel.call("tx.select")
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    channel.call("basic.recover", requeue=True)
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    channel.call("tx.commit")


@scenario("TX/rejected-publish-fails-the-commit", "TX-05, Q-87")
def partial_completion(session: Session) -> None:
    full = session.queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    other = session.queue("other")
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", full)
    channel.publish("", other)
    channel.call("tx.commit")
    session.channel().call("basic.get", queue=other)


@scenario("TX/queue-made-after-the-publish", "TX-03")
def queue_made_after(session: Session) -> None:
    channel = session.channel()
    queue = session.name()
    channel.call("tx.select")
    channel.publish("", queue, mandatory=True)
    channel.call("queue.declare", queue=queue, durable=True)
    channel.call("tx.commit")
    channel.call("basic.get", queue=queue)


@scenario("TX/queue-deleted-after-the-publish", "TX-03")
def queue_deleted_after(session: Session) -> None:
    channel = session.channel()
    queue = session.queue(channel=channel)
    channel.call("tx.select")
    channel.publish("", queue, mandatory=True)
    channel.call("queue.delete", queue=queue)
    channel.call("tx.commit")


@scenario("TX/rejected-without-requeue-dead-letters-at-the-commit", "TX-04, A-06, DL-02")
def dead_letters(session: Session) -> None:
    target = session.queue("target")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    queue = session.queue(arguments=arguments)
    channel = session.channel()
    channel.publish("", queue)
    channel.call("tx.select")
    channel.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=1)
    session.quiet("not committed")
    session.channel().call("basic.get", queue=target)
    channel.call("tx.commit")
    session.quiet("committed")
    session.channel().call("basic.get", queue=target)


@scenario("TX/message-ttl-begins-with-the-commit", "TX-11", is_slow=True)
def ttl(session: Session) -> None:
    queue = session.queue(arguments={"x-message-ttl": 400})
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue)
    channel.sync()
    session.pause(600)
    channel.call("tx.commit")
    channel.call("basic.get", queue=queue)
