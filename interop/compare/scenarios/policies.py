"""Section PO: policies and operator policies, and what they do to queues and exchanges."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.administration import Governed, PolicySetting
from interop.compare.catalogue import add, scenario
from interop.compare.scenarios.steps import fill

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__ = [
    "apply",
    "clear",
    "counted",
    "governed",
    "operator_policy",
    "pattern",
    "policy",
    "policy_add",
    "policy_scenario",
    "typed_queue",
]

STATISTICS_MS: Final = 16_000
"""When RabbitMQ's API has heard of every queue again. That nothing governs one shows then."""

policy_scenario = partial(scenario, is_administered=True, is_slow=True)
policy_add = partial(add, is_administered=True, is_slow=True)


def pattern(session: Session, suffix: str) -> str:
    """A pattern for the names of this run alone, of those that go on so."""
    return "^" + re.escape(session.name(suffix))


def apply(session: Session, setting: PolicySetting) -> None:
    """Set a policy until the scenario is over."""
    administration = session.administration
    is_operator = setting.is_operator
    session.administer(
        "policy",
        partial(administration.set_policy, setting),
        undo=partial(administration.clear_policy, setting.name, is_operator=is_operator),
    )


def policy(
    session: Session,
    definition: object,
    on: str = "q",
    *,
    name: str = "p",
    apply_to: str = "all",
    priority: int = 0,
) -> str:
    """Set a policy for what this run calls so; returns its name."""
    full = session.name(name)
    setting = PolicySetting(full, pattern(session, on), definition, apply_to, priority)
    apply(session, setting)
    return full


def operator_policy(
    session: Session, definition: object, on: str = "q", *, name: str = "o", priority: int = 0
) -> str:
    """Set an operator policy for queues that this run calls so; returns its name."""
    full = session.name(name)
    setting = PolicySetting(full, pattern(session, on), definition, "queues", priority, True)
    apply(session, setting)
    return full


def clear(session: Session, name: str, *, is_operator: bool = False) -> None:
    """Remove a policy."""
    step = partial(session.administration.clear_policy, name, is_operator=is_operator)
    session.administer("clearing", step)


def governed(session: Session, queue: str, expected: Governed) -> None:
    """Wait until that governs a queue, and write down what does."""
    if not expected.policy and not expected.operator_policy:
        session.pause(STATISTICS_MS)

    found = session.administration.queue_governed(queue, expected)
    session.note(f"{queue} governed by {found}")


def counted(session: Session, *queues: str) -> None:
    """Write down how many messages are ready."""
    session.quiet("counted")
    channel = session.channel()
    for queue in queues:
        channel.call("queue.declare", queue=queue, passive=True)


def typed_queue(session: Session, kind: str, suffix: str = "q", **more: object) -> str:
    """Declare a queue of a type; returns its name."""
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return session.queue(suffix, arguments={"x-queue-type": kind, **given})


# -- which policy applies

APPLY_TO: Final = ("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams")
TYPES: Final = ("classic", "quorum", "stream")


def applied_to(apply_to: str, session: Session) -> None:
    queues = {kind: typed_queue(session, kind, f"q-{kind}") for kind in TYPES}
    exchange = session.exchange(suffix="q-x")
    key = "alternate-exchange" if apply_to in {"all", "exchanges"} else "max-length-bytes"
    definition: dict[str, object] = {
        key: "amq.fanout" if key == "alternate-exchange" else 20_000_000
    }
    name = policy(session, definition, apply_to=apply_to)
    for kind, queue in queues.items():
        is_meant = apply_to in {"all", "queues", f"{kind}_queues", f"{kind}s"}
        governed(session, queue, Governed(name, "", definition) if is_meant else Governed())

    session.note(f"exchange: {session.administration.exchange_policy(exchange)!r}")


for apply_to in APPLY_TO:
    policy_add(f"PO/apply-to-{apply_to}", "PO-01, PO-03", partial(applied_to, apply_to))


PATTERNS: Final[dict[str, str]] = {
    "beginning": "^RUN-q",
    "anywhere": "RUN-q",
    "whole": "^RUN-q$",
    "end": "RUN-q1$",
    "alternatives": "^RUN-(q1|other)$",
    "any-digit": r"^RUN-q\d$",
    "class": "^RUN-q[12]$",
    "other-case": "(?i)^RUN-Q$",
    "other-case-without-saying-so": "^RUN-Q$",
    "repeat": "^RUN-.{2}$",
    "nothing-of-this-run": "^RUNNER",
}
"""The name of the run comes in where RUN stands. The queues are RUN-q, RUN-q1 and RUN-other."""


