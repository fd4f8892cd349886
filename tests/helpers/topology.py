"""Exchanges and bare destinations, for tests that need no virtual host around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.binding import Destination
from broker.core.exchange.base import Exchange, ExchangeSettings
from broker.core.exchange.delayed import DELAYED_MESSAGE
from broker.core.exchange.registry import create_exchange
from broker.wire.tables import Arguments, Field, table_from_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ALL_TYPES", "filter_of", "make_exchange", "make_queue", "names_of", "text"]

ALL_TYPES = [
    "direct",
    "fanout",
    "headers",
    "topic",
    "x-consistent-hash",
    "x-delayed-message",
    "x-local-random",
    "x-modulus-hash",
    "x-random",
    "x-recent-history",
]


def make_exchange(
    exchange_type: str,
    name: str = "x",
    arguments: Arguments | None = None,
    *,
    durable: bool = False,
    auto_delete: bool = False,
) -> Exchange:
    """An exchange; one that needs arguments and is given none has the simplest."""
    if arguments is None:
        arguments = {"x-delayed-type": text("direct")} if exchange_type == DELAYED_MESSAGE else {}

    settings = ExchangeSettings(name, exchange_type, durable, auto_delete, False, arguments)
    return create_exchange(settings)


def make_queue(name: str = "q", *, durable: bool = False) -> Destination:
    return Destination(name, True, durable)


def names_of(destinations: Iterable[Destination]) -> list[str]:
    """The names in alphabetical order; a destination that is there twice shows twice."""
    return sorted(destination.name for destination in destinations)


def text(value: str) -> Field:
    return Field("S", value)


def filter_of(mode: str | None, **wanted: object) -> Arguments:
    """Arguments of a headers binding; underscores in names become hyphens, fields stay fields."""
    arguments: Arguments = {} if mode is None else {"x-match": text(mode)}
    for name, value in wanted.items():
        hyphened = name.replace("_", "-")
        if isinstance(value, Field):
            arguments[hyphened] = value
        else:
            arguments.update(table_from_plain({hyphened: value}))

    return arguments
