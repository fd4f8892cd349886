"""Declaring again: rules Q-10..Q-14, E-22..E-24, T-13, T-14, as asked of a live RabbitMQ 4.3."""

from __future__ import annotations

from decimal import Decimal

import pytest

from broker.core.equivalence import (
    EQUIVALENCE_KEYS,
    ExchangeTraits,
    QueueTraits,
    alternate_exchange_of,
    check_exchange_equivalence,
    check_queue_equivalence,
)
from broker.core.queue.argument_rules import ARGUMENT_RULES
from broker.errors import PreconditionFailed
from broker.wire.tables import TYPE_NAMES, Arguments, Field

EVERY_FIELD = {
    field.kind: field
    for field in (
        Field("t", True),
        Field("b", 5),
        Field("B", 5),
        Field("s", 5),
        Field("u", 5),
        Field("I", 5),
        Field("i", 5),
        Field("l", 5),
        Field("L", 5),
        Field("f", 5.0),
        Field("d", 5.0),
        Field("D", Decimal(5)),
        Field("S", "5"),
        Field("x", b"5"),
        Field("T", 5),
        Field("F", {"k": Field("I", 5)}),
        Field("A", [Field("I", 5)]),
        Field("V", None),
    )
}
PRINTED = {
    "t": "true",
    "f": "5.0",
    "d": "5.0",
    "D": "{0,5}",
    "F": '[{<<"k">>,signedint,5}]',
    "A": "[{signedint,5}]",
    "V": "undefined",
}
EQUAL_KINDS = ["bBsuIilLT", "fd", "Sx"]


def queue_fault(
    current: Arguments,
    received: Arguments,
    *,
    queue_type: str = "classic",
    flags: tuple[bool, bool] = (True, False),
    received_flags: tuple[bool, bool] = (True, False),
) -> str:
    """What is inequivalent, without the words that are always there; "" for nothing."""
    try:
        check_queue_equivalence(
            "q",
            "/",
            QueueTraits(*flags, current, queue_type),
            QueueTraits(*received_flags, received),
        )
    except PreconditionFailed as error:
        start, middle, rest = error.explanation.partition(" for queue 'q' in vhost '/': ")
        assert start.startswith("inequivalent arg ")
        assert middle
        return start.removeprefix("inequivalent arg ") + ": " + rest

    return ""


@pytest.mark.parametrize("received", EVERY_FIELD)
@pytest.mark.parametrize("current", EVERY_FIELD)
def test_values_are_compared_by_family(current: str, received: str) -> None:
    """Rule Q-12; timestamps are integers and binaries are strings here, decimals are neither."""
    is_equal = current == received or any(
        current in kinds and received in kinds for kinds in EQUAL_KINDS
    )
    fault = queue_fault(
        {"x-queue-mode": EVERY_FIELD[current]}, {"x-queue-mode": EVERY_FIELD[received]}
    )
    if is_equal:
        assert fault == ""
        return

    old = "none" if current == "V" else f"'{PRINTED.get(current, '5')}'"
    new = "none" if received == "V" else f"'{PRINTED.get(received, '5')}'"
    assert fault == f"'x-queue-mode': received {new} but current is {old}"


@pytest.mark.parametrize("kind", EVERY_FIELD)
def test_value_against_none_is_shown_with_its_type(kind: str) -> None:
    """Rule T-14."""
    arguments = {"x-queue-mode": EVERY_FIELD[kind]}
    shown = f"the value '{PRINTED.get(kind, '5')}' of type '{TYPE_NAMES[kind]}'"
    assert queue_fault({}, arguments) == (f"'x-queue-mode': received {shown} but current is none")
    assert queue_fault(arguments, {}) == (f"'x-queue-mode': received none but current is {shown}")


