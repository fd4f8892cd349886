"""Arguments of queue.declare and basic.consume: rules Q-02, Q-20..Q-28, CO-08.

Texts and orders were asked of a live RabbitMQ 4.3.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from broker.core.queue.argument_rules import ARGUMENT_RULES, CONSUME_TYPES_BY_KEY
from broker.core.queue.arguments import (
    CLASSIC,
    QUEUE_TYPE_MODULES,
    QUORUM,
    STREAM,
    QueueSettings,
    check_queue_properties,
    check_server_named,
    consumer_priority_of,
    dead_letter_exchange_of,
    requested_queue_type,
    validate_arguments,
)
from broker.errors import PreconditionFailed
from broker.wire.tables import TYPE_NAMES, Arguments, Field

EVERY_KIND: dict[str, object] = {
    "t": True,
    "b": 5,
    "B": 5,
    "s": 5,
    "u": 5,
    "I": 5,
    "i": 5,
    "l": 5,
    "L": 5,
    "f": 5.0,
    "d": 5.0,
    "D": Decimal(5),
    "S": "5",
    "x": b"5",
    "T": 5,
    "F": {},
    "A": [],
    "V": None,
}
INTEGER_KINDS = "bBsuIilL"

INTEGER_KEYS = [
    (CLASSIC, "x-expires"),
    (CLASSIC, "x-message-ttl"),
    (CLASSIC, "x-max-length"),
    (CLASSIC, "x-max-length-bytes"),
    (CLASSIC, "x-max-priority"),
    (CLASSIC, "x-consumer-timeout"),
    (QUORUM, "x-max-in-memory-length"),
    (QUORUM, "x-max-in-memory-bytes"),
    (QUORUM, "x-quorum-initial-group-size"),
    (QUORUM, "x-consumer-disconnected-timeout"),
    (STREAM, "x-initial-cluster-size"),
    (STREAM, "x-stream-max-segment-size-bytes"),
]
TEXT_KEYS = [
    (CLASSIC, "x-dead-letter-routing-key"),
    (CLASSIC, "x-overflow"),
    (CLASSIC, "x-queue-type"),
    (CLASSIC, "x-queue-leader-locator"),
    (QUORUM, "x-dead-letter-strategy"),
    (STREAM, "x-max-age"),
]
UNCHECKED_KEYS = [
    (CLASSIC, "x-queue-mode"),
    (CLASSIC, "x-queue-master-locator"),
    (QUORUM, "x-delivery-limit"),
    (QUORUM, "x-delayed-retry-type"),
    (QUORUM, "x-delayed-retry-min"),
    (QUORUM, "x-delayed-retry-max"),
]


def validate(queue_type: str, arguments: Arguments) -> QueueSettings:
    return validate_arguments(queue_type, "q", "/", arguments)


def fault_of(queue_type: str, arguments: Arguments) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        validate(queue_type, arguments)

    return caught.value.explanation


def value_fault(key: str, error: str) -> str:
    return f"invalid arg '{key}' for queue 'q' in vhost '/': {error}"


def text(value: str) -> Field:
    return Field("S", value)


def long(value: int) -> Field:
    return Field("l", value)


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize(("queue_type", "key"), INTEGER_KEYS, ids=[key for _, key in INTEGER_KEYS])
def test_integer_argument_takes_every_integer_type_and_no_other(
    queue_type: str, key: str, kind: str
) -> None:
    """Rule Q-25; a timestamp and a decimal are no integers here."""
    arguments = {key: Field(kind, EVERY_KIND[kind])}
    if kind in INTEGER_KINDS:
        validate(queue_type, arguments)
    else:
        error = f'"expected integer, got {TYPE_NAMES[kind]}"'
        assert fault_of(queue_type, arguments) == value_fault(key, error)


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "S"])
@pytest.mark.parametrize(("queue_type", "key"), TEXT_KEYS, ids=[key for _, key in TEXT_KEYS])
def test_text_argument_takes_long_strings_only(queue_type: str, key: str, kind: str) -> None:
    """Rule Q-25."""
    arguments = {key: Field(kind, EVERY_KIND[kind])}
    error = "{unacceptable_type," + TYPE_NAMES[kind] + "}"
    assert fault_of(queue_type, arguments) == value_fault(key, error)


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize(
    ("queue_type", "key"), UNCHECKED_KEYS, ids=[key for _, key in UNCHECKED_KEYS]
)
def test_argument_that_means_nothing_holds_anything(queue_type: str, key: str, kind: str) -> None:
    """Rules Q-25 (x-queue-mode [4.3]), Q-29a, QQ-02, QQ-09."""
    validate(queue_type, {key: Field(kind, EVERY_KIND[kind])})


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "t"])
def test_single_active_consumer_takes_booleans_only(kind: str) -> None:
    """Rule Q-25."""
    key = "x-single-active-consumer"
    error = "{unacceptable_type," + TYPE_NAMES[kind] + "}"
    assert fault_of(CLASSIC, {key: Field(kind, EVERY_KIND[kind])}) == value_fault(key, error)


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "S"])
def test_dead_letter_exchange_of_another_type_has_its_own_text(kind: str) -> None:
    """Rule Q-25."""
    arguments = {"x-dead-letter-exchange": Field(kind, EVERY_KIND[kind])}
    expected = (
        f"invalid type '{TYPE_NAMES[kind]}' for arg 'x-dead-letter-exchange' in queue 'q' "
        "in vhost '/'"
    )
    assert fault_of(CLASSIC, arguments) == expected
    with pytest.raises(PreconditionFailed) as caught:
        dead_letter_exchange_of("q", "/", arguments)

    assert caught.value.explanation == expected


BAD_VALUES = [
    (CLASSIC, "x-expires", long(0), "{value_zero,0}"),
    (CLASSIC, "x-expires", Field("b", -1), "{value_negative,-1}"),
    (CLASSIC, "x-expires", long(-(2**63)), "{value_negative,-9223372036854775808}"),
    (CLASSIC, "x-expires", long(315_360_000_001), "{value_too_large,315360000001}"),
    (CLASSIC, "x-message-ttl", long(-10), "{value_negative,-10}"),
    (CLASSIC, "x-message-ttl", long(2**63 - 1), "{value_too_large,9223372036854775807}"),
    (CLASSIC, "x-max-length", long(-1), "{value_negative,-1}"),
    (CLASSIC, "x-max-length-bytes", long(-1), "{value_negative,-1}"),
    (CLASSIC, "x-max-priority", long(256), "{max_value_exceeded,256}"),
    (CLASSIC, "x-max-priority", long(-10), "{value_negative,-10}"),
    (CLASSIC, "x-overflow", text("x"), "invalid_overflow"),
    (CLASSIC, "x-overflow", text(""), "invalid_overflow"),
    (CLASSIC, "x-queue-version", long(0), "\"unsupported queue version '0'\""),
    (CLASSIC, "x-queue-version", long(3), "\"unsupported queue version '3'\""),
    (CLASSIC, "x-queue-version", long(-1), "{value_negative,-1}"),
    (CLASSIC, "x-queue-version", text("2"), '"expected integer, got longstr"'),
    (CLASSIC, "x-queue-type", text("foo"), "\"unsupported queue type 'foo'\""),
    (CLASSIC, "x-queue-type", text("Classic"), "\"unsupported queue type 'Classic'\""),
    (CLASSIC, "x-queue-type", text("é"), "\"unsupported queue type 'é'\""),
    (CLASSIC, "x-queue-type", text("\udcff\udcfe"), "\"unsupported queue type 'ÿþ'\""),
    (CLASSIC, "x-queue-type", text('a"b\n'), '"unsupported queue type \'a\\"b\\n\'"'),
    (CLASSIC, "x-queue-leader-locator", text("x"), "invalid_queue_locator_arg"),
    (CLASSIC, "x-dead-letter-routing-key", text("k"), "routing_key_but_no_dlx_defined"),
    (QUORUM, "x-dead-letter-strategy", text("x"), "invalid_dlx_strategy"),
    (QUORUM, "x-quorum-initial-group-size", long(0), "{value_zero,0}"),
    (QUORUM, "x-quorum-initial-group-size", long(-1), "{value_negative,-1}"),
    (STREAM, "x-initial-cluster-size", long(0), "{value_zero,0}"),
    (STREAM, "x-stream-filter-size-bytes", long(-1), "{value_negative,-1}"),
    *[
        (STREAM, "x-max-age", text(age), "invalid_max_age")
        for age in ("", "5", "h", "0s", "00m", "1x", "1d", "-1h", "+1h", "1 h", "1hh", "1h\n")
    ],
]


@pytest.mark.parametrize(
    ("queue_type", "key", "value", "error"),
    BAD_VALUES,
    ids=[f"Q-25-{key}-{field.value!r}" for _, key, field, _ in BAD_VALUES],
)
def test_bad_value_is_refused_with_the_fault_as_a_term(
    queue_type: str, key: str, value: Field, error: str
) -> None:
    assert fault_of(queue_type, {key: value}) == value_fault(key, error)


GOOD_VALUES = [
    (CLASSIC, "x-expires", long(1)),
    (CLASSIC, "x-expires", long(315_360_000_000)),
    (CLASSIC, "x-message-ttl", long(0)),
    (CLASSIC, "x-message-ttl", long(315_360_000_000)),
    (CLASSIC, "x-max-length", long(0)),
    (CLASSIC, "x-max-length", long(2**63 - 1)),
    (CLASSIC, "x-max-priority", long(0)),
    (CLASSIC, "x-max-priority", Field("B", 255)),
    (CLASSIC, "x-queue-version", long(1)),
    (CLASSIC, "x-queue-version", long(2)),
    (CLASSIC, "x-queue-type", text("classic")),
    (CLASSIC, "x-queue-type", text("")),
    (CLASSIC, "x-dead-letter-exchange", text("")),
    *[
        (CLASSIC, "x-overflow", text(value))
        for value in ("drop-head", "reject-publish", "reject-publish-dlx")
    ],
    *[
        (CLASSIC, "x-queue-leader-locator", text(value))
        for value in ("client-local", "balanced", "random", "least-leaders", "min-masters")
    ],
    (QUORUM, "x-dead-letter-strategy", text("at-most-once")),
    (QUORUM, "x-dead-letter-strategy", text("at-least-once")),
    (STREAM, "x-stream-max-segment-size-bytes", long(3_000_000_000)),
    (STREAM, "x-stream-filter-size-bytes", long(16)),
    (STREAM, "x-stream-filter-size-bytes", long(255)),
    *[
        (STREAM, "x-max-age", text(age))
        for age in ("1Y", "1M", "1D", "1h", "1m", "1s", "01h", "99999999999999999999s")
    ],
]


@pytest.mark.parametrize(
    ("queue_type", "key", "value"),
    GOOD_VALUES,
    ids=[f"Q-25-{key}-{field.value!r}" for _, key, field in GOOD_VALUES],
)
def test_good_value_is_accepted(queue_type: str, key: str, value: Field) -> None:
    validate(queue_type, {key: value})


@pytest.mark.parametrize("wanted", ["foo", "Classic", "Stream"])
def test_type_that_cannot_be_declared_is_the_first_fault(wanted: str) -> None:
    """Rules Q-25, Q-26, asked as queue.declare asks: with the type that the arguments name."""
    arguments = {"x-expires": text("bad"), "x-max-age": text("bad"), "x-queue-type": text(wanted)}
    error = f"\"unsupported queue type '{wanted}'\""
    found = fault_of(requested_queue_type(arguments), arguments)
    assert found == value_fault("x-queue-type", error)


UNSUPPORTED = [
    (rule.key, queue_type)
    for rule in ARGUMENT_RULES
    for queue_type in (CLASSIC, QUORUM, STREAM)
    if queue_type not in rule.queue_types
]


@pytest.mark.parametrize(("key", "queue_type"), UNSUPPORTED)
def test_argument_of_another_type_of_queue_is_refused_whatever_it_holds(
    key: str, queue_type: str
) -> None:
    """Rule Q-23."""
    expected = (
        f"invalid arg '{key}' for queue 'q' in vhost '/' of queue type "
        f"{QUEUE_TYPE_MODULES[queue_type]}"
    )
    assert fault_of(queue_type, {key: text("")}) == expected


@pytest.mark.parametrize(
    ("queue_type", "keys"),
    [
        pytest.param(
            CLASSIC,
            "x-expires x-message-ttl x-dead-letter-exchange x-dead-letter-routing-key x-max-length "
            "x-max-length-bytes x-max-priority x-overflow x-queue-mode x-queue-version "
            "x-single-active-consumer x-queue-type x-queue-master-locator x-queue-leader-locator",
            id="Q-20-classic",
        ),
        pytest.param(
            QUORUM,
            "x-dead-letter-exchange x-dead-letter-routing-key x-dead-letter-strategy x-expires "
            "x-max-length x-max-length-bytes x-max-in-memory-length x-max-in-memory-bytes "
            "x-overflow x-single-active-consumer x-queue-type x-quorum-initial-group-size "
            "x-delivery-limit x-message-ttl x-queue-leader-locator x-consumer-timeout "
            "x-consumer-disconnected-timeout x-delayed-retry-type x-delayed-retry-min "
            "x-delayed-retry-max",
            id="Q-21-quorum",
        ),
        pytest.param(
            STREAM,
            "x-max-length-bytes x-queue-type x-max-age x-stream-max-segment-size-bytes "
            "x-stream-filter-size-bytes x-initial-cluster-size x-queue-leader-locator",
            id="Q-22-stream",
        ),
    ],
)
def test_each_type_knows_its_arguments(queue_type: str, keys: str) -> None:
    known = {rule.key for rule in ARGUMENT_RULES if queue_type in rule.queue_types}
    # Classic queues take x-consumer-timeout as RabbitMQ 3.12 to 4.2 do; x-ttl-anywhere is ours.
    extra = {
        CLASSIC: {"x-consumer-timeout", "x-ttl-anywhere"},
        QUORUM: {"x-ttl-anywhere"},
        STREAM: set(),
    }
    assert known == set(keys.split()) | extra[queue_type]


def test_unknown_arguments_are_ignored() -> None:
    """Rule Q-24."""
    settings = validate(CLASSIC, {"x-foo": Field("V", None), "message-ttl": text("x")})
    assert settings.message_ttl_ms is None


def test_of_several_faults_the_first_in_the_order_of_the_table_is_reported() -> None:
    """Rule Q-26, with the client's order turned around."""
    faults = [
        ("x-dead-letter-exchange", Field("I", 1)),
        ("x-queue-type", text("foo")),
        ("x-expires", text("bad")),
        ("x-message-ttl", text("bad")),
        ("x-dead-letter-routing-key", Field("I", 1)),
        ("x-max-length", text("bad")),
        ("x-max-length-bytes", text("bad")),
        ("x-max-priority", text("bad")),
        ("x-overflow", text("bad")),
        ("x-queue-version", text("bad")),
        ("x-single-active-consumer", text("bad")),
        ("x-queue-leader-locator", text("bad")),
        ("x-max-age", text("bad")),
    ]
    arguments = dict(reversed(faults))
    for key, _ in faults:
        assert f" arg '{key}'" in fault_of(CLASSIC, arguments)
        del arguments[key]

    validate(CLASSIC, arguments)


