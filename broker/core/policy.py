"""Policies: settings that an operator lays over queues and exchanges by name (layer: core; rules
PO-01..PO-13).

A :class:`PolicySet` belongs to one virtual host. It is asked when a queue or an exchange is made
and, for all of them, when a policy changes (rule PO-11): never for each message.

Patterns are searched in bounded time, whatever they are (broker/auth/patterns.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.erlterm import erl_list, erl_tuple
from broker.core.policy_rules import (
    MIRRORING_KEYS,
    Definition,
    PolicyInvalid,
    apply_to_fault,
    compile_pattern,
    definition_fault,
    pattern_fault,
    priority_fault,
)
from broker.core.queue.argument_rules import max_age_ms
from broker.core.queue.arguments import CLASSIC, QUORUM, STREAM, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "NOTHING_APPLIED",
    "AppliedPolicy",
    "Policy",
    "PolicyInvalid",
    "PolicySet",
    "effective_alternate_exchange",
    "effective_settings",
    "merge_definitions",
    "policy_from_plain",
]

_QUEUE_TYPES_BY_APPLY_TO: Final[dict[str, frozenset[str]]] = {
    "all": frozenset({CLASSIC, QUORUM, STREAM}),
    "queues": frozenset({CLASSIC, QUORUM, STREAM}),
    "classic_queues": frozenset({CLASSIC}),
    "quorum_queues": frozenset({QUORUM}),
    "streams": frozenset({STREAM}),
    "exchanges": frozenset(),
}

_UNSUPPORTED_KEYS: Final[dict[str, frozenset[str]]] = {
    # Rule PO-08 as RabbitMQ 4.3 does it.
    CLASSIC: frozenset(
        {
            "dead-letter-strategy",
            "delivery-limit",
            "initial-cluster-size",
            "max-age",
            "max-in-memory-bytes",
            "max-in-memory-length",
            "stream-max-segment-size-bytes",
            "target-group-size",
        }
    ),
    QUORUM: frozenset(
        {
            "initial-cluster-size",
            "max-age",
            "queue-master-locator",
            "queue-mode",
            "stream-max-segment-size-bytes",
            *MIRRORING_KEYS,
        }
    ),
    STREAM: frozenset(
        {
            "dead-letter-exchange",
            "dead-letter-routing-key",
            "dead-letter-strategy",
            "delivery-limit",
            "expires",
            "max-in-memory-bytes",
            "max-in-memory-length",
            "max-length",
            "message-ttl",
            "overflow",
            "queue-master-locator",
            "queue-mode",
            "target-group-size",
            "ttl-anywhere",
            *MIRRORING_KEYS,
        }
    ),
}
"""A policy with one of these does not apply to such a queue at all (rule PO-03)."""

_LOWER_WINS: Final = frozenset(
    {
        "delayed-retry-max",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    }
)


class Policy:
    """One policy or operator policy, known to be sound.

    Attributes:
        name: unique among the policies, or the operator policies, of a virtual host.
        pattern: searched in the names of queues and exchanges, anchored only if it says so.
        apply_to: one of ``policy_rules.APPLY_TO``.
        definition: the settings, as JSON values.
        priority: the highest that matches is the one that applies.
        regex: the pattern, ready to be searched for.

    """

    __slots__ = ("apply_to", "definition", "name", "pattern", "priority", "regex")

    def __init__(
        self,
        name: str,
        pattern: str,
        definition: Definition,
        *,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        self.name = name
        self.pattern = pattern
        self.definition = definition
        self.apply_to = apply_to
        self.priority = priority
        self.regex = compile_pattern(pattern)

    def applies_to_queue(self, name: str, queue_type: str) -> bool:
        """Whether this can govern such a queue (rule PO-03), higher priorities aside."""
        if queue_type not in _QUEUE_TYPES_BY_APPLY_TO[self.apply_to]:
            return False

        unsupported = _UNSUPPORTED_KEYS.get(queue_type)
        if unsupported is not None and not unsupported.isdisjoint(self.definition):
            return False

        return self.regex.matches(name)

    def applies_to_exchange(self, name: str) -> bool:
        """Whether this can govern an exchange of that name, higher priorities aside."""
        return self.apply_to in ("all", "exchanges") and self.regex.matches(name)


class AppliedPolicy(NamedTuple):
    """What governs one queue or exchange, and the two definitions merged (rule PO-04)."""

    policy: Policy | None
    operator_policy: Policy | None
    definition: Definition


NOTHING_APPLIED: Final = AppliedPolicy(None, None, {})


class PolicySet:
    """The policies and operator policies of one virtual host."""

    __slots__ = ("_operator_policies", "_policies")

    def __init__(self) -> None:
        self._policies: list[Policy] = []
        self._operator_policies: list[Policy] = []

    @property
    def policies(self) -> list[Policy]:
        """All policies, the first to apply in front."""
        return list(self._policies)

    @property
    def operator_policies(self) -> list[Policy]:
        """All operator policies, the first to apply in front."""
        return list(self._operator_policies)

    def set_policy(self, policy: Policy, *, is_operator: bool = False) -> None:
        """Add a policy, or replace the one of that name.

        After calling this you must ask again for every queue and exchange (rule PO-11).
        """
        self.clear_policy(policy.name, is_operator=is_operator)
        policies = self._operator_policies if is_operator else self._policies
        policies.append(policy)
        policies.sort(key=_rank_of)

    def clear_policy(self, name: str, *, is_operator: bool = False) -> bool:
        """Remove a policy; whether there was one. As :meth:`set_policy`, you must ask again."""
        policies = self._operator_policies if is_operator else self._policies
        for index, policy in enumerate(policies):
            if policy.name == name:
                del policies[index]
                return True

        return False

    def for_queue(self, name: str, queue_type: str) -> AppliedPolicy:
        """What governs a queue (rule PO-03)."""
        if not self._policies and not self._operator_policies:
            return NOTHING_APPLIED

        policy = _first_for_queue(self._policies, name, queue_type)
        operator_policy = _first_for_queue(self._operator_policies, name, queue_type)
        return _applied(policy, operator_policy)

    def for_exchange(self, name: str) -> AppliedPolicy:
        """What governs an exchange (rule PO-03)."""
        if not self._policies and not self._operator_policies:
            return NOTHING_APPLIED

        policy = _first_for_exchange(self._policies, name)
        operator_policy = _first_for_exchange(self._operator_policies, name)
        return _applied(policy, operator_policy)


def _rank_of(policy: Policy) -> tuple[int, str]:
    # RabbitMQ leaves ties open (rule PO-03, K-02); 4.3 was seen to take the first name.
    return (-policy.priority, policy.name)


def _first_for_queue(policies: list[Policy], name: str, queue_type: str) -> Policy | None:
    for policy in policies:
        if policy.applies_to_queue(name, queue_type):
            return policy

    return None


def _first_for_exchange(policies: list[Policy], name: str) -> Policy | None:
    for policy in policies:
        if policy.applies_to_exchange(name):
            return policy

    return None


def _applied(policy: Policy | None, operator_policy: Policy | None) -> AppliedPolicy:
    if policy is None and operator_policy is None:
        return NOTHING_APPLIED

    definition = merge_definitions(
        {} if policy is None else policy.definition,
        {} if operator_policy is None else operator_policy.definition,
    )
    return AppliedPolicy(policy, operator_policy, definition)


def merge_definitions(policy: Definition, operator_policy: Definition) -> Definition:
    """The settings of both; where they differ, the stricter or the operator's (rule PO-04)."""
    merged = dict(policy)
    for key, value in operator_policy.items():
        if key in policy:
            merged[key] = _merge_value(key, policy[key], value)
        else:
            merged[key] = value

    return merged


