"""Section CO: consumers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.steps import fill, filled

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []


@scenario("CO/deliveries", "CO-05, CO-09, CO-16, OR-01")
def deliveries(session: Session) -> None:
    queue = filled(session, 3)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 3)
    channel.publish("", queue, b"3", headers={"k": 1}, content_type="text/plain")
    channel.expect("basic.deliver")


@scenario("CO/server-made-tags", "CO-02")
def server_made_tags(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue)
    channel.call("basic.consume", queue=queue)
    channel.publish("", queue)
    channel.expect("basic.deliver")


@scenario("CO/tag-in-use", "CO-01, CO-03, S-025")
def tag_in_use(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    other = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    other.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.consume", queue="no-such-queue", consumer_tag="c")


@scenario("CO/missing-queue", "CO-01")
def missing_queue(session: Session) -> None:
    session.channel().call("basic.consume", queue="no-such-queue")
    session.channel().call("basic.consume", queue="no-such-queue", nowait=True)


@scenario("CO/without-wait", "CO-05, CH-13")
def without_wait(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    channel.send("basic.consume", queue=queue, consumer_tag="c", nowait=True)
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="c", nowait=True)
    channel.publish("", queue)
    session.quiet("cancelled")


@scenario("CO/no-local-is-ignored", "CO-06")
def no_local(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_local=True)
    channel.publish("", queue)
    channel.expect("basic.deliver")


@scenario("CO/exclusive-consumer", "CO-07")
def exclusive(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c", exclusive=True)
    session.channel().call("basic.consume", queue=queue, consumer_tag="d")
    session.channel().call("basic.consume", queue=queue, consumer_tag="e", exclusive=True)
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    session.channel().call("basic.consume", queue=queue, consumer_tag="f", exclusive=True)
    session.channel().call("basic.get", queue=queue)


@scenario("CO/exclusive-consumer-of-a-single-active-queue", "CO-07")
def exclusive_single(session: Session) -> None:
    queue = session.queue(arguments={"x-single-active-consumer": True})
    session.channel().call("basic.consume", queue=queue, consumer_tag="c", exclusive=True)


PRIORITIES: Final[dict[str, object]] = {
    "text": "banana", "table": {}, "void": None, "array": [1], "boolean": True, "float": 1.5,
    "byte": Typed("b", -1), "long": Typed("l", 2**40), "unsigned": Typed("i", 7),
    "decimal": Typed("D", (0, 5)), "timestamp": Typed("T", 5),
}  # fmt: skip


def with_arguments(arguments: dict[str, object], session: Session) -> None:
    queue = session.queue()
    session.channel().call("basic.consume", queue=queue, consumer_tag="c", arguments=arguments)


for case, value in PRIORITIES.items():
    add(
        f"CO/priority-that-is-{case}",
        "CO-08, S-092",
        partial(with_arguments, {"x-priority": value}),
    )

OTHERS: Final[dict[str, object]] = {
    "x-stream-offset": "first", "x-stream-filter": "f", "x-stream-match-unfiltered": True,
    "x-cancel-on-ha-failover": True, "x-credit": {"credit": 1}, "x-unheard-of": None,
}  # fmt: skip

for case, value in OTHERS.items():
    add(f"CO/argument-{case}", "CO-08", partial(with_arguments, {case: value}))


@scenario("CO/no-ack", "CO-09, CO-11, A-04")
def no_ack(session: Session) -> None:
    queue = filled(session, 2)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    channel.expect("basic.deliver", 2)
    channel.call("basic.recover", requeue=True)
    channel.call("queue.declare", queue=queue, passive=True)
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()
    session.channel().call("queue.declare", queue=queue, passive=True)


@scenario("CO/round-robin", "CO-10")
def round_robin(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for tag in "abc":
        channel.call("basic.consume", queue=queue, consumer_tag=tag, no_ack=True)

    for number in range(7):
        channel.publish("", queue, b"%d" % number)
        channel.expect("basic.deliver")


@scenario("CO/priorities", "CO-10, S-092")
def priorities(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=2)
    for tag, priority in {"low": -1, "middle": None, "high": 5}.items():
        arguments = {} if priority is None else {"x-priority": priority}
        channel.call("basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)

    for number in range(5):
        channel.publish("", queue, b"%d" % number)
        channel.expect("basic.deliver")

    channel.call("basic.cancel", consumer_tag="high")
    channel.send("basic.ack", delivery_tag=3)
    channel.publish("", queue, b"after the cancel")
    channel.expect("basic.deliver")


@scenario("CO/cancel", "CO-12, S-087")
def cancel(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.cancel", consumer_tag="unknown")
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.publish("", queue, b"one")
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("basic.cancel", consumer_tag="c")
    channel.publish("", queue, b"two")
    session.quiet("no consumer any more")
    other = session.channel()
    other.call("queue.declare", queue=queue, passive=True)
    other.call("basic.get", queue=queue, no_ack=True)
    other.call("basic.get", queue=queue, no_ack=True)
    channel.call("channel.close", reply_code=200)
    session.quiet("the channel is closed")
    other.call("basic.get", queue=queue, no_ack=True)


@scenario("CO/ack-after-cancel", "CO-12")
def ack_after_cancel(session: Session) -> None:
    queue = filled(session, 1)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver")
    channel.call("basic.cancel", consumer_tag="c")
    channel.send("basic.ack", delivery_tag=1)
    channel.call("channel.close", reply_code=200)
    session.channel().call("basic.get", queue=queue)


@scenario("CO/cancel-of-a-deleted-queue-without-the-capability", "CO-13, C-14")
def no_cancel_notify(session: Session) -> None:
    tables: list[dict[str, object]] = [
        {},
        {"consumer_cancel_notify": False},
        {"consumer_cancel_notify": 1},
        {"consumer_cancel_notify": True},
    ]
    queue = session.queue()
    for capabilities in tables:
        channel = session.connect(capabilities=capabilities).channel()
        channel.call("basic.consume", queue=queue, consumer_tag="c")

    session.channel().call("queue.delete", queue=queue)
    channel.expect("basic.cancel")


@scenario("CO/cancel-ok-of-a-client", "CO-13, CH-11")
def cancel_ok(session: Session) -> None:
    channel = session.channel()
    channel.send("basic.cancel-ok", consumer_tag="c")
    channel.sync()


@scenario("CO/redelivered", "CO-15, S-086")
def redelivered(session: Session) -> None:
    queue = filled(session, 2)
    first = session.channel()
    first.call("basic.get", queue=queue)
    first.send("basic.reject", delivery_tag=1, requeue=True)
    first.sync()
    session.quiet("one is back")
    second = session.channel()
    second.call("basic.consume", queue=queue, consumer_tag="c")
    second.expect("basic.deliver", 2)
    second.send("basic.reject", delivery_tag=2, requeue=True)
    second.expect("basic.deliver")


@scenario("CO/single-active-consumer", "CO-30, CO-32")
def single_active(session: Session) -> None:
    queue = session.queue(arguments={"x-single-active-consumer": True})
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    for tag in "abc":
        channel.call("basic.consume", queue=queue, consumer_tag=tag)

    channel.publish("", queue, b"one")
    channel.publish("", queue, b"two")
    channel.expect("basic.deliver")
    session.quiet("the active one has its prefetch, the others wait")
    channel.send("basic.ack", delivery_tag=1)
    channel.expect("basic.deliver")
    channel.send("basic.ack", delivery_tag=2)
    channel.sync()
    channel.call("basic.cancel", consumer_tag="a")
    channel.publish("", queue, b"three")
    channel.expect("basic.deliver")
    channel.call("basic.get", queue=queue)


@scenario("CO/single-active-consumer-of-higher-priority", "CO-30, CO-31")
def single_active_priority(session: Session) -> None:
    queue = session.queue(arguments={"x-single-active-consumer": True})
    channel = session.channel()
    for tag, priority in {"a": 0, "b": 1, "c": 5, "d": 5}.items():
        arguments = {"x-priority": priority}
        channel.call(
            "basic.consume", queue=queue, consumer_tag=tag, arguments=arguments, no_ack=True
        )

    for tag in "acdb":
        channel.publish("", queue)
        channel.expect("basic.deliver")
        channel.call("basic.cancel", consumer_tag=tag)


@scenario("CO/latest-queue-when-none-is-named", "CH-14")
def latest_queue(session: Session) -> None:
    channel = session.channel()
    queue = session.queue(channel=channel)
    channel.call("basic.consume", consumer_tag="c")
    channel.publish("", queue)
    channel.expect("basic.deliver")


@scenario("CO/cancel-on-another-channel", "CO-02, CO-12")
def cancel_elsewhere(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    session.channel().call("basic.cancel", consumer_tag="c")
    channel.publish("", queue)
    channel.expect("basic.deliver")


@scenario("CO/tags-of-any-content", "CO-02")
def any_tag(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for tag in ("t" * 255, "\u00e9 ;\t", "amq.ctag-mine", "line\nend"):
        channel.call("basic.consume", queue=queue, consumer_tag=tag)
        channel.publish("", queue)
        channel.expect("basic.deliver")
        channel.call("basic.cancel", consumer_tag=tag)


@scenario("CO/consumers-of-two-connections-take-turns", "CO-10")
def two_connections(session: Session) -> None:
    queue = session.queue(channel=session.connect().channel())
    channels = [session.connect().channel() for _ in range(2)]
    for channel in channels:
        channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)

    for number in range(4):
        fill(session, queue, str(number))
        channels[number % 2].expect("basic.deliver")


@scenario("CO/consumer-that-is-full-is-passed-over", "CO-10, QS-02")
def full_consumer(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.qos", prefetch_count=0)
    channel.call("basic.consume", queue=queue, consumer_tag="d")
    for number in range(4):
        channel.publish("", queue, b"%d" % number)
        channel.expect("basic.deliver")


@scenario("CO/priority-and-prefetch", "CO-10, S-092")
def priority_prefetch(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="high", arguments={"x-priority": 1})
    channel.call("basic.consume", queue=queue, consumer_tag="low")
    for number in range(2):
        channel.publish("", queue, b"%d" % number)
        channel.expect("basic.deliver")

    channel.publish("", queue, b"2")
    session.quiet("both are full")
    channel.send("basic.ack", delivery_tag=2)
    channel.expect("basic.deliver")
    channel.publish("", queue, b"3")
    session.quiet("both are full again")
    channel.send("basic.ack", delivery_tag=1)
    channel.expect("basic.deliver")


@scenario("CO/deleting-and-declaring-while-consuming", "Q-53, CO-13")
def declare_anew(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    session.channel().call("queue.delete", queue=queue)
    channel.expect("basic.cancel")
    session.queue()
    channel.publish("", queue)
    session.quiet("no consumer")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("queue.declare", queue=queue, passive=True)
