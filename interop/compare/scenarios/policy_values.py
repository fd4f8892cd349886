"""Section PO, continued: what a policy may say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from interop.compare.administration import PolicySetting
from interop.compare.scenarios.policies import apply, operator_policy, policy, policy_add

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interop.compare.session import Session

__all__: list[str] = []

VALUES: Final[dict[str, list[object]]] = {
    "alternate-exchange": ["x", "", 5, True, None],
    "consumer-timeout": [0, 60_000, -1, "5"],
    "dead-letter-exchange": ["x", "", 5, None],
    "dead-letter-routing-key": ["k", "", 5, None],
    "dead-letter-strategy": ["at-most-once", "at-least-once", "sometimes", 5],
    "delayed-retry-type": ["all", "never", 5],
    "delayed-retry-min": [1, 0, "5"],
    "delayed-retry-max": [1, 0, "5"],
    "delivery-limit": [0, 5, -1, "5", 1.5, None],
    "expires": [1, 0, -1, "5", 1.5, True],
    "initial-cluster-size": [1, 0, -1, "5"],
    "max-age": ["1h", "1w", "h", "", 5, None],
    "max-in-memory-bytes": [0, -1, "5"],
    "max-in-memory-length": [0, -1, "5"],
    "max-length": [0, 5, -1, "5", 1.5, None],
    "max-length-bytes": [0, 5, -1, "5"],
    "message-ttl": [0, 5, -1, "5", 1.5, True, None],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx", "Drop-Head", "", 5],
    "queue-leader-locator": ["client-local", "balanced", "random", "least-leaders", "nobody", 5],
    "queue-mode": ["default", "lazy", "eager", 5],
    "queue-version": [1, 2, 3, "1"],
    "stream-filter-size-bytes": [16, 255, 15, 256, "16"],
    "stream-max-segment-size-bytes": [0, 3_000_000_000, 3_000_000_001, -1, "5"],
    "target-group-size": [1, 0, "5"],
    "ha-mode": ["all", "some"],
    "ha-sync-mode": ["automatic", "never"],
    "queue-master-locator": ["min-masters", "nobody"],
    "max-priority": [5],
    "queue-type": ["quorum"],
    "single-active-consumer": [True],
    "unheard-of": ["text", 5, 1.5, True, None, ["a"], {"a": 1}],
    "x-message-ttl": [5],
}


def set_each(definitions: Sequence[object], session: Session) -> None:
    for number, definition in enumerate(definitions):
        session.note(f"{definition!r}")
        policy(session, definition, name=f"p{number}")


for key, values in VALUES.items():
    policy_add(
        f"PO/values-of-{key}",
        "PO-06, PO-09, PO-10, PO-13",
        partial(set_each, [{key: value} for value in values]),
    )

DEFINITIONS: Final[dict[str, Sequence[object]]] = {
    "empty": [{}],
    "no-object": ["text", 5, None, [1]],
    "two-unknown-keys": [{"b": 1, "a": "x"}],
    "an-unknown-key-and-a-wrong-value": [{"a": 1, "max-length": -1}, {"zz": 1, "max-length": -1}],
    "two-wrong-values": [{"max-length": -1, "expires": 0}],
    "delayed-retry-without-a-minimum": [{"delayed-retry-type": "all"}],
    "delayed-retry-upside-down": [
        {"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 4}
    ],
}

for case, definitions in DEFINITIONS.items():
    policy_add(f"PO/definition-{case}", "PO-09", partial(set_each, definitions))


def set_operators(session: Session) -> None:
    for key, values in VALUES.items():
        operator_policy(session, {key: values[0]}, name=f"o-{key}")


policy_add("PO/keys-of-operators", "PO-07, PO-09", set_operators)


def set_wrong(changes: Sequence[dict[str, Any]], session: Session) -> None:
    for number, change in enumerate(changes):
        name = session.name(f"p{number}")
        setting = PolicySetting(name, f"^{name}", {"max-length": 5})
        session.note(f"{change!r}")
        apply(session, setting._replace(**change))


WRONG: Final[dict[str, Sequence[dict[str, Any]]]] = {
    "apply-to": [{"apply_to": value} for value in ("everything", "", "Queues", 5)],
    "priority": [{"priority": value} for value in ("5", None, True, 5)],
    "pattern": [{"pattern": value} for value in ("(", "[a", "*", 5)],
    "everything": [{"pattern": "(", "apply_to": "x", "definition": {}, "priority": "5"}],
}

for case, changes in WRONG.items():
    policy_add(f"PO/wrong-{case}", "PO-01, PO-09", partial(set_wrong, changes))
