"""The fanout exchange."""

from __future__ import annotations

import pytest

from tests.helpers.topology import make_exchange, make_queue


@pytest.mark.parametrize("keys", [["a"], [""], ["none", "b"]])
def test_every_queue_gets_one_copy_whatever_the_key(keys: list[str]) -> None:
    """Rule E-70."""
    exchange = make_exchange("fanout")
    first, second = make_queue("q1"), make_queue("q2")
    for queue, key in [(first, "a"), (second, "b"), (first, "b")]:
        exchange.add_binding(queue, key, {})

    assert exchange.match(keys, None) == [first, second]
    exchange.remove_binding(first, "a", {})
    assert exchange.match(keys, None) == [first, second]
    exchange.remove_binding(first, "b", {})
    assert exchange.match(keys, None) == [second]
