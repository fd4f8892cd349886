"""Queue types by name."""

from __future__ import annotations

from broker.core.queue.argument_rules import QUEUE_TYPE_MODULES, SUPPORTED_QUEUE_TYPES
from broker.core.queue.registry import QUEUE_TYPES
from tests.helpers.core import CoreWorld


def test_what_can_be_declared_is_what_can_be_made() -> None:
    """Rules Q-23, Q-25: the table of arguments and the registry know the same types."""
    assert set(QUEUE_TYPES) == SUPPORTED_QUEUE_TYPES
    assert set(QUEUE_TYPES) <= set(QUEUE_TYPE_MODULES)


def test_a_queue_is_of_the_type_that_was_asked_for() -> None:
    """Rule Q-13."""
    client = CoreWorld().client()
    for name, queue_class in QUEUE_TYPES.items():
        queue = client.declare(f"a {name} one", durable=True, x_queue_type=name)
        assert queue.type == name
        assert type(queue) is queue_class