@pytest.mark.parametrize(
    ("current", "received", "expected"),
    [
        pytest.param(
            {"x-message-ttl": Field("I", 10_000)},
            {"x-message-ttl": Field("I", 20_000)},
            "'x-message-ttl': received '20000' but current is '10000'",
            id="Q-11-both",
        ),
        pytest.param(
            {"x-message-ttl": Field("I", 10_000)},
            {},
            "'x-message-ttl': received none but current is the value '10000' of type 'signedint'",
            id="Q-11-dropped",
        ),
        pytest.param(
            {},
            {"x-queue-mode": Field("S", "lazy")},
            "'x-queue-mode': received the value 'lazy' of type 'longstr' but current is none",
            id="Q-11-added",
        ),
        pytest.param(
            {},
            {"x-message-ttl": Field("I", -1)},
            "'x-message-ttl': received the value '-1' of type 'signedint' but current is none",
            id="Q-11-values-are-not-validated",
        ),
        pytest.param(
            {"x-max-length": Field("I", 10)},
            {"x-max-length": Field("d", 10.0)},
            "'x-max-length': received '10.0' but current is '10'",
            id="Q-12-integer-is-no-float",
        ),
        pytest.param(
            {},
            {"x-queue-type": Field("S", "foo")},
            "'x-queue-type': received 'foo' but current is 'classic'",
            id="Q-13-unknown-type",
        ),
        pytest.param(
            {"x-queue-type": Field("S", "classic")},
            {"x-queue-type": Field("S", "quorum")},
            "'x-queue-type': received 'quorum' but current is 'classic'",
            id="Q-13-other-type",
        ),
        pytest.param(
            {},
            {"x-queue-type": Field("I", 1)},
            "'x-queue-type': received '1' but current is 'classic'",
            id="Q-13-not-a-text",
        ),
        pytest.param({}, {"x-queue-type": Field("S", "classic")}, "", id="Q-13-absent-is-classic"),
        pytest.param({"x-queue-type": Field("S", "classic")}, {}, "", id="Q-13-classic-is-absent"),
        pytest.param({"x-queue-type": Field("S", "")}, {}, "", id="Q-13-empty-is-absent"),
        pytest.param({"x-foo": Field("I", 1)}, {"x-foo": Field("I", 2)}, "", id="Q-14-unknown"),
        pytest.param({}, {"x-max-age": Field("I", 2)}, "", id="Q-14-of-another-type"),
        pytest.param(
            {"x-queue-mode": Field("D", Decimal("1.0"))},
            {"x-queue-mode": Field("D", Decimal("1.00"))},
            "'x-queue-mode': received '{2,100}' but current is '{1,10}'",
            id="Q-12-decimals-have-a-scale",
        ),
    ],
)
def test_arguments_of_classic_queues(
    current: Arguments, received: Arguments, expected: str
) -> None:
    assert queue_fault(current, received) == expected


@pytest.mark.parametrize(
    ("flags", "received", "expected"),
    [
        pytest.param((True, False), (True, False), "", id="same"),
        pytest.param(
            (True, False),
            (False, False),
            "'durable': received 'false' but current is 'true'",
            id="durable",
        ),
        pytest.param(
            (True, False),
            (True, True),
            "'auto_delete': received 'true' but current is 'false'",
            id="auto-delete",
        ),
        pytest.param(
            (False, True),
            (True, False),
            "'durable': received 'true' but current is 'false'",
            id="durable-first",
        ),
    ],
)
def test_flags_are_compared_before_arguments(
    flags: tuple[bool, bool], received: tuple[bool, bool], expected: str
) -> None:
    """Rules Q-10, Q-11."""
    arguments = {"x-expires": Field("I", 1)} if expected else {}
    assert queue_fault({}, arguments, flags=flags, received_flags=received) == expected


@pytest.mark.parametrize("queue_type", EQUIVALENCE_KEYS)
def test_of_several_differences_the_first_in_the_types_order_is_reported(queue_type: str) -> None:
    """Rules Q-10, Q-20..Q-22, with the client's order turned around."""
    keys = EQUIVALENCE_KEYS[queue_type]
    received = {key: Field("I", 1) for key in reversed(keys)}
    for key in keys:
        fault = queue_fault({}, received, queue_type=queue_type)
        assert fault.startswith(f"'{key}': received ")
        del received[key]

    assert queue_fault({}, received, queue_type=queue_type) == ""