def matched(text: str, session: Session) -> None:
    queues = [session.queue(suffix) for suffix in ("q", "q1", "other")]
    run_name = queues[0].removesuffix("-q")
    name = session.name("p")
    definition: dict[str, object] = {"max-length": 5}
    apply(session, PolicySetting(name, text.replace("RUN", run_name), definition))
    regex = re.compile(text.replace("RUN", run_name))
    for queue in queues:
        is_meant = regex.search(queue) is not None
        governed(session, queue, Governed(name, "", definition) if is_meant else Governed())


for case, text in PATTERNS.items():
    policy_add(f"PO/pattern-{case}", "PO-02", partial(matched, text))


@policy_scenario("PO/pattern-empty", "PO-02, PO-01")
def empty_pattern(session: Session) -> None:
    vhost = session.name("vhost")
    administration = session.administration
    session.administer(
        "vhost",
        partial(administration.add_vhost, vhost),
        undo=partial(administration.delete_vhost, vhost),
    )
    link = session.raw_link()
    link.is_recording = False
    link.start()
    link.log_in()
    link.tune_and_open(vhost)
    link.is_recording = True
    channel = link.channel()
    channel.call("queue.declare", queue="any", durable=True)
    definition: dict[str, object] = {"max-length": 1}
    name = session.name("p")
    administration.set_policy(PolicySetting(name, "", definition, vhost=vhost))
    expected = Governed(name, "", definition)
    session.note(str(administration.queue_governed("any", expected, vhost=vhost)))
    for exchange in ("amq.direct", "amq.topic"):
        session.note(administration.exchange_policy(exchange, vhost=vhost))


@policy_scenario("PO/not-in-another-vhost", "PO-01, PO-03")
def other_vhost(session: Session) -> None:
    vhost = session.name("vhost")
    administration = session.administration
    session.administer(
        "vhost",
        partial(administration.add_vhost, vhost),
        undo=partial(administration.delete_vhost, vhost),
    )
    queue = session.queue()
    administration.set_policy(PolicySetting("p", "", {"max-length": 1}, vhost=vhost))
    fill(session, queue, *"ab")
    counted(session, queue)


@policy_scenario("PO/highest-priority-applies", "PO-03")
def priorities(session: Session) -> None:
    queue = session.queue()
    names = {
        priority: policy(
            session, {"max-length": priority + 10}, name=f"p{priority}", priority=priority
        )
        for priority in (0, 7, -3)
    }
    for priority in (7, 0, -3):
        expected: dict[str, object] = {"max-length": priority + 10}
        governed(session, queue, Governed(names[priority], "", expected))
        clear(session, names[priority])

    governed(session, queue, Governed())


@policy_scenario("PO/only-one-applies", "PO-03")
def only_one(session: Session) -> None:
    queue = session.queue()
    first = policy(session, {"max-length": 2}, name="first", priority=2)
    policy(session, {"message-ttl": 0, "max-length": 1}, name="second", priority=1)
    governed(session, queue, Governed(first, "", {"max-length": 2}))
    fill(session, queue, *"abc")
    counted(session, queue)


@policy_scenario("PO/inapplicable-ones-leave-their-place", "PO-03, PO-08")
def inapplicable(session: Session) -> None:
    high: dict[str, object] = {"delivery-limit": 3, "max-length": 1}
    first = policy(session, high, name="first", priority=5)
    second = policy(session, {"max-length": 3}, name="second")
    for kind in ("classic", "quorum"):
        queue = typed_queue(session, kind, f"q-{kind}")
        expected = Governed(first, "", high) if kind == "quorum" else Governed(second, "", LENGTH)
        governed(session, queue, expected)


LENGTH: Final[dict[str, object]] = {"max-length": 3}


@policy_scenario("PO/replaced-by-one-of-its-name", "PO-11, PO-02")
def replaced(session: Session) -> None:
    one, other = session.queue("q"), session.queue("r")
    name = policy(session, LENGTH)
    governed(session, one, Governed(name, "", LENGTH))
    policy(session, LENGTH, on="r")
    governed(session, other, Governed(name, "", LENGTH))
    governed(session, one, Governed())


@policy_scenario("PO/there-before-the-queue", "PO-03, PO-11")
def before(session: Session) -> None:
    name = policy(session, LENGTH)
    governed(session, session.queue(), Governed(name, "", LENGTH))


@policy_scenario("PO/clearing-what-is-not-there", "PO-14")
def clear_nothing(session: Session) -> None:
    clear(session, session.name("p"))
    clear(session, session.name("p"), is_operator=True)


# -- which keys a type of queue knows

KEYS: Final[dict[str, object]] = {
    "alternate-exchange": "x",
    "consumer-timeout": 60_000,
    "dead-letter-exchange": "x",
    "dead-letter-routing-key": "k",
    "dead-letter-strategy": "at-most-once",
    "delayed-retry-min": 5,
    "delivery-limit": 5,
    "expires": 600_000,
    "initial-cluster-size": 1,
    "max-age": "1h",
    "max-in-memory-bytes": 5,
    "max-in-memory-length": 5,
    "max-length": 5,
    "max-length-bytes": 20_000_000,
    "message-ttl": 60_000,
    "overflow": "drop-head",
    "queue-leader-locator": "client-local",
    "queue-mode": "lazy",
    "queue-version": 2,
    "stream-filter-size-bytes": 32,
    "stream-max-segment-size-bytes": 1_000_000,
    "target-group-size": 1,
}


