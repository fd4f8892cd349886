"""Core: x-modulus-hash: the keys choose one of the bindings, always the same (rule E-132).

The bindings are numbered by their destinations' names, not by their age, so that the same bindings
give the same choice in whatever order they were made. One binding more or less moves nearly every
key to another destination: for that there is x-consistent-hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.exchange.base import Exchange
from broker.core.exchange.values import hash_octets

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import ExchangeSettings
    from broker.wire.tables import Arguments

__all__ = ["ModulusHashExchange"]


class ModulusHashExchange(Exchange):
    """The hash of all keys, modulo the number of bindings."""

    __slots__ = ("_sorted", "_unsorted")

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self._unsorted: dict[Binding, None] = {}
        self._sorted: list[Destination] | None = None
        """A destination for each binding; None after a change, until somebody asks."""

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        destinations = self._sorted
        if destinations is None:
            destinations = [binding.destination for binding in self._unsorted]
            destinations.sort(key=_order)
            self._sorted = destinations

        if not destinations:
            return []

        joined = "\0".join(routing_keys).encode("utf-8", "surrogateescape")
        return [destinations[hash_octets(joined) % len(destinations)]]

    def _index(self, binding: Binding) -> None:
        self._unsorted[binding] = None
        self._sorted = None

    def _unindex(self, binding: Binding) -> None:
        del self._unsorted[binding]
        self._sorted = None

    def _clear_index(self) -> None:
        self._unsorted.clear()
        self._sorted = None


def _order(destination: Destination) -> tuple[bool, str]:
    return (destination.is_queue, destination.name)
