"""Core: the lines of the log as messages of the exchange ``amq.rabbitmq.log``.

The exchange is there only where it was asked for, in the virtual host ``/``; its routing keys are
the levels. A line that is written while a message is on its way is routed a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import Address, Message, build_content
from broker.core.outbox import Outbox

if TYPE_CHECKING:
    from broker.core.vhost import VirtualHost

__all__ = ["LOG_EXCHANGE", "LogExchange"]

LOG_EXCHANGE: Final = "amq.rabbitmq.log"

CONTENT_TYPE: Final = b"text/plain"
WAITING_MAX: Final = 1_000
"""Lines that wait to be routed: more within one turn are dropped."""


class LogExchange:
    """Publishes lines.

    Args:
        home: the virtual host that has the exchange.

    """

    __slots__ = ("_deadlines", "_outbox")

    def __init__(self, home: VirtualHost) -> None:
        self._deadlines = home.deadlines
        self._outbox = Outbox(home, LOG_EXCHANGE)

    def tell(self, level: str, line: str) -> None:
        """Publish a line with its level as routing key."""
        if not self._outbox.is_heard() or self._outbox.waiting_count >= WAITING_MAX:
            return

        stamp = (self._deadlines.wall_ms // 1000).to_bytes(8, "big")
        # Content type and timestamp, in the order of their bits (rule X-02).
        properties = b"\x80\x40" + bytes((len(CONTENT_TYPE),)) + CONTENT_TYPE + stamp
        body = line.encode("utf-8", "backslashreplace")
        content = build_content(properties, body)
        address = Address(LOG_EXCHANGE, level)
        self._outbox.post(Message(address, content, len(body), False, -1))
