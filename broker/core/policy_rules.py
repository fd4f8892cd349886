"""What a policy may say, and the texts for what it may not (layer: core; rules PO-06..PO-10).

Texts are RabbitMQ 4.3's: people read them in the HTTP API and on the command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.auth.patterns import KnowingPattern, PatternError, knowing_pattern
from broker.core.erlterm import erl_binary, erl_list, erl_plain, erl_string, erl_tuple
from broker.core.names import fits_short_string
from broker.core.queue.argument_rules import (
    OVERFLOWS,
    STRATEGIES,
    STREAM_FILTER_BYTES_MAX,
    STREAM_FILTER_BYTES_MIN,
    STREAM_SEGMENT_BYTES_MAX,
    is_max_age,
)
from broker.errors import BrokerError
from broker.limits import POLICY_PATTERN_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "APPLY_TO",
    "MIRRORING_KEYS",
    "OPERATOR_KEYS",
    "POLICY_KEYS",
    "Definition",
    "PolicyInvalid",
    "PolicyKey",
    "apply_to_fault",
    "compile_pattern",
    "definition_fault",
    "pattern_fault",
    "priority_fault",
]

Definition = dict[str, object]
"""The settings of a policy, as JSON values."""

APPLY_TO: Final = (
    "all",
    "queues",
    "classic_queues",
    "quorum_queues",
    "streams",
    "exchanges",
)

MIRRORING_KEYS: Final = (
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-batch-size",
    "ha-sync-mode",
)

_POSIX_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")

_LOCATORS: Final = frozenset({"balanced", "client-local", "least-leaders", "random"})


class PolicyInvalid(BrokerError):
    """A policy that cannot be set; the text, perhaps of several lines, is RabbitMQ's (PO-09)."""


class PolicyKey(NamedTuple):
    """One setting of a definition: ``<value> is not a valid <noun>`` unless ``is_valid``."""

    key: str
    noun: str
    is_valid: Callable[[object], bool]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_not_negative(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_routing_key(value: object) -> bool:
    # RabbitMQ takes a longer one, see the argument of queues.
    return isinstance(value, str) and fits_short_string(value)


def _is_anything(_value: object) -> bool:
    return True


def _is_strategy(value: object) -> bool:
    return isinstance(value, str) and value in STRATEGIES


def _is_overflow(value: object) -> bool:
    return isinstance(value, str) and value in OVERFLOWS


def _is_queue_mode(value: object) -> bool:
    return isinstance(value, str) and value in ("default", "lazy")


def _is_queue_version(value: object) -> bool:
    return _is_whole(value) and value in (1, 2)


def _is_policy_max_age(value: object) -> bool:
    return isinstance(value, str) and is_max_age(value)


def _is_segment_size(value: object) -> bool:
    return isinstance(value, int) and _is_not_negative(value) and value <= STREAM_SEGMENT_BYTES_MAX


def _is_filter_size(value: object) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and STREAM_FILTER_BYTES_MIN <= value <= STREAM_FILTER_BYTES_MAX
    )


def _is_locator(value: object) -> bool:
    return isinstance(value, str) and value in _LOCATORS


def _is_retry_type(value: object) -> bool:
    return isinstance(value, str) and value in ("all", "failed", "returned", "disabled")


# Rule PO-06 with the nouns of RabbitMQ 4.3.
_KEYS: Final[tuple[PolicyKey, ...]] = (
    PolicyKey("alternate-exchange", "alternate exchange name", _is_text),
    PolicyKey("consumer-disconnected-timeout", "consumer disconnected timeout", _is_not_negative),
    PolicyKey("consumer-timeout", "consumer timeout", _is_not_negative),
    PolicyKey("dead-letter-exchange", "dead letter exchange name", _is_text),
    PolicyKey("dead-letter-routing-key", "dead letter routing key", _is_routing_key),
    PolicyKey("dead-letter-strategy", "dead letter strategy", _is_strategy),
    PolicyKey(
        "delayed-retry-max",
        "delayed retry maximum delay. Must be a positive integer",
        _is_positive,
    ),
    PolicyKey(
        "delayed-retry-min",
        "delayed retry minimum delay. Must be a positive integer",
        _is_positive,
    ),
    PolicyKey(
        "delayed-retry-type",
        "delayed retry type. Must be one of: all, failed, returned, disabled",
        _is_retry_type,
    ),
    PolicyKey("delivery-limit", "delivery limit", _is_whole),
    PolicyKey("expires", "queue expiry", _is_positive),
    PolicyKey("initial-cluster-size", "cluster size", _is_not_negative),
    PolicyKey("max-age", "max age", _is_policy_max_age),
    PolicyKey("max-in-memory-bytes", "maximum memory in bytes", _is_not_negative),
    PolicyKey("max-in-memory-length", "maximum memory in bytes", _is_not_negative),
    PolicyKey("max-length", "maximum length", _is_not_negative),
    PolicyKey("max-length-bytes", "maximum length in bytes", _is_not_negative),
    PolicyKey("message-ttl", "message TTL", _is_not_negative),
    PolicyKey("overflow", "overflow value", _is_overflow),
    PolicyKey("queue-leader-locator", "queue leader locator value", _is_locator),
    PolicyKey("queue-mode", "queue-mode value", _is_queue_mode),
    PolicyKey("queue-version", "queue-version value", _is_queue_version),
    PolicyKey("stream-filter-size-bytes", "filter size. Valid range is 16-255", _is_filter_size),
    PolicyKey("stream-max-segment-size-bytes", "segment size", _is_segment_size),
    PolicyKey("target-group-size", "qq target count value", _is_positive),
    # Not RabbitMQ's: messages expire wherever they stand.
    PolicyKey("ttl-anywhere", "choice of where messages expire", _is_boolean),
    # RabbitMQ 4 refuses what follows. Definitions from older clusters still have it, and it never
    # meant anything to a single node.
    PolicyKey("queue-master-locator", "queue master locator", _is_anything),
    *[PolicyKey(key, key, _is_anything) for key in MIRRORING_KEYS],
)

