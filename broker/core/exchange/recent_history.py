"""Core: x-recent-history: a fanout that gives new bindings its last messages (rule E-133)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_field
from broker.core.exchange.base import KEEPS, PASSES
from broker.core.exchange.fanout import FanoutExchange
from broker.core.exchange.values import INTEGER_KINDS
from broker.core.forwarding import forward, hand_to
from broker.core.queue.queue import Queue
from broker.errors import PreconditionFailed

if TYPE_CHECKING:
    from broker.core.binding import Binding
    from broker.core.exchange.base import ExchangeSettings
    from broker.core.message import Message
    from broker.core.vhost import VirtualHost
    from broker.wire.properties import Properties

__all__ = ["RecentHistoryExchange"]

LENGTH_ARGUMENT: Final = "x-recent-history-length"
LENGTH_DEFAULT: Final = 20
NO_STORE_HEADER: Final = "x-recent-history-no-store"


class RecentHistoryExchange(FanoutExchange):
    """Every binding takes every message, a new one the last few that came before it.

    Attributes:
        history: those messages, oldest first.

    """

    __slots__ = ("_vhost", "history")

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self.depends_on_headers = True
        self.depends_on_properties = True
        self._vhost: VirtualHost | None = None
        self.history: deque[Message] = deque()

    def attach(self, vhost: VirtualHost) -> None:
        self._vhost = vhost

    def detach(self) -> None:
        self.history.clear()

    def validate(self) -> None:
        field = self.arguments.get(LENGTH_ARGUMENT)
        if field is not None and self._length() < 1:
            raise PreconditionFailed(
                f"Invalid argument {erl_field(field)}, "
                f"'{LENGTH_ARGUMENT}' must be a positive integer"
            )

    def _length(self) -> int:
        """How many messages it remembers; 0 where the argument is no number."""
        field = self.arguments.get(LENGTH_ARGUMENT)
        if field is None:
            return LENGTH_DEFAULT

        is_number = field.kind in INTEGER_KINDS and isinstance(field.value, int)
        return field.value if is_number and isinstance(field.value, int) else 0

    def keeps(self, properties: Properties) -> int:
        field = properties.headers().get(NO_STORE_HEADER)
        return PASSES if field is not None and field.value is True else KEEPS

    def keep(self, message: Message, *, is_returned: bool) -> None:
        history = self.history
        history.append(message.copy())
        if len(history) > self._length():
            history.popleft()

    def bound(self, binding: Binding) -> None:
        vhost = self._vhost
        assert vhost is not None
        destination = binding.destination
        for message in list(self.history):
            if isinstance(destination, Queue):
                hand_to([destination], message)
            else:
                forward(vhost, vhost.exchanges[destination.name], message)
