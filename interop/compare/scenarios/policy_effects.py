"""Section PO, continued: what policies do to queues and exchanges that are there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from interop.compare.administration import PolicySetting
from interop.compare.scenarios.policies import (
    apply,
    clear,
    counted,
    operator_policy,
    policy,
    policy_add,
    policy_scenario,
    typed_queue,
)
from interop.compare.scenarios.steps import drain, fill

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
    apply(session, PolicySetting(session.name("p"), f"^{queue}$", {"max-length": 2}))
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
