"""Core: x-random and x-local-random: one of the bindings, whichever (rules E-130, E-131).

Each binding is one lot: a queue that is bound twice, with other arguments, is drawn twice as often.
Chance is the virtual host's, so that a seeded node draws the same again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.exchange.base import Exchange
from broker.core.queue.queue import Queue
from broker.errors import PreconditionFailed

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import ExchangeSettings
    from broker.core.vhost import VirtualHost
    from broker.wire.tables import Arguments

__all__ = ["LocalRandomExchange", "RandomExchange"]


class RandomExchange(Exchange):
    """One destination at random; the key plays no part."""

    __slots__ = ("_lots", "_places", "_vhost")

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self.depends_on_headers = True
        self._vhost: VirtualHost | None = None
        self._lots: list[Binding] = []
        self._places: dict[Binding, int] = {}
        """Where in `_lots` each binding is, so that it is taken out without a search."""

    def attach(self, vhost: VirtualHost) -> None:
        self._vhost = vhost

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        count = len(self._lots)
        if count == 0:
            return []

        place = 0
        if count > 1:
            vhost = self._vhost
            assert vhost is not None
            place = vhost.random_below(count)

        return [self._lots[place].destination]

    def _index(self, binding: Binding) -> None:
        self._places[binding] = len(self._lots)
        self._lots.append(binding)

    def _unindex(self, binding: Binding) -> None:
        # The last one moves to the place that becomes free.
        place = self._places.pop(binding)
        last = self._lots.pop()
        if last is not binding:
            self._lots[place] = last
            self._places[last] = place

    def _clear_index(self) -> None:
        self._lots.clear()
        self._places.clear()


class LocalRandomExchange(RandomExchange):
    """The same for classic queues only, which in a cluster are those of one node."""

    __slots__ = ()

    def validate_binding(self, routing_key: str, arguments: Arguments) -> None:
        if routing_key:
            raise PreconditionFailed(f"Non empty binding '{routing_key}' key not permitted")

    def validate_destination(self, destination: Destination) -> None:
        if not isinstance(destination, Queue):
            raise PreconditionFailed("Destination not found")

        if destination.type != "classic":
            raise PreconditionFailed(
                f"Queue type rabbit_{destination.type}_queue not valid for this exchange type"
            )
