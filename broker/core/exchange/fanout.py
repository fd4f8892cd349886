"""Core: the fanout exchange: every binding takes every message (rule E-70)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.exchange.base import (
    DestinationCounts,
    Exchange,
    add_destination,
    discard_destination,
)

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import ExchangeSettings
    from broker.wire.tables import Arguments

__all__ = ["FanoutExchange"]


class FanoutExchange(Exchange):
    """All destinations, whatever the key."""

    __slots__ = ("_destinations",)

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self._destinations: DestinationCounts = {}

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        return list(self._destinations)

    def _index(self, binding: Binding) -> None:
        add_destination(self._destinations, binding.destination)

    def _unindex(self, binding: Binding) -> None:
        discard_destination(self._destinations, binding.destination)

    def _clear_index(self) -> None:
        self._destinations.clear()
