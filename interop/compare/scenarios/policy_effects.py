"""Section PO, continued: what policies do to queues and exchanges that are there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from interop.compare.administration import Governed
from interop.compare.scenarios.policies import (
    clear,
    counted,
    governed,
    operator_policy,
    policy,
    policy_add,
    policy_scenario,
    typed_queue,
)
from interop.compare.scenarios.steps import drain, fill
from interop.compare.scenarios.streams import read, write

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

# -- limits of length


@policy_scenario("PO/max-length-set-changed-and-cleared", "PO-11, PO-12, Q-86")
def max_length(session: Session) -> None:
    queue = session.queue()
    fill(session, queue, *"abcde")
    for limit in (3, 2, 4):
        name = policy(session, {"max-length": limit})
        counted(session, queue)
        fill(session, queue, *"fghij")
        counted(session, queue)

    clear(session, name)
    fill(session, queue, *"klmno")
    counted(session, queue)
    drain(session, queue, 9)


FLAGS: Final[dict[str, dict[str, Any]]] = {
    "exclusive": {"exclusive": True},
    "auto-delete": {"auto_delete": True},
    "not-durable": {"durable": False},
}


def on_all_kinds(flags: dict[str, Any], session: Session) -> None:
    queue = session.queue(**flags)
    fill(session, queue, *"abcde")
    policy(session, {"max-length": 2})
    counted(session, queue)


for case, flags in FLAGS.items():
    policy_add(f"PO/on-what-is-{case}", "PO-11", partial(on_all_kinds, flags))


@policy_scenario("PO/on-what-the-server-named", "PO-02, PO-11")
def server_named(session: Session) -> None:
    channel = session.channel()
    answer = channel.call("queue.declare", exclusive=True)
    assert answer is not None
    queue = answer.text("queue")
    policy(session, {"max-length": 2}, "q")
    fill(session, queue, *"abc")
    counted(session, queue)


@policy_scenario("PO/max-length-of-bytes", "PO-05, PO-11, Q-82")
def max_bytes(session: Session) -> None:
    queue = session.queue()
    fill(session, queue, "x" * 40, "y" * 40, "z" * 40)
    policy(session, {"max-length-bytes": 90})
    counted(session, queue)


@policy_scenario("PO/max-length-dead-letters", "PO-11, DL-02")
def max_length_letters(session: Session) -> None:
    queue, target = session.queue(), session.queue("target")
    fill(session, queue, *"abc")
    definition = {
        "max-length": 1,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": target,
    }
    policy(session, definition)
    counted(session, queue)
    drain(session, target, 2)


@policy_scenario("PO/max-length-0-with-a-consumer", "PO-10, Q-84")
def zero_length(session: Session) -> None:
    queue = session.queue()
    policy(session, {"max-length": 0})
    fill(session, queue, "a")
    counted(session, queue)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, no_ack=True, consumer_tag="c")
    channel.publish("", queue, b"b")
    channel.expect("basic.deliver")


@policy_scenario("PO/unacked-messages-and-max-length", "PO-11, Q-81")
def unacked(session: Session) -> None:
    queue = session.queue()
    fill(session, queue, *"abcd")
    channel = session.channel()
    for _ in range(3):
        channel.call("basic.get", queue=queue)

    policy(session, {"max-length": 1})
    counted(session, queue)
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    counted(session, queue)
    drain(session, queue, 1)


OVERFLOWS: Final = ("reject-publish", "reject-publish-dlx", "drop-head")


def overflows(kind: str, overflow: str, session: Session) -> None:
    target = session.queue("target")
    queue = typed_queue(session, kind)
    definition = {
        "max-length": 1,
        "overflow": overflow,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": target,
    }
    name = policy(session, definition)
    fill(session, queue, "a")
    # Quorum queues let one more in before they say no.
    session.pause(200)
    fill(session, queue, "b")
    session.pause(200)
    fill(session, queue, "c")
    counted(session, queue)
    drain(session, target, 2)
    clear(session, name)
    session.pause(200)
    fill(session, queue, "d")
    counted(session, queue)


for overflow in OVERFLOWS:
    policy_add(
        f"PO/overflow-{overflow}", "PO-05, PO-11, Q-83", partial(overflows, "classic", overflow)
    )

policy_add("PO/overflow-of-quorum", "PO-05, Q-83", partial(overflows, "quorum", "reject-publish"))


@policy_scenario("PO/overflow-changes-while-full", "PO-11, Q-83")
def overflow_changes(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 1})
    fill(session, queue, "a")
    name = policy(session, {"overflow": "reject-publish"})
    fill(session, queue, "b")
    clear(session, name)
    fill(session, queue, "c")
    drain(session, queue, 1)


# -- times


@policy_scenario("PO/message-ttl", "PO-05, PO-11, TTL-01")
def message_ttl(session: Session) -> None:
    queue, target = session.queue(), session.queue("target")
    definition = {
        "message-ttl": 300,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": target,
    }
    name = policy(session, definition)
    fill(session, queue, "a")
    session.pause(900)
    counted(session, queue)
    drain(session, target, 1)
    clear(session, name)
    fill(session, queue, "b")
    session.pause(900)
    counted(session, queue)


@policy_scenario("PO/message-ttl-on-what-is-there", "PO-11, TTL-01")
def late_ttl(session: Session) -> None:
    queue = session.queue()
    fill(session, queue, "a")
    policy(session, {"message-ttl": 300})
    session.pause(900)
    counted(session, queue)
    fill(session, queue, "b")
    session.pause(900)
    counted(session, queue)


@policy_scenario("PO/message-ttl-cleared-before-it-is-over", "PO-11, TTL-01")
def cleared_ttl(session: Session) -> None:
    queue = session.queue()
    name = policy(session, {"message-ttl": 1000})
    fill(session, queue, "a")
    clear(session, name)
    fill(session, queue, "b")
    session.pause(2000)
    counted(session, queue)


@policy_scenario("PO/message-ttl-0", "PO-10, TTL-02")
def no_ttl(session: Session) -> None:
    queue = session.queue()
    policy(session, {"message-ttl": 0})
    fill(session, queue, "a")
    counted(session, queue)
    channel = session.channel()
    channel.call("basic.consume", queue=queue, no_ack=True, consumer_tag="c")
    channel.publish("", queue, b"b")
    channel.expect("basic.deliver")


def least_ttl(argument: int, by_policy: int, of_operator: int, session: Session) -> None:
    queue = session.queue(arguments={"x-message-ttl": argument})
    policy(session, {"message-ttl": by_policy})
    operator_policy(session, {"message-ttl": of_operator})
    fill(session, queue, "a")
    session.pause(900)
    counted(session, queue)


TIMES: Final = {
    "argument": (300, 60_000, 60_000),
    "policy": (60_000, 300, 60_000),
    "operator": (60_000, 60_000, 300),
    "none": (60_000, 60_000, 60_000),
}

for case, times in TIMES.items():
    policy_add(f"PO/least-message-ttl-of-{case}", "PO-04, PO-05", partial(least_ttl, *times))


@policy_scenario("PO/expires", "PO-05, PO-11, Q-70")
def expires(session: Session) -> None:
    queue = session.queue()
    policy(session, {"expires": 500})
    session.pause(1500)
    session.channel().call("queue.declare", queue=queue, passive=True)


@policy_scenario("PO/expires-cleared", "PO-11, Q-70")
def expires_cleared(session: Session) -> None:
    queue = session.queue()
    name = policy(session, {"expires": 1000})
    clear(session, name)
    session.pause(2000)
    counted(session, queue)


@policy_scenario("PO/expires-changed", "PO-11, Q-70")
def expires_changed(session: Session) -> None:
    queue = session.queue()
    policy(session, {"expires": 60_000})
    policy(session, {"expires": 500})
    session.pause(1500)
    session.channel().call("queue.declare", queue=queue, passive=True)


@policy_scenario("PO/expires-not-while-consumed", "PO-11, Q-71")
def expires_consumed(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    policy(session, {"expires": 500})
    session.pause(1500)
    session.channel().call("queue.declare", queue=queue, passive=True)
    channel.call("basic.cancel", consumer_tag="c")
    session.pause(1500)
    session.channel().call("queue.declare", queue=queue, passive=True)


# -- dead letters and alternates


@policy_scenario("PO/dead-letter-exchange-comes-and-goes", "PO-11, PO-12, DL-01")
def dead_letters(session: Session) -> None:
    queue, target = session.queue(), session.queue("target")
    exchange = session.exchange("fanout")
    session.bind(target, exchange)
    fill(session, queue, *"abc")
    channel = session.channel()
    name = ""
    for step in range(3):
        if step == 1:
            name = policy(session, {"dead-letter-exchange": exchange})
        elif step == 2:
            clear(session, name)

        channel.call("basic.get", queue=queue)
        channel.send("basic.reject", delivery_tag=step + 1)
        channel.sync()
        counted(session, target)

    drain(session, target, 1)


@policy_scenario("PO/arguments-of-dead-lettering-win", "PO-05, PO-12")
def own_letters(session: Session) -> None:
    own, other = session.queue("own"), session.queue("other")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": own}
    queue = session.queue(arguments=arguments)
    definition = {
        "dead-letter-exchange": "amq.fanout",
        "dead-letter-routing-key": other,
        "message-ttl": 0,
    }
    policy(session, definition)
    fill(session, queue, "a")
    drain(session, own, 1)
    drain(session, other, 0)


@policy_scenario("PO/dead-letter-key-of-the-policy-alone", "PO-05, DL-03")
def letter_key(session: Session) -> None:
    target = session.queue("target")
    queue = session.queue(arguments={"x-dead-letter-exchange": "", "x-message-ttl": 0})
    policy(session, {"dead-letter-routing-key": target})
    fill(session, queue, "a")
    session.quiet("dead-lettered")
    drain(session, target, 1)


@policy_scenario("PO/dead-letter-key-without-an-exchange", "PO-09, DL-01")
def key_alone(session: Session) -> None:
    target = session.queue("target")
    queue = session.queue()
    policy(session, {"dead-letter-routing-key": target, "message-ttl": 0})
    fill(session, queue, "a")
    counted(session, queue, target)


@policy_scenario("PO/alternate-exchange-comes-and-goes", "PO-11, PO-12, E-73")
def alternate(session: Session) -> None:
    exchange, caught = session.exchange(suffix="q-x"), session.queue("caught")
    target = session.exchange("fanout", "alternate")
    session.bind(caught, target)
    channel = session.channel()
    name = ""
    for step in range(3):
        if step == 1:
            name = policy(session, {"alternate-exchange": target}, apply_to="exchanges")
        elif step == 2:
            clear(session, name)

        channel.publish(exchange, "nowhere", mandatory=True)
        if step != 1:
            channel.expect("basic.return")

        channel.sync()
        counted(session, caught)


@policy_scenario("PO/argument-alternate-exchange-wins", "PO-05, PO-12, E-73")
def own_alternate(session: Session) -> None:
    targets = {}
    for suffix in ("own", "other"):
        targets[suffix] = session.exchange("fanout", f"{suffix}-x")
        session.bind(session.queue(suffix), targets[suffix])

    arguments = {"alternate-exchange": targets["own"]}
    exchange = session.exchange(suffix="q-x", arguments=arguments)
    policy(session, {"alternate-exchange": targets["other"]})
    session.channel().publish(exchange, "nowhere", mandatory=True)
    counted(session, session.name("own"), session.name("other"))


@policy_scenario("PO/alternate-exchange-that-is-not-there", "PO-12, E-73")
def no_alternate(session: Session) -> None:
    exchange = session.exchange(suffix="q-x")
    policy(session, {"alternate-exchange": session.name("missing")})
    channel = session.channel()
    channel.publish(exchange, "nowhere", mandatory=True)
    channel.expect("basic.return")


# -- arguments and policies


def least_length(argument: int, by_policy: int, of_operator: int, session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": argument})
    policy(session, {"max-length": by_policy})
    operator_policy(session, {"max-length": of_operator})
    fill(session, queue, *"abcdefgh")
    counted(session, queue)


LENGTHS: Final = {"argument": (2, 3, 4), "policy": (4, 2, 3), "operator": (3, 4, 2)}

for case, lengths in LENGTHS.items():
    policy_add(f"PO/least-length-of-{case}", "PO-04, PO-05, PO-12", partial(least_length, *lengths))


def which_overflow(kind: str, session: Session) -> None:
    queue = typed_queue(session, kind, x_overflow="drop-head", x_max_length=1)
    policy(session, {"overflow": "reject-publish"})
    for body in "abc":
        fill(session, queue, body)
        session.pause(200)

    counted(session, queue)
    session.channel().call("basic.get", queue=queue, no_ack=True)


for kind in ("classic", "quorum"):
    policy_add(f"PO/overflow-argument-of-{kind}", "PO-05", partial(which_overflow, kind))


@policy_scenario("PO/declared-again-under-a-policy", "PO-13, Q-10")
def redeclared(session: Session) -> None:
    queue = session.queue(arguments={"x-max-length": 5})
    name = policy(session, {"max-length": 2, "message-ttl": 60_000})
    governed(session, queue, Governed(name, "", {"max-length": 2, "message-ttl": 60_000}))
    for arguments in ({"x-max-length": 5}, {"x-max-length": 2}, {}, {"x-message-ttl": 60_000}):
        session.channel().call("queue.declare", queue=queue, durable=True, arguments=arguments)


@policy_scenario("PO/operator-without-a-policy", "PO-04, PO-07, PO-11")
def operator_alone(session: Session) -> None:
    queue = session.queue()
    name = operator_policy(session, {"max-length": 2})
    fill(session, queue, *"abcd")
    counted(session, queue)
    clear(session, name, is_operator=True)
    fill(session, queue, *"ef")
    counted(session, queue)


@policy_scenario("PO/operators-by-priority", "PO-03, PO-07")
def operators(session: Session) -> None:
    queue = session.queue()
    operator_policy(session, {"max-length": 1}, name="low", priority=1)
    high = operator_policy(session, {"max-length": 3}, name="high", priority=2)
    fill(session, queue, *"abcd")
    counted(session, queue)
    clear(session, high, is_operator=True)
    counted(session, queue)


# -- other types of queue


def limited(argument: int | None, session: Session) -> None:
    more: dict[str, Any] = {} if argument is None else {"x_delivery_limit": argument}
    target = session.queue("target")
    queue = typed_queue(session, "quorum", **more)
    definition = {
        "delivery-limit": 1,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": target,
    }
    policy(session, definition)
    fill(session, queue, "a")
    channel = session.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    for tag in (1, 2):
        channel.expect("basic.deliver")
        channel.send("basic.reject", delivery_tag=tag, requeue=True)

    session.quiet("two returns are too many")
    counted(session, target)


for case, argument in {"alone": None, "and-a-higher-argument": 5, "and-no-limit": -1}.items():
    policy_add(f"PO/delivery-limit-{case}", "PO-05, QQ-02", partial(limited, argument))


@policy_scenario("PO/quorum-queue-limits", "PO-05, PO-11")
def quorum_limits(session: Session) -> None:
    queue = typed_queue(session, "quorum")
    fill(session, queue, *"abcd")
    name = policy(session, {"max-length": 2})
    counted(session, queue)
    fill(session, queue, "e")
    counted(session, queue)
    clear(session, name)
    fill(session, queue, *"fg")
    counted(session, queue)


@policy_scenario("PO/quorum-queue-message-ttl", "PO-05, TTL-01")
def quorum_ttl(session: Session) -> None:
    queue = typed_queue(session, "quorum")
    policy(session, {"message-ttl": 300})
    fill(session, queue, "a")
    session.pause(900)
    drain(session, queue, 0)


@policy_scenario("PO/stream-retention", "PO-05, ST-07")
def stream_retention(session: Session) -> None:
    queue = typed_queue(session, "stream", x_stream_max_segment_size_bytes=1000)
    policy(session, {"max-length-bytes": 3000})
    write(session, queue, *["x" * 300] * 40)
    session.pause(500)
    link = session.connect()
    link.is_recording = False
    channel = read(session, queue, count=1, prefetch=1, channel=link.channel())
    offset = channel.last_properties["headers"]
    session.note("the first is there" if "value=0" in repr(offset) else "the first is gone")


@policy_scenario("PO/keys-of-other-types-do-nothing-to-streams", "PO-03, PO-08")
def stream_other(session: Session) -> None:
    queue = typed_queue(session, "stream")
    policy(session, {"message-ttl": 0, "max-length": 1})
    write(session, queue, *"abc")
    read(session, queue, count=3)