def test_of_several_unsupported_arguments_the_clients_first_is_reported() -> None:
    """Rule Q-23 [4.3]: unlike bad values, these come in the order they were sent."""
    arguments = {"x-delivery-limit": long(1), "x-max-age": text("1h")}
    assert "'x-delivery-limit'" in fault_of(CLASSIC, arguments)
    assert "'x-max-age'" in fault_of(CLASSIC, dict(reversed(arguments.items())))


def test_stream_sizes_out_of_range_have_texts_of_their_own() -> None:
    """Rule Q-27."""
    key = "x-stream-max-segment-size-bytes"
    assert fault_of(STREAM, {key: long(3_000_000_001)}) == f"Exceeded max value for {key}"
    for size in (0, 15, 256):
        arguments = {"x-stream-filter-size-bytes": long(size)}
        assert fault_of(STREAM, arguments) == "Invalid value for x-stream-filter-size-bytes"


def test_settings_hold_what_the_arguments_ask_for() -> None:
    settings = validate(
        CLASSIC,
        {
            "x-message-ttl": Field("I", 1),
            "x-expires": Field("i", 2),
            "x-max-length": Field("s", 3),
            "x-max-length-bytes": Field("b", 4),
            "x-overflow": text("reject-publish"),
            "x-dead-letter-exchange": text(""),
            "x-dead-letter-routing-key": text("k"),
            "x-max-priority": Field("B", 5),
            "x-single-active-consumer": Field("t", True),
            "x-consumer-timeout": Field("l", 6),
        },
    )
    for twin in (settings, settings.copy()):
        assert twin.message_ttl_ms == 1
        assert twin.expires_ms == 2
        assert twin.length_max == 3
        assert twin.length_bytes_max == 4
        assert twin.overflow == "reject-publish"
        assert twin.dead_letter_exchange == ""
        assert twin.dead_letter_routing_key == "k"
        assert twin.priority_max == 5
        assert twin.single_active_consumer is True
        assert twin.consumer_timeout_ms == 6


