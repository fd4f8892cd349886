"""Core: messages of the broker's own, on their way to one of its exchanges.

They are routed from a list, a moment after what they tell of, so that a queue that one reaches is
not changed in the middle of something else. What nobody has bound a queue for is not even made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.forwarding import forward

if TYPE_CHECKING:
    from broker.core.message import Message
    from broker.core.vhost import VirtualHost

__all__ = ["Outbox", "short_key"]

KEY_BYTES_MAX: Final = 255


class Outbox:
    """What waits to be routed to one exchange.

    Args:
        vhost: where the exchange is.
        exchange_name: names an exchange that is there as long as the virtual host.

    """

    __slots__ = ("_exchange_name", "_is_scheduled", "_pending", "_vhost")

    def __init__(self, vhost: VirtualHost, exchange_name: str) -> None:
        self._vhost = vhost
        self._exchange_name = exchange_name
        self._pending: list[Message] = []
        self._is_scheduled = False

    def is_heard(self) -> bool:
        """Whether a binding leads out of the exchange."""
        return bool(self._vhost.exchanges[self._exchange_name].bindings)

    @property
    def waiting_count(self) -> int:
        """How many messages wait to be routed."""
        return len(self._pending)

    def post(self, message: Message) -> None:
        """Route a message soon."""
        self._pending.append(message)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._vhost.deadlines.schedule(self._vhost.deadlines.now_ms, self._route_pending)

    def _route_pending(self) -> None:
        self._is_scheduled = False
        pending = self._pending
        self._pending = []
        exchange = self._vhost.exchanges[self._exchange_name]
        exchange.publish_in += len(pending)
        for message in pending:
            exchange.publish_out += forward(self._vhost, exchange, message)


def short_key(key: str) -> str:
    """A key must fit into a short string, however long the name in it is."""
    raw = key.encode("utf-8", "surrogateescape")
    return key if len(raw) <= KEY_BYTES_MAX else raw[:KEY_BYTES_MAX].decode("utf-8", "ignore")
