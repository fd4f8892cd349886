"""What every exchange type does with its bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.exchange.base import (
    Exchange,
    ExchangeSettings,
    add_destination,
    discard_destination,
    exhausted_sources,
    remove_incoming_bindings,
)
from broker.wire.tables import Arguments, Field
from tests.helpers.session import World
from tests.helpers.topology import ALL_TYPES, filter_of, make_exchange, make_queue, names_of

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination

VHOST = World().vhost

NOT_BY_WEIGHT = [name for name in ALL_TYPES if name != "x-consistent-hash"]
"""There a destination goes with whichever of its bindings goes first (rule E-123)."""

HEADERS: Arguments = {"h": Field("I", 1)}
WANTED: Arguments = filter_of(None, h=1)


def bind(source: Exchange, destination: Destination, key: str = "1") -> Binding:
    """Bind so that every type matches key `1` with HEADERS."""
    binding = source.add_binding(destination, key, WANTED)
    assert binding is not None
    return binding


def matched(source: Exchange) -> list[str]:
    return names_of(source.match(["1"], HEADERS))


def made(exchange_type: str) -> Exchange:
    """An exchange of a virtual host, for the types that need one to match."""
    exchange = make_exchange(exchange_type)
    exchange.attach(VHOST)
    return exchange


def test_settings_become_attributes_and_counters_begin_at_zero() -> None:
    arguments: Arguments = {"other": Field("t", True)}
    exchange = make_exchange("topic")
    assert (exchange.publish_in, exchange.publish_out) == (0, 0)
    assert exchange.alternate_exchange is None
    assert not exchange.is_queue

    given = type(exchange)(ExchangeSettings("n", "topic", True, True, True, arguments))
    assert (given.name, given.type, given.arguments) == ("n", "topic", arguments)
    assert (given.durable, given.auto_delete, given.internal) == (True, True, True)


@pytest.mark.parametrize("exchange_type", ALL_TYPES)
def test_binding_twice_is_one_binding_and_one_unbind_removes_it(exchange_type: str) -> None:
    """Rule B-01, scenario S-072."""
    exchange, queue = made(exchange_type), make_queue()
    binding = bind(exchange, queue)
    assert exchange.add_binding(queue, "1", dict(WANTED)) is None
    assert exchange.find_binding(queue, "1", WANTED) is binding
    assert list(exchange.bindings.values()) == [binding]
    assert list(queue.incoming) == [binding]
    assert matched(exchange) == ["q"]

    assert exchange.remove_binding(queue, "1", dict(WANTED)) is binding
    assert (exchange.bindings, queue.incoming, matched(exchange)) == ({}, {}, [])


@pytest.mark.parametrize("exchange_type", ALL_TYPES)
def test_unbinding_what_is_not_bound_changes_nothing(exchange_type: str) -> None:
    """Rule B-06, scenario S-070."""
    exchange, queue = made(exchange_type), make_queue()
    bind(exchange, queue)
    assert exchange.remove_binding(queue, "other", WANTED) is None
    assert exchange.remove_binding(queue, "1", {}) is None
    assert exchange.remove_binding(make_queue("q"), "1", WANTED) is None
    assert matched(exchange) == ["q"]


@pytest.mark.parametrize("exchange_type", NOT_BY_WEIGHT)
def test_a_queue_bound_with_several_arguments_gets_one_copy_until_the_last_is_gone(
    exchange_type: str,
) -> None:
    """Rules B-01, E-86."""
    exchange, queue = made(exchange_type), make_queue()
    more = filter_of("any", h=1)
    bind(exchange, queue)
    assert exchange.add_binding(queue, "1", more) is not None
    assert matched(exchange) == ["q"]

    exchange.remove_binding(queue, "1", WANTED)
    assert matched(exchange) == ["q"]

    exchange.remove_binding(queue, "1", more)
    assert matched(exchange) == []


@pytest.mark.parametrize("exchange_type", ALL_TYPES)
def test_deleting_a_destination_removes_its_bindings_only(exchange_type: str) -> None:
    """Rule B-08."""
    exchange, gone, staying = (
        made(exchange_type),
        make_queue("gone"),
        make_queue("staying"),
    )
    other = make_exchange("direct", "other")
    expected = [bind(exchange, gone), bind(other, gone), bind(exchange, gone, "2")]
    kept = bind(exchange, staying)
    assert remove_incoming_bindings(gone) == expected
    assert gone.incoming == {}
    assert list(exchange.bindings.values()) == [kept]
    assert (matched(exchange), matched(other)) == (["staying"], [])


@pytest.mark.parametrize("exchange_type", ALL_TYPES)
def test_deleting_an_exchange_frees_its_destinations(exchange_type: str) -> None:
    """Rule E-43."""
    exchange, queue = made(exchange_type), make_queue()
    kept = bind(make_exchange("direct", "other"), queue)
    expected = [bind(exchange, queue), bind(exchange, make_queue("q2"), "2")]
    assert exchange.drop_all_bindings() == expected
    assert exchange.bindings == {}
    assert list(queue.incoming) == [kept]
    assert matched(exchange) == []


@pytest.mark.parametrize("exchange_type", ALL_TYPES)
def test_an_emptied_exchange_can_be_bound_again(exchange_type: str) -> None:
    exchange, queue = made(exchange_type), make_queue()
    bind(exchange, queue)
    exchange.drop_all_bindings()
    bind(exchange, queue)
    assert matched(exchange) == ["q"]
    assert exchange.remove_binding(queue, "1", WANTED) is not None
    assert matched(exchange) == []


def test_an_exchange_bound_to_itself_is_freed_at_both_ends() -> None:
    """Rule E-102."""
    exchange = make_exchange("fanout")
    bind(exchange, exchange)
    assert exchange.match(["1"], None) == [exchange]
    assert len(exchange.drop_all_bindings()) == 1
    assert (exchange.bindings, exchange.incoming) == ({}, {})


def test_only_auto_delete_exchanges_without_bindings_are_exhausted() -> None:
    """Rules E-50, E-51."""
    queue, other = make_queue(), make_queue("other")
    bare = make_exchange("direct", "bare", auto_delete=True)
    still_bound = make_exchange("direct", "still-bound", auto_delete=True)
    lasting = make_exchange("direct", "lasting")
    for source in (bare, still_bound, lasting):
        bind(source, queue)

    bind(bare, queue, "2")
    bind(still_bound, other)
    assert exhausted_sources(remove_incoming_bindings(queue)) == [bare]
    assert exhausted_sources([]) == []


def test_being_a_destination_keeps_no_auto_delete_exchange() -> None:
    """Rules E-50, E-51: the only outgoing binding counts."""
    first = make_exchange("fanout", "a", auto_delete=True)
    second = make_exchange("fanout", "b", auto_delete=True)
    bind(second, first)
    back = bind(first, second)
    first.drop_binding(back)
    assert exhausted_sources([back]) == [first]
    assert exhausted_sources(remove_incoming_bindings(first)) == [second]


def test_counted_destinations_leave_with_their_last_binding() -> None:
    queue = make_queue()
    counts: dict[Destination, int] = {}
    add_destination(counts, queue)
    add_destination(counts, queue)
    discard_destination(counts, queue)
    assert counts == {queue: 1}
    discard_destination(counts, queue)
    assert counts == {}