POLICY_KEYS: Final[dict[str, PolicyKey]] = {entry.key: entry for entry in _KEYS}

OPERATOR_KEYS: Final = frozenset(
    {
        "delayed-retry-max",
        "delayed-retry-min",
        "delayed-retry-type",
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
        "overflow",
        "queue-version",
        "target-group-size",
        *MIRRORING_KEYS,
    }
)
"""The keys that an operator policy may set (rule PO-07)."""


def definition_fault(definition: object, is_operator: bool) -> str:
    """What is wrong with a definition, or "" (rules PO-09, PO-10)."""
    if not isinstance(definition, dict):
        return f"definition should be an object but was {erl_plain(definition)}"

    if not definition:
        return "no policy provided"

    # RabbitMQ: the settings by name, and what is none of them after all that are.
    unknown: list[str] = []
    for key in sorted(definition):
        entry = POLICY_KEYS.get(key)
        value = definition[key]
        if entry is None or (is_operator and key not in OPERATOR_KEYS):
            unknown.append(erl_tuple(erl_binary(_bytes_of(key)), erl_plain(value)))
        elif not entry.is_valid(value):
            return f"{erl_plain(value)} is not a valid {entry.noun}"

    fault = _delayed_retry_fault(definition)
    if not fault and unknown:
        return f"{erl_list(unknown)} are not recognised policy settings"

    return fault


def _delayed_retry_fault(definition: Definition) -> str:
    retry_type = definition.get("delayed-retry-type", "disabled")
    shortest = definition.get("delayed-retry-min")
    longest = definition.get("delayed-retry-max")
    if retry_type != "disabled" and shortest is None:
        return f"delayed-retry-min is required when delayed-retry-type is {retry_type}"

    if isinstance(shortest, int) and isinstance(longest, int) and longest < shortest:
        return (
            f"delayed-retry-max ({longest}) must not be smaller than delayed-retry-min ({shortest})"
        )

    return ""


def apply_to_fault(apply_to: object) -> str:
    """What is wrong with an ``apply-to``, or ""."""
    if isinstance(apply_to, str) and apply_to in APPLY_TO:
        return ""

    shown = apply_to if isinstance(apply_to, str) else erl_plain(apply_to)
    # RabbitMQ: two spaces after 'classic_queues'.
    return (
        f"apply-to '{shown}' unrecognised; should be one of: 'queues', 'classic_queues',  "
        "'quorum_queues', 'streams', 'exchanges', or 'all'"
    )


def priority_fault(priority: object) -> str:
    """What is wrong with a priority, or ""."""
    if _is_whole(priority):
        return ""

    # RabbitMQ takes 1.5 as well.
    return f"priority should be a number, actually was {erl_plain(priority)}"


def pattern_fault(pattern: object) -> str:
    """What is wrong with a pattern, or ""."""
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {erl_plain(pattern)}"

    try:
        compile_pattern(pattern)
    except PolicyInvalid as error:
        return str(error)

    return ""


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def compile_pattern(pattern: str) -> KnowingPattern:
    """Make a pattern ready for searching.

    Raises:
        PolicyInvalid: it is too long, no regular expression, or one that PCRE reads otherwise.

    """
    if len(_bytes_of(pattern)) > POLICY_PATTERN_BYTES_MAX:
        raise PolicyInvalid(f"pattern must not exceed {POLICY_PATTERN_BYTES_MAX} bytes")

    # RabbitMQ uses PCRE. Its [[:alpha:]] would compile here and match something else.
    if _POSIX_CLASS.search(pattern):
        raise PolicyInvalid("pattern uses a POSIX class such as [:alpha:], which is not supported")

    try:
        return knowing_pattern(pattern)
    except PatternError as error:
        fault = erl_tuple(erl_string(error.message), str(error.position or 0))
        raise PolicyInvalid(
            f"pattern should be regular expression but is invalid: {fault}"
        ) from None