def effective_on(kind: str, session: Session) -> None:
    """A limit besides the key shows whether the policy is effective, without statistics."""
    for key, value in KEYS.items():
        queue = typed_queue(session, kind, f"q-{key}-q")
        policy(session, {key: value, "max-length": 1}, f"q-{key}-q", name=f"p-{key}")
        fill(session, queue, *"ab")
        counted(session, queue)


for kind in ("classic", "quorum"):
    policy_add(f"PO/keys-for-{kind}", "PO-03, PO-06, PO-08", partial(effective_on, kind))


@policy_scenario("PO/keys-for-stream", "PO-03, PO-06, PO-08")
def effective_on_streams(session: Session) -> None:
    queues = {key: typed_queue(session, "stream", f"q-{key}-q") for key in KEYS}
    for key, value in KEYS.items():
        policy(session, {key: value}, f"q-{key}-q", name=f"p-{key}")

    session.pause(STATISTICS_MS)
    for key, queue in queues.items():
        found = session.administration.queue_governed(queue, None)
        session.note(f"{key}: {'governs' if found.policy else 'does not govern'}")


# -- both kinds at once

MERGED: Final[dict[str, tuple[dict[str, object], dict[str, object], dict[str, object]]]] = {
    "lower-of-the-operator": ({"max-length": 5}, {"max-length": 3}, {"max-length": 3}),
    "lower-of-the-policy": ({"max-length": 3}, {"max-length": 5}, {"max-length": 3}),
    "different-keys": (
        {"max-length": 3},
        {"message-ttl": 60_000},
        {"max-length": 3, "message-ttl": 60_000},
    ),
    "numbers": (
        {"expires": 70_000, "message-ttl": 100, "max-length-bytes": 100},
        {"expires": 60_000, "message-ttl": 200, "max-length-bytes": 50},
        {"expires": 60_000, "message-ttl": 100, "max-length-bytes": 50},
    ),
    "overflow": (
        {"overflow": "drop-head", "max-length": 3},
        {"overflow": "reject-publish"},
        {"overflow": "reject-publish", "max-length": 3},
    ),
    "other-overflow": (
        {"overflow": "reject-publish"},
        {"overflow": "drop-head"},
        {"overflow": "drop-head"},
    ),
    "queue-version": ({"queue-version": 2}, {"queue-version": 1}, {"queue-version": 1}),
}

QUORUM_MERGED: Final[dict[str, tuple[dict[str, object], dict[str, object], dict[str, object]]]] = {
    "delivery-limit": ({"delivery-limit": 5}, {"delivery-limit": 3}, {"delivery-limit": 3}),
    "lower-delivery-limit": ({"delivery-limit": 3}, {"delivery-limit": 5}, {"delivery-limit": 3}),
    "no-delivery-limit": ({"delivery-limit": -1}, {"delivery-limit": 5}, {"delivery-limit": 5}),
    "no-delivery-limit-of-the-operator": (
        {"delivery-limit": 5},
        {"delivery-limit": -1},
        {"delivery-limit": 5},
    ),
    "delayed-retry": (
        {"delayed-retry-type": "all", "delayed-retry-min": 100, "delayed-retry-max": 900},
        {"delayed-retry-type": "failed", "delayed-retry-min": 200, "delayed-retry-max": 800},
        {"delayed-retry-type": "failed", "delayed-retry-min": 200, "delayed-retry-max": 800},
    ),
    "target-group-size": (
        {"target-group-size": 3},
        {"target-group-size": 5},
        {"target-group-size": 5},
    ),
    "in-memory-limits": (
        {"max-in-memory-length": 3, "max-in-memory-bytes": 50},
        {"max-in-memory-length": 5, "max-in-memory-bytes": 40},
        {"max-in-memory-length": 3, "max-in-memory-bytes": 40},
    ),
}


def merged(kind: str, case: str, session: Session) -> None:
    table = QUORUM_MERGED if kind == "quorum" else MERGED
    given, of_operator, expected = table[case]
    queue = typed_queue(session, kind)
    name = policy(session, given)
    operator_name = operator_policy(session, of_operator)
    governed(session, queue, Governed(name, operator_name, expected))
    clear(session, operator_name, is_operator=True)
    governed(session, queue, Governed(name, "", given))


for case in MERGED:
    policy_add(f"PO/merged-{case}", "PO-04, PO-07", partial(merged, "classic", case))

for case in QUORUM_MERGED:
    policy_add(f"PO/merged-{case}", "PO-04, PO-07, QQ-02", partial(merged, "quorum", case))
