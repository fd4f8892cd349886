"""Sections CO, QS and G: consumers, prefetch and basic.get."""

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