def test_settings_of_no_arguments_are_empty() -> None:
    settings = validate(CLASSIC, {})
    assert settings.message_ttl_ms is None
    assert settings.expires_ms is None
    assert settings.length_max is None
    assert settings.length_bytes_max is None
    assert settings.overflow is None
    assert settings.dead_letter_exchange is None
    assert settings.dead_letter_routing_key is None
    assert settings.priority_max is None
    assert settings.consumer_timeout_ms is None
    assert settings.single_active_consumer is False


def test_single_active_consumer_false_is_off() -> None:
    settings = validate(CLASSIC, {"x-single-active-consumer": Field("t", False)})
    assert settings.single_active_consumer is False


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, "classic", id="Q-13-absent"),
        pytest.param({"x-queue-type": text("")}, "classic", id="empty"),
        pytest.param({"x-queue-type": text("quorum")}, "quorum", id="quorum"),
        pytest.param({"x-queue-type": text("foo")}, "foo", id="unknown-is-not-judged"),
        pytest.param({"x-queue-type": long(1)}, "classic", id="not-a-text"),
    ],
)
def test_requested_queue_type(arguments: Arguments, expected: str) -> None:
    assert requested_queue_type(arguments) == expected


def test_only_classic_queues_can_be_server_named() -> None:
    """Rule Q-02."""
    check_server_named(CLASSIC)
    check_server_named("foo")
    with pytest.raises(PreconditionFailed) as caught:
        check_server_named(QUORUM)

    assert caught.value.explanation == (
        "Cannot declare a server-named queue for type rabbit_quorum_queue"
    )


