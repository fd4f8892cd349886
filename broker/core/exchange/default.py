"""Core: the default exchange, where the routing key is the name of a queue (rules E-10, E-11).

It holds no bindings: it looks into the virtual host's own table of queues. That nobody binds,
unbinds, declares or deletes it (rule E-12) is for the virtual host to see to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.exchange.base import Exchange, ExchangeSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.core.binding import Binding, Destination
    from broker.wire.tables import Arguments

__all__ = ["DefaultExchange"]


def _no_reply_target(_name: str) -> Destination | None:
    return None


class DefaultExchange(Exchange):
    """The exchange named ``""``.

    Args:
        queues: the virtual host's queues by name; looked into, never changed.
        find_reply_target: finds what a name that is no queue's may still be: a requester that
            waits for replies (rule DR-06).

    """

    __slots__ = ("_find_reply_target", "_queues")

    def __init__(
        self,
        queues: Mapping[str, Destination],
        find_reply_target: Callable[[str], Destination | None] = _no_reply_target,
    ) -> None:
        # RabbitMQ: it is listed as a durable direct exchange (rule E-01).
        super().__init__(ExchangeSettings("", "direct", True, False, False, {}))
        self._queues: Mapping[str, Destination] = queues
        self._find_reply_target = find_reply_target

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        matched: dict[Destination, None] = {}
        for key in routing_keys:
            target = self._queues.get(key) or self._find_reply_target(key)
            if target is not None:
                matched[target] = None

        return list(matched)

    def _index(self, binding: Binding) -> None:
        raise AssertionError("the default exchange takes no bindings")

    def _unindex(self, binding: Binding) -> None:
        raise AssertionError("the default exchange holds no bindings")

    def _clear_index(self) -> None:
        """Nothing to empty."""
