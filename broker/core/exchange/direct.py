"""Core: the direct exchange: a binding takes the messages of exactly its key (rule E-70)."""

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

__all__ = ["DirectExchange"]


class DirectExchange(Exchange):
    """One look-up a key."""

    __slots__ = ("_by_key",)

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self._by_key: dict[str, DestinationCounts] = {}

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        if len(routing_keys) == 1:
            counts = self._by_key.get(routing_keys[0])
            return [] if counts is None else list(counts)

        matched: dict[Destination, None] = {}
        for key in routing_keys:
            counts = self._by_key.get(key)
            if counts is not None:
                for destination in counts:
                    matched[destination] = None

        return list(matched)

    def _index(self, binding: Binding) -> None:
        add_destination(self._by_key.setdefault(binding.routing_key, {}), binding.destination)

    def _unindex(self, binding: Binding) -> None:
        counts = self._by_key[binding.routing_key]
        discard_destination(counts, binding.destination)
        if not counts:
            del self._by_key[binding.routing_key]

    def _clear_index(self) -> None:
        self._by_key.clear()
