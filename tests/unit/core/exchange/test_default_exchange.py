"""The default exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.exchange.default import DefaultExchange
from tests.helpers.topology import make_queue, names_of

if TYPE_CHECKING:
    from broker.core.binding import Destination


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(["a"], ["a"], id="name"),
        pytest.param(["none"], [], id="no-such-queue"),
        pytest.param([""], [], id="empty"),
        pytest.param(["a", "b", "a", "none"], ["a", "b"], id="copies-once-each"),
    ],
)
def test_keys_are_names_of_queues(keys: list[str], expected: list[str]) -> None:
    """Rules E-10, E-11."""
    exchange = DefaultExchange({name: make_queue(name) for name in "abc"})
    assert names_of(exchange.match(keys, None)) == expected


def test_queues_come_and_go_without_a_binding() -> None:
    """Rule E-10."""
    queues: dict[str, Destination] = {}
    exchange = DefaultExchange(queues, lambda name: None)
    assert exchange.match(["a"], None) == []
    queues["a"] = make_queue("a")
    assert exchange.match(["a"], None) == [queues["a"]]
    assert exchange.bindings == {}
    assert exchange.drop_all_bindings() == []


def test_it_is_a_durable_direct_exchange_without_a_name() -> None:
    """Rule E-01."""
    exchange = DefaultExchange({})
    assert (exchange.name, exchange.type, exchange.durable) == ("", "direct", True)
    assert not exchange.auto_delete
    assert not exchange.internal


def test_nothing_is_bound_to_it() -> None:
    """Rule E-12: the virtual host refuses before; here it would be a bug."""
    with pytest.raises(AssertionError):
        DefaultExchange({}).add_binding(make_queue(), "q", {})