@pytest.mark.parametrize("queue_type", EQUIVALENCE_KEYS)
def test_what_is_compared_is_what_the_type_knows(queue_type: str) -> None:
    known = {rule.key for rule in ARGUMENT_RULES if queue_type in rule.queue_types}
    # Accepted on classic queues, but RabbitMQ 3.12 to 4.2, which take it, do not compare it.
    ignored = {"x-consumer-timeout"} if queue_type == "classic" else set()
    assert set(EQUIVALENCE_KEYS[queue_type]) == known - ignored


def exchange(
    type_name: str = "direct",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments | None = None,
) -> ExchangeTraits:
    return ExchangeTraits(type_name, durable, auto_delete, internal, arguments or {})


AE = {"alternate-exchange": Field("S", "5")}


@pytest.mark.parametrize(
    ("current", "received", "expected"),
    [
        pytest.param(exchange(), exchange(), "", id="same"),
        pytest.param(
            exchange(),
            exchange("fanout", durable=False, auto_delete=True, internal=True, arguments=AE),
            "'type' for X: received 'fanout' but current is 'direct'",
            id="E-22-type-first",
        ),
        pytest.param(
            exchange(),
            exchange("x-local-random"),
            "'type' for X: received ''x-local-random'' but current is 'direct'",
            id="E-22-type-that-is-no-bare-atom",
        ),
        pytest.param(
            exchange(),
            exchange(durable=False, auto_delete=True, internal=True, arguments=AE),
            "'durable' for X: received 'false' but current is 'true'",
            id="E-22-durable",
        ),
        pytest.param(
            exchange(),
            exchange(auto_delete=True, internal=True, arguments=AE),
            "'auto_delete' for X: received 'true' but current is 'false'",
            id="E-22-auto-delete",
        ),
        pytest.param(
            exchange(),
            exchange(internal=True, arguments=AE),
            "'internal' for X: received 'true' but current is 'false'",
            id="E-22-internal",
        ),
        pytest.param(
            exchange(),
            exchange(arguments=AE),
            "'alternate-exchange' for X: received the value '5' of type 'longstr' "
            "but current is none",
            id="E-22-alternate-added",
        ),
        pytest.param(
            exchange(arguments=AE),
            exchange(arguments={"alternate-exchange": Field("I", 5)}),
            "'alternate-exchange' for X: received '5' but current is '5'",
            id="E-22-alternate-of-another-type",
        ),
        pytest.param(
            exchange(arguments=AE),
            exchange(arguments={"x-foo": Field("I", 5), **AE}),
            "",
            id="E-23-unknown-argument",
        ),
    ],
)
def test_exchange_declared_again(
    current: ExchangeTraits, received: ExchangeTraits, expected: str
) -> None:
    if not expected:
        check_exchange_equivalence("e", "/", current, received)
        return

    with pytest.raises(PreconditionFailed) as caught:
        check_exchange_equivalence("e", "/", current, received)

    resource = "exchange 'e' in vhost '/'"
    assert caught.value.explanation == "inequivalent arg " + expected.replace("X", resource)


@pytest.mark.parametrize("kind", EVERY_FIELD)
def test_alternate_exchange_is_a_long_string(kind: str) -> None:
    """Rule E-24."""
    arguments = {"alternate-exchange": EVERY_FIELD[kind]}
    if kind == "S":
        assert alternate_exchange_of("e", "/", arguments) == "5"
        return

    with pytest.raises(PreconditionFailed) as caught:
        alternate_exchange_of("e", "/", arguments)

    assert caught.value.explanation == (
        f"invalid type '{TYPE_NAMES[kind]}' for arg 'alternate-exchange' in exchange 'e' "
        "in vhost '/'"
    )


def test_no_alternate_exchange_is_none_and_an_empty_one_is_not() -> None:
    """Rule E-25."""
    assert alternate_exchange_of("e", "/", {}) is None
    assert alternate_exchange_of("e", "/", {"alternate-exchange": Field("S", "")}) == ""
