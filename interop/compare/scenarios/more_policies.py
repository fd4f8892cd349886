"""Section PO, continued: dead letters, alternates, arguments, and other types of queue."""

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