def _merge_value(key: str, value: object, operator_value: object) -> object:
    if not isinstance(value, int) or not isinstance(operator_value, int):
        return operator_value

    if key in _LOWER_WINS:
        return min(value, operator_value)

    if key == "delayed-retry-min":
        return max(value, operator_value)

    if key == "delivery-limit":
        return _stricter_delivery_limit(value, operator_value)

    return operator_value


def _stricter_delivery_limit(one: int, other: int) -> int:
    """The lower of both; a negative limit is none at all, and wins (rules QQ-02, PO-04)."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)


def effective_settings(
    settings: QueueSettings, definition: Definition, queue_type: str = CLASSIC
) -> QueueSettings:
    """What a queue does, given its arguments and what governs it (rules PO-05, PO-13).

    Numbers are the lower of both; of texts the argument's wins. The result is ``settings`` itself
    when nothing governs the queue, else a new object.
    """
    if not definition:
        return settings

    result = settings.copy()
    result.message_ttl_ms = _lower(settings.message_ttl_ms, definition.get("message-ttl"))
    result.expires_ms = _lower(settings.expires_ms, definition.get("expires"))
    result.length_max = _lower(settings.length_max, definition.get("max-length"))
    result.length_bytes_max = _lower(settings.length_bytes_max, definition.get("max-length-bytes"))
    result.consumer_timeout_ms = _lower(
        settings.consumer_timeout_ms, definition.get("consumer-timeout")
    )
    result.overflow = _first_text(settings.overflow, definition.get("overflow"))
    result.dead_letter_exchange = _first_text(
        settings.dead_letter_exchange, definition.get("dead-letter-exchange")
    )
    result.dead_letter_routing_key = _first_text(
        settings.dead_letter_routing_key, definition.get("dead-letter-routing-key")
    )
    anywhere = definition.get("ttl-anywhere")
    if settings.ttl_anywhere is None and isinstance(anywhere, bool):
        result.ttl_anywhere = anywhere

    if queue_type == QUORUM:
        _apply_to_quorum(result, definition)
    elif queue_type == STREAM:
        _apply_to_stream(result, definition)

    return result


def _apply_to_quorum(settings: QueueSettings, definition: Definition) -> None:
    """What only quorum queues take from a policy."""
    overflow = definition.get("overflow")
    if isinstance(overflow, str):
        # Rule PO-05: here the policy wins.
        settings.overflow = overflow

    limit = definition.get("delivery-limit")
    if isinstance(limit, int):
        own = settings.delivery_limit
        settings.delivery_limit = limit if own is None else _stricter_delivery_limit(own, limit)

    settings.dead_letter_strategy = _first_text(
        settings.dead_letter_strategy, definition.get("dead-letter-strategy")
    )
    settings.delayed_retry_type = _first_text(
        settings.delayed_retry_type, definition.get("delayed-retry-type")
    )
    settings.delayed_retry_max_ms = _lower(
        settings.delayed_retry_max_ms, definition.get("delayed-retry-max")
    )
    shortest = definition.get("delayed-retry-min")
    if isinstance(shortest, int):
        settings.delayed_retry_min_ms = max(shortest, settings.delayed_retry_min_ms or 0)


def _apply_to_stream(settings: QueueSettings, definition: Definition) -> None:
    """What only streams take from a policy; here it always wins (rule PO-05)."""
    bytes_max = definition.get("max-length-bytes")
    if isinstance(bytes_max, int):
        settings.length_bytes_max = bytes_max

    max_age = definition.get("max-age")
    if isinstance(max_age, str):
        settings.max_age_ms = max_age_ms(max_age)

    segment_bytes_max = definition.get("stream-max-segment-size-bytes")
    if isinstance(segment_bytes_max, int):
        settings.segment_bytes_max = segment_bytes_max


def effective_alternate_exchange(argument: str | None, definition: Definition) -> str | None:
    """The alternate exchange that counts: the argument's before the policy's (rule PO-05)."""
    return _first_text(argument, definition.get("alternate-exchange"))


def _lower(argument: int | None, policy_value: object) -> int | None:
    if not isinstance(policy_value, int):
        return argument

    return policy_value if argument is None else min(argument, policy_value)


def _first_text(argument: str | None, policy_value: object) -> str | None:
    if argument is None and isinstance(policy_value, str):
        return policy_value

    return argument


def policy_from_plain(
    name: str, value: Mapping[str, object], *, is_operator: bool = False
) -> Policy:
    """Make a policy of ``pattern``, ``definition``, ``apply-to`` and ``priority`` as JSON has them.

    Raises:
        PolicyInvalid: something in it is missing or wrong; all of it at once, a line each, as
            RabbitMQ does (rules PO-09, PO-10).

    """
    for required in ("pattern", "definition"):
        if required not in value:
            raise PolicyInvalid(erl_list([erl_tuple("key_missing", required)]))

    definition = value["definition"]
    apply_to = value.get("apply-to", "all")
    pattern = value["pattern"]
    priority = value.get("priority", 0)
    faults = [
        definition_fault(definition, is_operator),
        apply_to_fault(apply_to),
        pattern_fault(pattern),
        priority_fault(priority),
    ]
    text = "\n".join([fault for fault in faults if fault])
    if (
        text
        or not isinstance(definition, dict)
        or not isinstance(apply_to, str)
        or not isinstance(pattern, str)
        or not isinstance(priority, int)
    ):
        raise PolicyInvalid(text)

    return Policy(name, pattern, dict(definition), apply_to=apply_to, priority=priority)