@pytest.mark.parametrize("queue_type", [QUORUM, STREAM])
@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "wrong"),
    [
        pytest.param(True, False, True, "auto-delete", id="auto-delete"),
        pytest.param(True, True, False, "exclusive-owner", id="exclusive"),
        pytest.param(False, False, False, "non-durable", id="transient"),
        pytest.param(False, True, True, "auto-delete", id="all-three"),
        pytest.param(False, True, False, "exclusive-owner", id="exclusive-and-transient"),
    ],
)
def test_replicated_queues_have_no_such_flags(
    queue_type: str, durable: bool, exclusive: bool, auto_delete: bool, wrong: str
) -> None:
    """Rule Q-28."""
    with pytest.raises(PreconditionFailed) as caught:
        check_queue_properties(
            queue_type, "q", "/", durable=durable, exclusive=exclusive, auto_delete=auto_delete
        )

    assert caught.value.explanation == f"invalid property '{wrong}' for queue 'q' in vhost '/'"
    check_queue_properties(
        CLASSIC, "q", "/", durable=durable, exclusive=exclusive, auto_delete=auto_delete
    )
    check_queue_properties(queue_type, "q", "/", durable=True, exclusive=False, auto_delete=False)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_consumer_priority_takes_integers_only(kind: str) -> None:
    """Rule CO-08."""
    arguments = {"x-priority": Field(kind, EVERY_KIND[kind])}
    if kind in INTEGER_KINDS:
        assert consumer_priority_of(CLASSIC, "q", "/", arguments) == 5
        return

    with pytest.raises(PreconditionFailed) as caught:
        consumer_priority_of(CLASSIC, "q", "/", arguments)

    assert caught.value.explanation == value_fault(
        "x-priority", f'"expected integer, got {TYPE_NAMES[kind]}"'
    )


