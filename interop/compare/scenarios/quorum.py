"""Section QQ: quorum queues, and what other sections say of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.queue_arguments import declare_each
from interop.compare.scenarios.steps import drain, fill

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

QUORUM: Final[dict[str, object]] = {"x-queue-type": "quorum"}


def quorum(session: Session, suffix: str = "q", **more: object) -> str:
    """Declare a quorum queue; returns its name."""
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return session.queue(suffix, arguments=QUORUM | given)


def filled(session: Session, count: int, suffix: str = "q", **more: object) -> str:
    """The same, with the messages ``0``, ``1`` and so on in it."""
    queue = quorum(session, suffix, **more)
    fill(session, queue, *map(str, range(count)))
    return queue


VALUES: Final[dict[str, list[object]]] = {
    "x-quorum-initial-group-size": [1, 0, -1, "1"],
    "x-dead-letter-strategy": ["at-most-once", "at-least-once", "foo", 5],
    "x-max-in-memory-length": [0, -1, "1"],
    "x-overflow": ["drop-head", "reject-publish", "reject-publish-dlx", "foo"],
    "x-delivery-limit": [0, 5, -1, "5", 1.5],
    "x-max-priority": [5],
    "x-queue-mode": ["lazy"],
    "x-queue-version": [2],
    "x-max-age": ["1h"],
    "x-expires": [60000, 0],
    "x-message-ttl": [0, -1],
    "x-max-length": [0, -1],
    "x-single-active-consumer": [True, "true"],
    "x-queue-leader-locator": ["balanced", "foo"],
    "x-delayed-retry-type": ["all", "foo"],
    "x-consumer-timeout": [60000, -1],
}

for argument, values in VALUES.items():
    tables = [QUORUM | {argument: value} for value in values]
    add(f"QQ/values-of-{argument}", "Q-21, Q-23, Q-25, Q-26", partial(declare_each, tables))

FLAGS: Final[dict[str, dict[str, object]]] = {
    "exclusive": {"durable": True, "exclusive": True},
    "auto-delete": {"durable": True, "auto_delete": True},
    "not-durable": {},
    "everything": {"exclusive": True, "auto_delete": True},
}


def declare_with(flags: dict[str, object], session: Session) -> None:
    session.channel().call("queue.declare", queue=session.name(), arguments=QUORUM, **flags)


for case, flags in FLAGS.items():
    add(f"QQ/declare-{case}", "QQ-01, Q-28, S-065", partial(declare_with, flags))


@scenario("QQ/server-named", "Q-02, QQ-01, S-065")
def server_named(session: Session) -> None:
    session.channel().call("queue.declare", durable=True, arguments=QUORUM)


@scenario("QQ/redeclare", "Q-10, Q-13")
def redeclare(session: Session) -> None:
    queue = quorum(session, x_delivery_limit=5)
    limit: dict[str, object] = {"x-delivery-limit": 5}
    for arguments in ({**QUORUM, **limit}, QUORUM, limit, {"x-queue-type": "classic"}, {}):
        session.channel().call("queue.declare", queue=queue, durable=True, arguments=arguments)


@scenario("QQ/delete-flags", "Q-52, QQ-07")
def delete_flags(session: Session) -> None:
    queue = quorum(session)
    session.connect().channel().call("queue.delete", queue=queue, if_unused=True)
    session.connect().channel().call("queue.delete", queue=queue, if_empty=True)
    session.connect().channel().call("queue.delete", queue=queue, if_empty=True, if_unused=True)
    session.connect().channel().call("queue.delete", queue=queue)


@scenario("QQ/purge", "QQ-07, Q-55")
def purge(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    channel.call("queue.purge", queue=queue)
    channel.call("basic.recover", requeue=True)
    session.quiet("recovered")
    drain(session, queue, 1)


@scenario("QQ/counts", "QQ-08, Q-05, G-02")
def counts(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("queue.declare", queue=queue, passive=True)
    for _ in range(4):
        channel.call("basic.get", queue=queue)


@scenario("QQ/confirms", "CF-06, QQ-01")
def confirms(session: Session) -> None:
    queue = quorum(session)
    channel = session.channel()
    channel.call("confirm.select")
    channel.publish("", queue, delivery_mode=1)
    channel.publish("", queue, delivery_mode=2)
    channel.confirms(2)
    drain(session, queue, 2)


@scenario("QQ/reject-requeue", "QQ-03, QQ-04, CO-15")
def reject(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    for tag in range(1, 4):
        channel.call("basic.get", queue=queue)
        channel.send("basic.reject", delivery_tag=tag, requeue=True)
        session.quiet("requeued")

    channel.call("basic.get", queue=queue)


@scenario("QQ/nack-requeue", "QQ-03, QQ-04")
def nack(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    for tag in range(1, 3):
        channel.call("basic.get", queue=queue)
        channel.send("basic.nack", delivery_tag=tag, requeue=True)
        session.quiet("requeued")

    channel.call("basic.get", queue=queue)


@scenario("QQ/requeue-by-closing", "QQ-11, QQ-04")
def closing(session: Session) -> None:
    queue = filled(session, 1)
    for _ in range(2):
        channel = session.channel()
        channel.call("basic.get", queue=queue)
        channel.call("channel.close", reply_code=200)
        session.quiet("closed")

    session.channel().call("basic.get", queue=queue)


@scenario("QQ/delivery-limit", "QQ-02, QQ-03, DL-02, DL-17")
def delivery_limit(session: Session) -> None:
    target = session.queue("target")
    queue = filled(
        session,
        1,
        x_delivery_limit=2,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=target,
    )
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    for tag in range(1, 4):
        channel.expect("basic.deliver")
        channel.send("basic.reject", delivery_tag=tag, requeue=True)

    session.quiet("three returns are too many")
    drain(session, target, 1)


@scenario("QQ/default-delivery-limit", "QQ-02")
def default_limit(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    for tag in range(1, 22):
        channel.expect("basic.deliver")
        channel.send("basic.reject", delivery_tag=tag, requeue=True)

    session.quiet("delivered twenty-one times")


@scenario("QQ/order-of-returns", "A-05, QQ-10")
def order(session: Session) -> None:
    queue = filled(session, 4, x_delivery_limit=10)
    channel = session.channel()
    for _ in range(3):
        channel.call("basic.get", queue=queue)

    channel.send("basic.reject", delivery_tag=3, requeue=True)
    channel.send("basic.reject", delivery_tag=1, requeue=True)
    channel.sync()
    session.quiet("two are back")
    drain(session, queue, 3)


@scenario("QQ/rejected-dead-letters", "DL-02, A-06, DL-17")
def rejected(session: Session) -> None:
    target = session.queue("target")
    queue = filled(session, 2, x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    channel.call("basic.get", queue=queue)
    channel.send("basic.nack", delivery_tag=2, multiple=True)
    session.quiet("rejected")
    drain(session, target, 2)


@scenario("QQ/expired-dead-letters", "TTL-10, DL-02", is_slow=True)
def expired(session: Session) -> None:
    target = session.queue("target")
    queue = filled(
        session,
        2,
        x_message_ttl=200,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=target,
    )
    session.pause(1000)
    drain(session, queue, 0)
    drain(session, target, 2)


@scenario("QQ/max-length", "Q-80")
def max_length(session: Session) -> None:
    queue = filled(session, 4, x_max_length=2)
    session.quiet("two are dropped")
    drain(session, queue, 2)


@scenario("QQ/exclusive-consumer-is-nothing-special", "QQ-06, CO-07")
def exclusive(session: Session) -> None:
    queue = quorum(session)
    session.channel().call("basic.consume", queue=queue, consumer_tag="c", exclusive=True)
    session.channel().call("basic.consume", queue=queue, consumer_tag="d", exclusive=True)


@scenario("QQ/consumer-arguments", "CO-08, QQ-06")
def consumer_arguments(session: Session) -> None:
    queue = quorum(session)
    tables: list[dict[str, object]] = [
        {"x-priority": 5},
        {"x-priority": "5"},
        {"x-stream-offset": "first"},
        {"x-priority": Typed("b", -1)},
    ]
    for arguments in tables:
        session.channel().call("basic.consume", queue=queue, arguments=arguments)


@scenario("QQ/consumer-priorities", "QQ-06, CO-10")
def consumer_priorities(session: Session) -> None:
    queue = quorum(session)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    for tag, priority in {"low": 1, "high": 5}.items():
        arguments = {"x-priority": priority}
        channel.call("basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)

    for number in range(2):
        channel.publish("", queue, b"%d" % number)
        channel.expect("basic.deliver")


@scenario("QQ/single-active-consumer", "CO-30, CO-33")
def single_active(session: Session) -> None:
    queue = quorum(session, x_single_active_consumer=True)
    channel = session.channel()
    for tag in "ab":
        channel.call("basic.consume", queue=queue, consumer_tag=tag, no_ack=True)

    channel.publish("", queue)
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="a")
    channel.publish("", queue)
    channel.expect("basic.deliver")
    session.channel().call("basic.get", queue=queue)


@scenario("QQ/global-prefetch", "QS-08")
def global_prefetch(session: Session) -> None:
    queue = quorum(session)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1, global_=True)
    channel.call("basic.consume", queue=queue, consumer_tag="c")


@scenario("QQ/priorities", "QQ-05")
def priorities(session: Session) -> None:
    queue = quorum(session)
    channel = session.channel()
    channel.call("confirm.select")
    for priority in (None, 0, 9, 5, 4):
        if priority is None:
            channel.publish("", queue, b"none")
        else:
            channel.publish("", queue, b"of %d" % priority, priority=priority)

    channel.confirms(5)
    drain(session, queue, 5)


@scenario("QQ/deleting-cancels-consumers", "Q-53, A-08")
def deleting(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    session.channel().call("queue.delete", queue=queue)
    channel.expect("basic.cancel")
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()


@scenario("QQ/transaction", "TX-03, TX-04")
def transaction(session: Session) -> None:
    queue = quorum(session)
    channel = session.channel()
    channel.call("tx.select")
    channel.publish("", queue)
    channel.call("tx.commit")
    drain(session, queue, 1)


@scenario("QQ/prefetch", "QS-02, QS-07")
def prefetch(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    session.quiet("two are unacked")
    channel.send("basic.ack", delivery_tag=1)
    channel.expect("basic.deliver")
