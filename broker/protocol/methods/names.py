"""What AMQP methods do to names before anybody looks at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.errors import NotFound

if TYPE_CHECKING:
    from broker.protocol.channel import Channel

__all__ = ["named_or_last_queue", "strip_line_breaks"]


def strip_line_breaks(name: str) -> str:
    """Rule CH-17: declare, delete, bind and unbind know names without CR and LF only."""
    return name.replace("\r", "").replace("\n", "")


def named_or_last_queue(channel: Channel, name: str) -> str:
    """An empty name means the queue that this channel declared last (rule CH-14).

    Raises:
        NotFound: it has declared none.

    """
    if name:
        return name

    if channel.last_queue is None:
        raise NotFound("no previously declared queue")

    return channel.last_queue
