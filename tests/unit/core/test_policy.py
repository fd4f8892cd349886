"""Policies: rules PO-01..PO-13, with the answers of a live RabbitMQ 4.3."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.policy import (
    NOTHING_APPLIED,
    Policy,
    PolicyInvalid,
    PolicySet,
    effective_alternate_exchange,
    effective_settings,
    merge_definitions,
    policy_from_plain,
)
from broker.core.policy_rules import OPERATOR_KEYS, POLICY_KEYS
from broker.core.queue.arguments import QueueSettings
from broker.limits import POLICY_PATTERN_BYTES_MAX

SETTINGS = [
    "consumer_timeout_ms",
    "dead_letter_exchange",
    "dead_letter_routing_key",
    "expires_ms",
    "length_bytes_max",
    "length_max",
    "message_ttl_ms",
    "overflow",
    "priority_max",
    "single_active_consumer",
]


def settings(**values: Any) -> QueueSettings:
    result = QueueSettings()
    for name, value in values.items():
        setattr(result, name, value)

    return result


def differences(result: QueueSettings) -> dict[str, object]:
    """What of the settings is there."""
    values = {name: getattr(result, name) for name in SETTINGS}
    return {name: value for name, value in values.items() if value not in (None, False)}


def fault_of(
    definition: object, others: dict[str, object] | None = None, *, is_operator: bool = False
) -> str:
    value: dict[str, object] = {"pattern": "^q", "definition": definition}
    value.update(others or {})
    with pytest.raises(PolicyInvalid) as caught:
        policy_from_plain("p", value, is_operator=is_operator)

    return str(caught.value)


def test_policy_of_plain_values_has_the_defaults_of_rabbitmq() -> None:
    """Rule PO-01."""
    policy = policy_from_plain("p", {"pattern": "^q", "definition": {"max-length": 5}})
    assert (policy.name, policy.pattern, policy.definition) == ("p", "^q", {"max-length": 5})
    assert (policy.apply_to, policy.priority) == ("all", 0)


def test_policy_of_plain_values_takes_all_of_them() -> None:
    value = {
        "pattern": "",
        "definition": {"max-length": 5},
        "apply-to": "queues",
        "priority": -5,
    }
    policy = policy_from_plain("p", value)
    assert (policy.apply_to, policy.priority) == ("queues", -5)


RETRY_TYPE_FAULT = (
    '<<"x">> is not a valid delayed retry type. Must be one of: all, failed, returned, disabled'
)

INVALID = [
    (-1, "message-ttl", "-1 is not a valid message TTL"),
    (1.5, "message-ttl", "1.5 is not a valid message TTL"),
    ("5", "message-ttl", '<<"5">> is not a valid message TTL'),
    (True, "message-ttl", "true is not a valid message TTL"),
    (None, "message-ttl", "null is not a valid message TTL"),
    ({}, "message-ttl", "#{} is not a valid message TTL"),
    (0, "expires", "0 is not a valid queue expiry"),
    (-1, "max-length", "-1 is not a valid maximum length"),
    (-1, "max-length-bytes", "-1 is not a valid maximum length in bytes"),
    (-1, "max-in-memory-length", "-1 is not a valid maximum memory in bytes"),
    (-1, "max-in-memory-bytes", "-1 is not a valid maximum memory in bytes"),
    (5, "dead-letter-exchange", "5 is not a valid dead letter exchange name"),
    (5, "dead-letter-routing-key", "5 is not a valid dead letter routing key"),
    ("x", "dead-letter-strategy", '<<"x">> is not a valid dead letter strategy'),
    (5, "alternate-exchange", "5 is not a valid alternate exchange name"),
    ("lazy", "overflow", '<<"lazy">> is not a valid overflow value'),
    ("x", "queue-mode", '<<"x">> is not a valid queue-mode value'),
    (3, "queue-version", "3 is not a valid queue-version value"),
    (1.5, "delivery-limit", "1.5 is not a valid delivery limit"),
    ("0s", "max-age", '<<"0s">> is not a valid max age'),
    (5, "max-age", "5 is not a valid max age"),
    (3_000_000_001, "stream-max-segment-size-bytes", "3000000001 is not a valid segment size"),
    (
        15,
        "stream-filter-size-bytes",
        "15 is not a valid filter size. Valid range is 16-255",
    ),
    (
        "min-masters",
        "queue-leader-locator",
        '<<"min-masters">> is not a valid queue leader locator value',
    ),
    (-1, "initial-cluster-size", "-1 is not a valid cluster size"),
    (0, "target-group-size", "0 is not a valid qq target count value"),
    (-1, "consumer-timeout", "-1 is not a valid consumer timeout"),
    (
        -1,
        "consumer-disconnected-timeout",
        "-1 is not a valid consumer disconnected timeout",
    ),
    (
        "x",
        "delayed-retry-type",
        RETRY_TYPE_FAULT,
    ),
    (
        0,
        "delayed-retry-min",
        "0 is not a valid delayed retry minimum delay. Must be a positive integer",
    ),
    (
        0,
        "delayed-retry-max",
        "0 is not a valid delayed retry maximum delay. Must be a positive integer",
    ),
    ("all", "delayed-retry-type", "delayed-retry-min is required when delayed-retry-type is all"),
    (1, "k", '[{<<"k">>,1}] are not recognised policy settings'),
    (1, "max-priority", '[{<<"max-priority">>,1}] are not recognised policy settings'),
]


@pytest.mark.parametrize(
    ("value", "key", "expected"), INVALID, ids=[f"PO-09-{key}-{value}" for value, key, _ in INVALID]
)
def test_bad_setting_is_refused(value: object, key: str, expected: str) -> None:
    """Rules PO-09, PO-10, PO-13."""
    assert fault_of({key: value}) == expected


VALID: list[tuple[str, list[object]]] = [
    ("message-ttl", [0, 1, 2**40]),
    ("expires", [1]),
    ("max-length", [0]),
    ("max-length-bytes", [0]),
    ("dead-letter-exchange", ["", "x"]),
    ("dead-letter-routing-key", ["", "x"]),
    ("dead-letter-strategy", ["at-most-once", "at-least-once"]),
    ("alternate-exchange", ["", "x"]),
    ("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"]),
    ("queue-mode", ["default", "lazy"]),
    ("queue-version", [1, 2]),
    ("delivery-limit", [-1, 0, 20]),
    ("max-age", ["1h", "5Y"]),
    ("stream-max-segment-size-bytes", [0, 3_000_000_000]),
    ("stream-filter-size-bytes", [16, 255]),
    ("queue-leader-locator", ["client-local", "balanced", "random", "least-leaders"]),
    ("delayed-retry-type", ["disabled"]),
    ("delayed-retry-min", [1]),
    ("delayed-retry-max", [1]),
    ("consumer-timeout", [0]),
    ("ha-mode", ["all"]),
    ("ha-params", [2]),
    ("queue-master-locator", ["min-masters"]),
]


@pytest.mark.parametrize(("key", "values"), VALID, ids=[key for key, _ in VALID])
def test_good_settings_are_accepted(key: str, values: list[object]) -> None:
    """Rules PO-06, PO-10; ha-* are accepted and mean nothing."""
    for value in values:
        policy_from_plain("p", {"pattern": "", "definition": {key: value}})


def test_operator_policies_may_set_few_keys() -> None:
    """Rule PO-07."""
    for key in ("dead-letter-exchange", "alternate-exchange", "queue-mode", "max-age"):
        assert "not recognised" in fault_of({key: "x"}, is_operator=True)

    assert POLICY_KEYS.keys() >= OPERATOR_KEYS
    definition = {"message-ttl": 1, "overflow": "drop-head", "delivery-limit": 1}
    policy_from_plain("p", {"pattern": "", "definition": definition}, is_operator=True)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        pytest.param({}, "no policy provided", id="empty"),
        pytest.param([], "definition should be an object but was []", id="not-an-object"),
        pytest.param(
            {"message-ttl": -1, "max-length": -1},
            "-1 is not a valid maximum length",
            id="by-name",
        ),
        pytest.param(
            {"foo": 1, "message-ttl": -1}, "-1 is not a valid message TTL", id="known-first"
        ),
        pytest.param(
            {"foo": {"a": 1.5}, "message-ttl": 1, "bar": "x"},
            '[{<<"bar">>,<<"x">>},{<<"foo">>,#{<<"a">> => 1.5}}] are not recognised policy '
            "settings",
            id="all-unknown-at-once",
        ),
        pytest.param(
            {"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 3},
            "delayed-retry-max (3) must not be smaller than delayed-retry-min (5)",
            id="retry-range",
        ),
    ],
)
def test_definition_as_a_whole(definition: object, expected: str) -> None:
    """Rule PO-09."""
    assert fault_of(definition) == expected


APPLY_TO_FAULT = (
    "apply-to 'nope' unrecognised; should be one of: 'queues', 'classic_queues',  "
    "'quorum_queues', 'streams', 'exchanges', or 'all'"
)

PATTERN_FAULT = (
    'pattern should be regular expression but is invalid: {"missing ), unterminated subpattern",0}'
)


def test_all_faults_of_a_policy_are_told_at_once() -> None:
    """Rule PO-09."""
    fault = fault_of({}, {"pattern": "(", "apply-to": "nope", "priority": "x"})
    assert fault.split("\n") == [
        "no policy provided",
        APPLY_TO_FAULT,
        PATTERN_FAULT,
        'priority should be a number, actually was <<"x">>',
    ]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param({"apply-to": "nope"}, APPLY_TO_FAULT, id="apply-to"),
        pytest.param(
            {"priority": None}, "priority should be a number, actually was null", id="null"
        ),
        pytest.param(
            {"priority": True}, "priority should be a number, actually was true", id="bool"
        ),
        pytest.param({"pattern": 5}, "pattern should be a binary but was 5", id="pattern"),
        pytest.param(
            {"pattern": "a" * (POLICY_PATTERN_BYTES_MAX + 1)},
            f"pattern must not exceed {POLICY_PATTERN_BYTES_MAX} bytes",
            id="long-pattern",
        ),
        pytest.param(
            {"pattern": "^[[:alpha:]]"},
            "pattern uses a POSIX class such as [:alpha:], which is not supported",
            id="posix-class",
        ),
    ],
)
def test_bad_frame_of_a_policy_is_refused(others: dict[str, object], expected: str) -> None:
    """Rule PO-09."""
    assert fault_of({"max-length": 1}, others) == expected


@pytest.mark.parametrize("missing", ["pattern", "definition"])
def test_missing_part_is_named(missing: str) -> None:
    value = {"pattern": "", "definition": {"max-length": 1}}
    del value[missing]
    with pytest.raises(PolicyInvalid) as caught:
        policy_from_plain("p", value)

    assert str(caught.value) == f"[{{key_missing,{missing}}}]"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        pytest.param("", "anything", True, id="PO-02-empty-matches-all"),
        pytest.param("b", "abc", True, id="PO-02-unanchored"),
        pytest.param("^b", "abc", False, id="PO-02-anchored"),
        pytest.param("^a.c$", "abc", True, id="PO-02-both-ends"),
        pytest.param("(?i)ABC", "abc", True, id="case"),
        pytest.param(r"^(?!amq\.).*", "amq.gen-1", False, id="lookahead"),
        pytest.param("é", "café", True, id="not-ascii"),
    ],
)
def test_pattern_is_searched_in_the_name(pattern: str, name: str, expected: bool) -> None:
    policy = Policy("p", pattern, {"max-length": 1})
    assert policy.applies_to_queue(name, "classic") is expected
    assert policy.applies_to_exchange(name) is expected


@pytest.mark.parametrize(
    ("apply_to", "expected"),
    [
        ("all", "classic quorum stream exchange"),
        ("queues", "classic quorum stream"),
        ("classic_queues", "classic"),
        ("quorum_queues", "quorum"),
        ("streams", "stream"),
        ("exchanges", "exchange"),
    ],
)
def test_apply_to_selects_what_a_policy_governs(apply_to: str, expected: str) -> None:
    """Rule PO-01."""
    policy = Policy("p", "", {"queue-leader-locator": "balanced"}, apply_to=apply_to)
    found = [kind for kind in ("classic", "quorum", "stream") if policy.applies_to_queue("x", kind)]
    if policy.applies_to_exchange("x"):
        found.append("exchange")

    assert found == expected.split()


# Which types of queue a policy with that key alone governs, as RabbitMQ 4.3 was seen to do it.
APPLICABLE = {
    "message-ttl": "CQ-",
    "expires": "CQ-",
    "max-length": "CQ-",
    "max-length-bytes": "CQS",
    "max-in-memory-length": "-Q-",
    "max-in-memory-bytes": "-Q-",
    "dead-letter-exchange": "CQ-",
    "dead-letter-routing-key": "CQ-",
    "dead-letter-strategy": "-Q-",
    "alternate-exchange": "CQS",
    "overflow": "CQ-",
    "queue-mode": "C--",
    "queue-version": "CQS",
    "delivery-limit": "-Q-",
    "max-age": "--S",
    "stream-max-segment-size-bytes": "--S",
    "stream-filter-size-bytes": "CQS",
    "queue-leader-locator": "CQS",
    "initial-cluster-size": "--S",
    "target-group-size": "-Q-",
    "consumer-timeout": "CQS",
    "consumer-disconnected-timeout": "CQS",
    "delayed-retry-type": "CQS",
    "delayed-retry-min": "CQS",
    "delayed-retry-max": "CQS",
}


@pytest.mark.parametrize("key", APPLICABLE)
def test_policy_with_an_unsupported_key_is_skipped_whole(key: str) -> None:
    """Rules PO-03, PO-08."""
    policy = Policy("p", "", {"max-length-bytes": 1, key: 1})
    for queue_type, mark in zip(("classic", "quorum", "stream"), APPLICABLE[key], strict=True):
        assert policy.applies_to_queue("x", queue_type) is (mark != "-")

    assert policy.applies_to_exchange("x") is True


def test_highest_priority_that_matches_applies() -> None:
    """Rule PO-03."""
    policies = PolicySet()
    policies.set_policy(Policy("low", "", {"max-length": 1}, priority=-1))
    policies.set_policy(Policy("high", "^a", {"max-length": 2}, priority=7))
    policies.set_policy(Policy("unfit", "^a", {"delivery-limit": 2}, priority=9))
    high = policies.for_queue("a", "classic").policy
    low = policies.for_queue("b", "classic").policy
    assert high is not None
    assert low is not None
    assert (high.name, low.name) == ("high", "low")
    assert [policy.name for policy in policies.policies] == ["unfit", "high", "low"]


def test_of_equal_priorities_the_first_name_applies() -> None:
    """Rules PO-03, K-02: left open by RabbitMQ, seen in 4.3."""
    policies = PolicySet()
    for name in ("z", "b", "m"):
        policies.set_policy(Policy(name, "", {"max-length": 1}))

    applied = policies.for_exchange("e").policy
    assert applied is not None
    assert applied.name == "b"


def test_setting_a_policy_again_replaces_it_and_clearing_removes_it() -> None:
    """Rule PO-11."""
    policies = PolicySet()
    policies.set_policy(Policy("p", "", {"max-length": 1}))
    policies.set_policy(Policy("p", "", {"max-length": 2}))
    policies.set_policy(Policy("p", "", {"max-length": 3}), is_operator=True)
    assert policies.for_queue("q", "classic").definition == {"max-length": 2}
    assert policies.clear_policy("p") is True
    assert policies.clear_policy("p") is False
    assert policies.for_queue("q", "classic").definition == {"max-length": 3}
    assert [policy.name for policy in policies.operator_policies] == ["p"]
    assert policies.clear_policy("p", is_operator=True) is True
    assert policies.for_queue("q", "classic") is NOTHING_APPLIED
    assert policies.for_exchange("q") is NOTHING_APPLIED


def test_no_policy_that_matches_is_nothing() -> None:
    policies = PolicySet()
    policies.set_policy(Policy("p", "^a", {"max-length": 1}))
    assert policies.for_queue("b", "classic") is NOTHING_APPLIED
    assert policies.for_exchange("b") is NOTHING_APPLIED


def test_policy_and_operator_policy_are_merged_per_key() -> None:
    """Rule PO-04, as RabbitMQ 4.3 merged these two."""
    policy = {
        "message-ttl": 5000,
        "max-length": 7,
        "overflow": "drop-head",
        "expires": 100_000,
        "queue-version": 2,
    }
    operator_policy = {
        "message-ttl": 6000,
        "max-length": 5,
        "overflow": "reject-publish",
        "max-length-bytes": 9,
        "queue-version": 1,
    }
    assert merge_definitions(policy, operator_policy) == {
        "expires": 100_000,
        "max-length": 5,
        "max-length-bytes": 9,
        "message-ttl": 5000,
        "overflow": "reject-publish",
        "queue-version": 1,
    }


@pytest.mark.parametrize(
    ("key", "value", "operator_value", "expected"),
    [
        ("max-length-bytes", 5, 6, 5),
        ("max-in-memory-length", 6, 5, 5),
        ("max-in-memory-bytes", 6, 5, 5),
        ("delayed-retry-max", 5, 6, 5),
        ("delayed-retry-min", 5, 6, 6),
        ("delivery-limit", 5, 6, 5),
        ("delivery-limit", -1, 6, 6),
        ("delivery-limit", 5, -1, 5),
        ("delivery-limit", -2, -1, -1),
        ("queue-version", 2, 1, 1),
    ],
)
def test_two_values_of_one_key(key: str, value: int, operator_value: int, expected: int) -> None:
    """Rule PO-04."""
    assert merge_definitions({key: value}, {key: operator_value}) == {key: expected}


NUMBERS = [
    ("message-ttl", "message_ttl_ms"),
    ("expires", "expires_ms"),
    ("max-length", "length_max"),
    ("max-length-bytes", "length_bytes_max"),
    ("consumer-timeout", "consumer_timeout_ms"),
]
TEXTS = [
    ("overflow", "overflow"),
    ("dead-letter-exchange", "dead_letter_exchange"),
    ("dead-letter-routing-key", "dead_letter_routing_key"),
]


@pytest.mark.parametrize(("key", "name"), NUMBERS, ids=[key for key, _ in NUMBERS])
def test_lower_number_of_argument_and_policy_counts(key: str, name: str) -> None:
    """Rule PO-05."""
    assert differences(effective_settings(settings(), {key: 7})) == {name: 7}
    assert differences(effective_settings(settings(**{name: 9}), {key: 7})) == {name: 7}
    assert differences(effective_settings(settings(**{name: 5}), {key: 7})) == {name: 5}
    assert differences(effective_settings(settings(**{name: 5}), {"max-age": "1h"})) == {name: 5}


@pytest.mark.parametrize(("key", "name"), TEXTS, ids=[key for key, _ in TEXTS])
def test_text_of_the_argument_counts_before_that_of_the_policy(key: str, name: str) -> None:
    """Rules PO-05, DL-01: each on its own, and "" is a value."""
    assert differences(effective_settings(settings(), {key: "p"})) == {name: "p"}
    assert differences(effective_settings(settings(**{name: "a"}), {key: "p"})) == {name: "a"}
    assert differences(effective_settings(settings(**{name: ""}), {key: "p"})) == {name: ""}


def test_policy_leaves_the_rest_alone_and_the_arguments_settings_untouched() -> None:
    """Rules PO-11, PO-13."""
    own = settings(priority_max=5, single_active_consumer=True, length_max=9)
    laid_over = effective_settings(own, {"max-length": 3, "queue-mode": "lazy"})
    assert differences(laid_over) == {
        "priority_max": 5,
        "single_active_consumer": True,
        "length_max": 3,
    }
    assert own.length_max == 9
    assert effective_settings(own, {}) is own


def test_alternate_exchange_of_the_argument_counts_before_that_of_the_policy() -> None:
    """Rule PO-05."""
    definition: dict[str, object] = {"alternate-exchange": "p"}
    assert effective_alternate_exchange(None, {}) is None
    assert effective_alternate_exchange(None, definition) == "p"
    assert effective_alternate_exchange("a", definition) == "a"
    assert effective_alternate_exchange("", definition) == ""
