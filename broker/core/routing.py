"""Core: from a publish to the set of queues it reaches (rules E-70..E-76).

Routing starts at the published exchange and follows bindings to further exchanges and, where an
exchange finds nothing, its alternate. Each exchange is visited once, so circles end; each queue is
found once, whatever the number of ways that lead to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from broker.core.binding import Destination
    from broker.core.exchange.base import Exchange
    from broker.wire.tables import Arguments

__all__ = ["RouteResult", "route"]


class RouteResult:
    """Where a message goes.

    Attributes:
        queues: each queue once, in a stable order; empty where the message is unroutable.
        depends_on_headers: whether another message with the same keys may go elsewhere, so that
            this result must not be remembered by key.

    """

    __slots__ = ("depends_on_headers", "queues")

    def __init__(self, queues: tuple[Destination, ...], depends_on_headers: bool) -> None:
        self.queues: tuple[Destination, ...] = queues
        self.depends_on_headers: bool = depends_on_headers


def route(
    exchanges: dict[str, Exchange], start: Exchange, keys: list[str], headers: Arguments | None
) -> RouteResult:
    """Route a message.

    Args:
        exchanges: the virtual host's exchanges by name, to find alternates in.
        start: the exchange published to.
        keys: the routing key, then the keys of CC and BCC (rules E-70, P-40).
        headers: the message's headers table, if it has one.

    """
    queues: dict[Destination, None] = {}
    visited: dict[Exchange, None] = {start: None}
    to_visit = [start]
    depends_on_headers = False
    for exchange in to_visit:  # grows while it is walked
        depends_on_headers = depends_on_headers or exchange.depends_on_headers
        destinations = exchange.match(keys, headers)
        if not destinations:
            destinations = _alternate_of(exchange, exchanges)

        for destination in destinations:
            if destination.is_queue:
                queues[destination] = None
                continue

            further = cast("Exchange", destination)
            if further not in visited:
                visited[further] = None
                to_visit.append(further)

    return RouteResult(tuple(queues), depends_on_headers)


def _alternate_of(exchange: Exchange, exchanges: dict[str, Exchange]) -> list[Destination]:
    """Return the alternate exchange, if it has one that exists (rule E-72)."""
    name = exchange.alternate_exchange
    # Rule E-25: an empty name is no way to the default exchange.
    if not name or name not in exchanges:
        return []

    return [exchanges[name]]
