"""Core: from a publish to the set of queues it reaches (rules E-70..E-76).

Routing starts at the published exchange and follows bindings to further exchanges and, where an
exchange finds nothing, its alternate. Each exchange is visited once, so circles end; each queue is
found once, whatever the number of ways that lead to it.

Routing changes nothing, so that it can be done for a publish that is to happen later or not at all:
exchanges that want the message for themselves are named in the result, no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from broker.core.exchange.base import HOLDS, PASSES, Exchange

if TYPE_CHECKING:
    from broker.core.binding import Destination
    from broker.wire.properties import Properties
    from broker.wire.tables import Arguments

__all__ = ["NO_KEEPERS", "RouteResult", "route"]

NO_KEEPERS: Final[list[Exchange]] = []
"""Shared, since it is nearly always so: must not be changed."""


class RouteResult:
    """Where a message goes.

    Attributes:
        queues: each queue once, in a stable order; empty where the message is unroutable.
        depends_on_headers: whether another message with the same keys may go elsewhere, so that
            this result must not be remembered by key.
        keepers: the exchanges that want the message besides (see exchange/base.py).

    """

    __slots__ = ("depends_on_headers", "keepers", "queues")

    def __init__(
        self, queues: tuple[Destination, ...], depends_on_headers: bool, keepers: list[Exchange]
    ) -> None:
        self.queues: tuple[Destination, ...] = queues
        self.depends_on_headers: bool = depends_on_headers
        self.keepers: list[Exchange] = keepers


def route(
    exchanges: dict[str, Exchange],
    start: Exchange,
    keys: list[str],
    headers: Arguments | None,
    properties: Properties | None = None,
) -> RouteResult:
    """Route a message.

    Args:
        exchanges: the virtual host's exchanges by name, to find alternates in.
        start: the exchange published to.
        keys: the routing key, then the keys of CC and BCC (rules E-70, P-40).
        headers: the message's headers table, if it has one.
        properties: the message's properties, for exchanges that depend on them; without them
            these go by what keys and headers say.

    """
    first: list[Destination] | None = None
    if not start.depends_on_properties:
        first = start.match(keys, headers)
        if len(first) == 1 and first[0].is_queue:
            # Nearly always: the rest would come to the same.
            return RouteResult((first[0],), start.depends_on_headers, NO_KEEPERS)

    queues: dict[Destination, None] = {}
    visited: dict[Exchange, None] = {start: None}
    to_visit = [start]
    depends_on_headers = False
    keepers = NO_KEEPERS
    for exchange in to_visit:  # grows while it is walked
        depends_on_headers = depends_on_headers or exchange.depends_on_headers
        interest = PASSES
        if exchange.depends_on_properties and properties is not None:
            destinations = exchange.match_properties(keys, properties)
            interest = exchange.keeps(properties)
            if interest != PASSES:
                keepers = [*keepers, exchange]
        elif first is not None and exchange is start:
            destinations = first
        else:
            destinations = exchange.match(keys, headers)

        if not destinations and interest != HOLDS:
            destinations = _alternate_of(exchange, exchanges)

        for destination in destinations:
            if destination.is_queue:
                queues[destination] = None
                continue

            further = cast("Exchange", destination)
            if further not in visited:
                visited[further] = None
                to_visit.append(further)

    return RouteResult(tuple(queues), depends_on_headers, keepers)


def _alternate_of(exchange: Exchange, exchanges: dict[str, Exchange]) -> list[Destination]:
    """Return the alternate exchange, if it has one that exists (rule E-72)."""
    name = exchange.alternate_exchange
    # Rule E-25: an empty name is no way to the default exchange.
    if not name or name not in exchanges:
        return []

    return [exchanges[name]]