def test_consumer_priority_is_zero_unless_asked_for_and_may_be_negative() -> None:
    """Rule CO-10."""
    assert consumer_priority_of(CLASSIC, "q", "/", {}) == 0
    assert consumer_priority_of(CLASSIC, "q", "/", {"x-foo": text("1")}) == 0
    assert consumer_priority_of(QUORUM, "q", "/", {"x-priority": long(-7)}) == -7


@pytest.mark.parametrize("queue_type", [CLASSIC, QUORUM, STREAM])
@pytest.mark.parametrize("key", CONSUME_TYPES_BY_KEY)
def test_consume_argument_of_another_type_of_queue_is_refused(key: str, queue_type: str) -> None:
    """Rule CO-08."""
    arguments = {key: long(1)}
    if queue_type in CONSUME_TYPES_BY_KEY[key]:
        consumer_priority_of(queue_type, "q", "/", arguments)
        return

    with pytest.raises(PreconditionFailed) as caught:
        consumer_priority_of(queue_type, "q", "/", arguments)

    assert caught.value.explanation == (
        f"invalid arg '{key}' for queue 'q' in vhost '/' of queue type "
        f"{QUEUE_TYPE_MODULES[queue_type]}"
    )


def test_bad_priority_is_reported_before_arguments_of_other_types() -> None:
    """Rule CO-08 [4.3]."""
    arguments = {"x-stream-offset": text("first"), "x-priority": text("high")}
    with pytest.raises(PreconditionFailed, match="expected integer"):
        consumer_priority_of(CLASSIC, "q", "/", arguments)


@pytest.mark.parametrize("key", ["x-cancel-on-ha-failover", "x-credit", "x-foo"])
def test_unknown_consume_arguments_are_ignored(key: str) -> None:
    """Rule CO-08."""
    assert consumer_priority_of(CLASSIC, "q", "/", {key: Field("V", None)}) == 0
