"""Section PO: policies and operator policies, and what they do to queues and exchanges."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from interop.compare.administration import Governed, PolicySetting
from interop.compare.catalogue import scenario
from interop.compare.scenarios.steps import fill

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

policy_scenario = partial(scenario, is_administered=True)


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
    found = session.administration.queue_governed(queue, expected)
    session.note(f"{queue} governed by {found}")


@policy_scenario("PO/max-length", "PO-01, PO-11")
def max_length(session: Session) -> None:
    queue = session.queue()
    fill(session, queue, *"abcde")
    name = policy(session, {"max-length": 3})
    governed(session, queue, Governed(name, "", {"max-length": 3}))
    session.quiet("two are dropped")
    session.channel().call("queue.declare", queue=queue, passive=True)
    fill(session, queue, *"fg")
    session.channel().call("queue.declare", queue=queue, passive=True)
    clear(session, name)
    fill(session, queue, *"hi")
    session.channel().call("queue.declare", queue=queue, passive=True)
