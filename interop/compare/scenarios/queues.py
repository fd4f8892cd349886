"""Section Q: queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

Arguments = dict[str, object]


@scenario("Q/server-named", "Q-01, Q-03, Q-05, S-050")
def server_named(session: Session) -> None:
    link = session.connect()
    channel = link.channel()
    answer = channel.call("queue.declare", exclusive=True)
    name = answer.text("queue") if answer else ""
    channel.call("queue.declare", exclusive=True)
    link.channel().call("queue.declare", queue=name, passive=True)
    link.channel().call("queue.declare", queue=name, exclusive=True)


@scenario("Q/server-name-prefix", "Q-01")
def server_name_prefix(session: Session) -> None:
    channel = session.channel()
    channel.call("queue.declare", exclusive=True, arguments={"x-name-prefix": "mine"})


@scenario("Q/reserved-prefix", "Q-03, Q-40")
def reserved_prefix(session: Session) -> None:
    session.channel().call("queue.declare", queue="amq.compare", durable=True)
    session.channel().call("queue.declare", queue="amq.compare", passive=True)
    session.channel().call("queue.delete", queue="amq.compare")


@scenario("Q/passive-declare-of-the-empty-name", "CH-16")
def passive_empty(session: Session) -> None:
    channel = session.channel()
    session.queue(channel=channel)
    channel.call("queue.declare", queue="", passive=True)


@scenario("Q/names-of-any-content", "Q-04, T-03")
def names(session: Session) -> None:
    for name in (session.name("\u00e9 ;/\t'\"#*"), session.name("l").ljust(255, "l")):
        channel = session.channel()
        channel.call("queue.declare", queue=name, durable=True)
        channel.publish("", name)
        channel.call("basic.get", queue=name, no_ack=True)
        channel.call("queue.delete", queue=name)
        channel.call("queue.declare", queue=name, passive=True)


@scenario("Q/text-cut-with-a-long-name-of-two-byte-characters", "T-03")
def long_text(session: Session) -> None:
    session.channel().call("queue.declare", queue="\u00e9" * 127, passive=True)


@scenario("Q/counts", "Q-05, Q-06, S-094")
def counts(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("confirm.select")
    for _ in range(3):
        channel.publish("", queue)

    channel.confirms(3)
    channel.call("basic.get", queue=queue)
    channel.call("queue.declare", queue=queue, durable=True)
    other = session.channel()
    other.call("basic.qos", prefetch_count=1)
    other.call("basic.consume", queue=queue, consumer_tag="c")
    other.expect("basic.deliver")
    channel.call("queue.declare", queue=queue, passive=True)
    other.call("basic.cancel", consumer_tag="c")
    channel.call("queue.declare", queue=queue, passive=True)


@scenario("Q/declare-without-wait", "Q-05, CH-13, CH-14")
def without_wait(session: Session) -> None:
    channel = session.channel()
    queue = session.name()
    channel.call("queue.declare", queue=queue, durable=True, nowait=True)
    channel.call("queue.bind", exchange="amq.direct", routing_key=queue)
    channel.call("queue.declare", queue=queue, passive=True, nowait=True)
    channel.call("queue.declare", queue=queue, durable=True, auto_delete=True, nowait=True)


FLAGS: Final[dict[str, tuple[Arguments, Arguments]]] = {
    "not-durable": ({"durable": True}, {}),
    "auto-delete": ({"durable": True}, {"durable": True, "auto_delete": True}),
    "not-auto-delete": ({"durable": True, "auto_delete": True}, {"durable": True}),
    "exclusive": ({"durable": True}, {"durable": True, "exclusive": True}),
    "not-exclusive": ({"exclusive": True}, {"durable": True}),
    "exclusive-and-durable": ({"exclusive": True}, {"exclusive": True, "durable": True}),
    "exclusive-first": ({"durable": True}, {"exclusive": True, "auto_delete": True}),
    "durable-first": ({"durable": True}, {"exclusive": False, "auto_delete": True}),
}

EXISTING: Final[dict[str, tuple[Arguments, Arguments]]] = {
    "message-ttl": ({"x-message-ttl": 10000}, {"x-message-ttl": 20000}),
    "message-ttl-left-out": ({"x-message-ttl": 10000}, {}),
    "message-ttl-added": ({}, {"x-message-ttl": 10000}),
    "message-ttl-as-text": ({"x-message-ttl": 10000}, {"x-message-ttl": "10000"}),
    "message-ttl-as-double": ({"x-message-ttl": 10000}, {"x-message-ttl": 10000.0}),
    "message-ttl-invalid": ({"x-message-ttl": 10000}, {"x-message-ttl": -1}),
    "expires": ({"x-expires": 60000}, {"x-expires": 70000}),
    "max-length": ({"x-max-length": 10}, {"x-max-length": 11}),
    "max-length-bytes": ({"x-max-length-bytes": 10}, {"x-max-length-bytes": 11}),
    "max-priority": ({"x-max-priority": 10}, {"x-max-priority": 11}),
    "overflow": ({"x-overflow": "drop-head"}, {"x-overflow": "reject-publish"}),
    "overflow-added": ({}, {"x-overflow": "drop-head"}),
    "queue-mode": ({}, {"x-queue-mode": "lazy"}),
    "single-active-consumer": ({}, {"x-single-active-consumer": True}),
    "single-active-consumer-off": ({"x-single-active-consumer": True},
        {"x-single-active-consumer": False}),
    "dead-letter-exchange": ({"x-dead-letter-exchange": "one"}, {"x-dead-letter-exchange": "two"}),
    "dead-letter-routing-key": (
        {"x-dead-letter-exchange": "one", "x-dead-letter-routing-key": "k"},
        {"x-dead-letter-exchange": "one"}),
    "queue-type-classic": ({}, {"x-queue-type": "classic"}),
    "queue-type-left-out": ({"x-queue-type": "classic"}, {}),
    "queue-type-quorum": ({}, {"x-queue-type": "quorum"}),
    "queue-type-unknown": ({}, {"x-queue-type": "foo"}),
    "unknown-argument": ({"x-one": 1}, {"x-two": "two"}),
    "argument-of-another-type": ({}, {"x-max-age": "1h"}),
    "two-differences": ({"x-max-length": 1, "x-expires": 70000}, {"x-max-length": 2}),
    "void": ({}, {"x-message-ttl": None}),
}  # fmt: skip


def redeclare(first: Arguments, second: Arguments, session: Session) -> None:
    queue = session.name()
    session.channel().call("queue.declare", queue=queue, **first)
    session.channel().call("queue.declare", queue=queue, **second)
    session.channel().call("queue.delete", queue=queue)


def redeclare_with(first: Arguments, second: Arguments, session: Session) -> None:
    redeclare(
        {"durable": True, "arguments": first}, {"durable": True, "arguments": second}, session
    )


for case, (before, after) in FLAGS.items():
    rules = "Q-07, Q-10, Q-11, Q-16, Q-31, S-051"
    add(f"Q/redeclare-{case}", rules, partial(redeclare, before, after))

for case, (before, after) in EXISTING.items():
    rules = "Q-10..Q-14, T-13, T-14, S-054"
    add(f"Q/redeclare-other-{case}", rules, partial(redeclare_with, before, after))


OPERATIONS: Final[dict[str, tuple[str, Arguments]]] = {
    "declare": ("queue.declare", {"exclusive": True}),
    "declare-not-exclusive": ("queue.declare", {}),
    "declare-passive": ("queue.declare", {"passive": True}),
    "delete": ("queue.delete", {}),
    "purge": ("queue.purge", {}),
    "bind": ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
    "get": ("basic.get", {}),
    "consume": ("basic.consume", {}),
}


def on_exclusive(method: str, arguments: Arguments, session: Session) -> None:
    owner, other = session.connect(), session.connect()
    queue = session.queue(channel=owner.channel(), durable=False, exclusive=True)
    other.channel().call(method, queue=queue, **arguments)
    owner.channel().call(method, queue=queue, **arguments)


for case, (method, given) in OPERATIONS.items():
    play = partial(on_exclusive, method, given)
    add(f"Q/exclusive-queue-{case}", "Q-30, Q-31, Q-33, Q-34, S-052", play)


@scenario("Q/exclusive-queue-takes-messages-of-all", "Q-32")
def exclusive_publish(session: Session) -> None:
    owner, other = session.connect(), session.connect()
    channel = owner.channel()
    queue = session.queue(channel=channel, durable=False, exclusive=True)
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    other.channel().publish("", queue)
    channel.expect("basic.deliver")


@scenario("Q/exclusive-queue-outlives-its-channel", "Q-33")
def exclusive_channel(session: Session) -> None:
    channel = session.channel()
    queue = session.queue(channel=channel, durable=False, exclusive=True)
    channel.call("channel.close", reply_code=200)
    session.channel().call("queue.declare", queue=queue, passive=True)


@scenario("Q/exclusive-queue-goes-with-its-connection", "Q-33, C-70, C-80")
def exclusive_connection(session: Session) -> None:
    owner, other = session.connect(), session.connect()
    queue = session.queue(channel=owner.channel(), durable=False, exclusive=True)
    owner.call("connection.close", reply_code=200)
    session.quiet("the owner has closed")
    other.channel().call("queue.declare", queue=queue, passive=True)


@scenario("Q/passive-declare-of-a-missing-queue", "Q-40, Q-34")
def passive_missing(session: Session) -> None:
    session.channel().call("queue.declare", queue=session.name(), passive=True, exclusive=True)


@scenario("Q/passive-declare-compares-nothing", "Q-40")
def passive(session: Session) -> None:
    queue = session.queue()
    session.channel().call(
        "queue.declare",
        queue=queue,
        passive=True,
        auto_delete=True,
        arguments={"x-message-ttl": -1, "x-queue-type": "foo"},
    )


@scenario("Q/line-ends-in-names-are-stripped", "CH-17")
def line_ends(session: Session) -> None:
    name = session.name("queue_test")
    dirty = name.replace("queue_test", "que\nue_\rtest\n")
    channel = session.channel()
    channel.call("queue.declare", queue=dirty, durable=True)
    channel.call("queue.declare", queue=dirty, passive=True)
    channel.call("queue.bind", queue=dirty, exchange="amq.direct", routing_key="k")
    session.channel().call("queue.purge", queue=dirty)
    session.channel().call("basic.get", queue=dirty)
    session.channel().call("basic.consume", queue=dirty)
    channel.call("queue.delete", queue=dirty)


@scenario("Q/delete-counts-ready-messages", "Q-50, S-059")
def delete(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("queue.delete", queue="no-" + queue)
    for _ in range(3):
        channel.publish("", queue)

    channel.call("basic.get", queue=queue)
    channel.call("queue.delete", queue=queue)
    channel.call("queue.delete", queue=queue, if_empty=True, if_unused=True)
    channel.send("basic.ack", delivery_tag=1)
    channel.sync()


@scenario("Q/delete-if-empty", "Q-51, S-059")
def delete_if_empty(session: Session) -> None:
    queue = session.queue()
    session.channel().publish("", queue)
    session.quiet("published")
    session.channel().call("queue.delete", queue=queue, if_empty=True)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    session.channel().call("queue.delete", queue=queue, if_empty=True)


@scenario("Q/delete-if-unused", "Q-51, S-059")
def delete_if_unused(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    session.channel().call("queue.delete", queue=queue, if_unused=True)
    channel.call("basic.cancel", consumer_tag="c")
    session.channel().call("queue.delete", queue=queue, if_unused=True)


@scenario("Q/delete-if-unused-and-if-empty", "Q-51")
def delete_if_both(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.publish("", queue)
    channel.publish("", queue)
    channel.expect("basic.deliver")
    channel.sync()
    session.quiet("one is unacked, one is ready")
    session.channel().call("queue.delete", queue=queue, if_unused=True, if_empty=True)


@scenario("Q/delete-cancels-consumers", "Q-53, CO-13, S-093")
def delete_cancels(session: Session) -> None:
    one, two = session.connect(), session.connect(capabilities={})
    first, second = one.channel(), two.channel()
    queue = session.queue()
    first.call("basic.consume", queue=queue, consumer_tag="c")
    second.call("basic.consume", queue=queue, consumer_tag="d")
    deleting = one.channel()
    deleting.call("queue.delete", queue=queue)
    first.expect("basic.cancel")
    session.quiet("the queue is deleted")
    first.call("queue.declare", queue=queue, durable=True)
    first.call("basic.consume", queue=queue, consumer_tag="c")


@scenario("Q/delete-confirms-what-was-published", "Q-54, CF-06, S-101")
def delete_confirms(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("confirm.select")
    for _ in range(3):
        channel.publish("", queue, delivery_mode=2)

    channel.send("queue.delete", queue=queue)
    channel.confirms(3)


@scenario("Q/purge-takes-ready-messages-only", "Q-55, S-060")
def purge(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for number in range(3):
        channel.publish("", queue, b"message %d" % number)

    channel.call("basic.get", queue=queue)
    channel.call("queue.purge", queue=queue)
    channel.call("basic.recover", requeue=True)
    channel.call("basic.get", queue=queue)
    channel.call("queue.purge", queue=queue, nowait=True)
    channel.call("queue.purge", queue="no-" + queue)


@scenario("Q/purge-without-a-name", "CH-14")
def purge_unnamed(session: Session) -> None:
    session.channel().call("queue.purge")
    session.channel().call("queue.delete")
    session.channel().call("basic.get")
    session.channel().call("basic.consume")
    session.channel().call("queue.unbind", exchange="amq.direct")


@scenario("Q/auto-delete-after-the-last-consumer", "Q-60, Q-61, S-058")
def auto_delete(session: Session) -> None:
    queue = session.queue(auto_delete=True)
    channel = session.channel()
    channel.call("basic.get", queue=queue)
    channel.call("queue.declare", queue=queue, passive=True)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.consume", queue=queue, consumer_tag="d")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("queue.declare", queue=queue, passive=True)
    channel.call("basic.cancel", consumer_tag="d")
    channel.call("queue.declare", queue=queue, passive=True)


@scenario("Q/auto-delete-when-the-channel-closes", "Q-60, CH-06")
def auto_delete_channel(session: Session) -> None:
    queue = session.queue(auto_delete=True)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("channel.close", reply_code=200)
    session.channel().call("queue.declare", queue=queue, passive=True)


@scenario("Q/exclusive-queue-without-consumers-stays", "S-058")
def exclusive_stays(session: Session) -> None:
    channel = session.channel()
    queue = session.queue(channel=channel, durable=False, exclusive=True)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("queue.declare", queue=queue, passive=True)


@scenario("Q/queue-that-is-neither-durable-nor-exclusive", "Q-29")
def transient(session: Session) -> None:
    session.channel().call("queue.declare", queue=session.name())


@scenario("Q/expires", "Q-70, Q-72", is_slow=True)
def expires(session: Session) -> None:
    link = session.connect()
    arguments = {"x-expires": 1500}
    queues = [session.queue(f"q{number}", arguments=arguments) for number in range(4)]
    consuming = link.channel()
    consuming.call("basic.consume", queue=queues[1], consumer_tag="c")
    session.pause(900)
    link.channel().call("basic.get", queue=queues[2])
    link.channel().call("queue.declare", queue=queues[3], passive=True)
    session.pause(900)
    for queue in queues:
        link.channel().call("queue.declare", queue=queue, passive=True)

    consuming.call("basic.cancel", consumer_tag="c")
    session.pause(2600)
    for queue in queues:
        link.channel().call("queue.declare", queue=queue, passive=True)
