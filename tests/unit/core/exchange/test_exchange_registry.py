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


def test_only_headers_exchanges_depend_on_headers() -> None:
    depending = [name for name in EXCHANGE_TYPES if make_exchange(name).depends_on_headers]
    assert depending == ["headers"]
