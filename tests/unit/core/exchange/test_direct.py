"""The direct exchange."""

from __future__ import annotations

import pytest

from tests.helpers.topology import make_exchange, make_queue, names_of


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(["a"], ["q1", "q2"], id="several-queues"),
        pytest.param(["b"], ["q2"], id="one-queue"),
        pytest.param(["A"], [], id="case-counts"),
        pytest.param(["a.b"], [], id="no-patterns"),
        pytest.param([""], ["q3"], id="empty-key"),
        pytest.param(["none"], [], id="unbound"),
        pytest.param(["b", "a"], ["q1", "q2"], id="union-once-each"),
        pytest.param(["none", ""], ["q3"], id="second-key"),
        pytest.param(["a", "a"], ["q1", "q2"], id="same-key-twice"),
    ],
)
def test_exact_keys_match(keys: list[str], expected: list[str]) -> None:
    """Rule E-70."""
    exchange = make_exchange("direct")
    for name, key in [("q1", "a"), ("q3", ""), ("q4", "a.*")]:
        exchange.add_binding(make_queue(name), key, {})

    both = make_queue("q2")
    exchange.add_binding(both, "a", {})
    exchange.add_binding(both, "b", {})
    assert names_of(exchange.match(keys, None)) == expected
    assert not exchange.depends_on_headers


def test_destinations_come_in_the_order_they_were_bound() -> None:
    exchange = make_exchange("direct")
    queues = [make_queue(str(number)) for number in range(50)]
    for queue in queues:
        exchange.add_binding(queue, "k", {})

    assert exchange.match(["k"], None) == queues
