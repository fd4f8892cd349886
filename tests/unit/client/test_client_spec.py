"""What a queue is like, and the AMQP arguments that this is."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.client.errors import InvalidName, InvalidPriority, InvalidValue
from broker.client.spec import QueueSpec, check_queue_name, dead_queue_name

DEAD = {"x-dead-letter-exchange": "leveret.dead", "x-dead-letter-routing-key": "orders"}


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        pytest.param(QueueSpec(), DEAD, id="usual"),
        pytest.param(QueueSpec(dead_letter=False), {}, id="bare"),
        pytest.param(QueueSpec(exclusive=True), {}, id="exclusive"),
        pytest.param(QueueSpec(kind="quorum"), {**DEAD, "x-queue-type": "quorum"}, id="quorum"),
        pytest.param(
            QueueSpec(message_ttl=0.0001, expires=2.5),
            {**DEAD, "x-message-ttl": 1, "x-expires": 2500},
            id="times-are-rounded-up",
        ),
        pytest.param(
            QueueSpec(max_length=5),
            {**DEAD, "x-max-length": 5, "x-overflow": "reject-publish"},
            id="full-is-told",
        ),
        pytest.param(
            QueueSpec(max_bytes=5, on_full="drop-oldest"),
            {**DEAD, "x-max-length-bytes": 5, "x-overflow": "drop-head"},
            id="or-the-oldest-goes",
        ),
        pytest.param(QueueSpec(max_priority=9), {**DEAD, "x-max-priority": 9}, id="priority"),
        pytest.param(
            QueueSpec(kind="quorum", max_priority=9),
            {**DEAD, "x-queue-type": "quorum"},
            id="quorum-queues-have-priorities-anyway",
        ),
        pytest.param(
            QueueSpec(single_active_consumer=True),
            {**DEAD, "x-single-active-consumer": True},
            id="single-active-consumer",
        ),
        pytest.param(
            QueueSpec(arguments={"x-queue-mode": "lazy", "x-dead-letter-exchange": "mine"}),
            {**DEAD, "x-queue-mode": "lazy", "x-dead-letter-exchange": "mine"},
            id="others",
        ),
    ],
)
def test_a_spec_is_arguments(spec: QueueSpec, arguments: dict[str, object]) -> None:
    assert spec.arguments_for("orders") == arguments


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        pytest.param(QueueSpec(), {}, id="usual"),
        pytest.param(
            QueueSpec(kind="quorum", max_dead_letters=3),
            {"x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "drop-head"},
            id="quorum-bounded",
        ),
    ],
)
def test_dead_letters_have_a_queue_of_the_same_kind(
    spec: QueueSpec, arguments: dict[str, object]
) -> None:
    assert spec.dead_arguments() == arguments
    assert dead_queue_name("orders") == "orders.dead"


@pytest.mark.parametrize(
    ("order", "given", "wire"),
    [
        pytest.param("high", None, 0, id="high-none"),
        pytest.param("high", 9, 9, id="high-first"),
        pytest.param("low", None, 9, id="low-none-is-most-urgent"),
        pytest.param("low", 0, 9, id="low-first"),
        pytest.param("low", 9, 0, id="low-last"),
    ],
)
def test_priorities_go_either_way(order: str, given: int | None, wire: int) -> None:
    spec = QueueSpec(max_priority=9, priority_order=cast("Any", order))

    assert spec.wire_priority(given) == wire
    assert spec.given_priority(wire) == (given or 0)


@pytest.mark.parametrize("priority", [-1, 10, True, 1.5])
def test_a_priority_out_of_range_is_refused(priority: int) -> None:
    with pytest.raises(InvalidPriority):
        QueueSpec(max_priority=9).wire_priority(priority)


def test_a_priority_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(InvalidPriority, match="max_priority"):
        QueueSpec().wire_priority(3)

    assert QueueSpec().wire_priority(0) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"ack_timeout": 0},
        {"ack_timeout": float("nan")},
        {"message_ttl": -1},
        {"message_ttl": True},
        {"expires": 5e6},
        {"dedupe_window": 0},
        {"max_length": 0},
        {"max_length": 1.5},
        {"max_bytes": True},
        {"max_priority": 256},
        {"max_priority": 32, "kind": "quorum"},
        {"max_dead_letters": -1},
        {"kind": "stream"},
        {"on_full": "block"},
        {"priority_order": "lowest"},
        {"kind": "quorum", "exclusive": True},
        {"kind": "quorum", "durable": False},
    ],
    ids=str,
)
def test_specs_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        QueueSpec(**arguments)


@pytest.mark.parametrize("name", ["", "amq.gen", "a" * 201, "ü" * 101, "a.#", "*", "a+b"])
def test_names_that_a_queue_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_queue_name(name)


@pytest.mark.parametrize("name", ["orders", "a.b-c_d", ".x", "a" * 200, "a b/c@d"])
def test_other_names_are_fine(name: str) -> None:
    assert check_queue_name(name) == name
