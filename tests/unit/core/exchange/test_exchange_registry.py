"""Exchange types by name."""

from __future__ import annotations

import pytest

from broker.core.exchange.registry import EXCHANGE_TYPES, exchange_type_named
from broker.errors import PreconditionFailed
from tests.helpers.topology import ALL_TYPES, make_exchange


@pytest.mark.parametrize("name", ALL_TYPES)
def test_built_in_types_are_made_by_name(name: str) -> None:
    """Rule E-03."""
    exchange = make_exchange(name)
    assert exchange.type == name
    assert type(exchange) is exchange_type_named(name) is EXCHANGE_TYPES[name]


@pytest.mark.parametrize("name", ["", "Direct", "x-nothing"])
def test_an_unknown_type_is_refused_by_name(name: str) -> None:
    """Rule E-20."""
    with pytest.raises(PreconditionFailed) as caught:
        make_exchange(name)

    assert caught.value.reply_text == f"PRECONDITION_FAILED - unknown exchange type '{name}'"


def test_the_helpers_know_all_types() -> None:
    assert list(EXCHANGE_TYPES) == ALL_TYPES


def test_routes_through_these_types_are_remembered_by_key() -> None:
    remembered = [name for name in EXCHANGE_TYPES if not make_exchange(name).depends_on_headers]
    assert remembered == ["direct", "fanout", "topic", "x-consistent-hash", "x-modulus-hash"]


def test_only_these_types_are_shown_properties() -> None:
    shown = [name for name in EXCHANGE_TYPES if make_exchange(name).depends_on_properties]
    assert shown == ["x-delayed-message", "x-recent-history"]


@pytest.mark.parametrize("name", ALL_TYPES)
def test_a_type_that_depends_on_properties_is_not_remembered_by_key_either(name: str) -> None:
    exchange = make_exchange(name)
    assert exchange.depends_on_headers >= exchange.depends_on_properties
