"""channel.* and access.request on an open channel (rules CH-06, CH-09, CH-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import NotImplementedByBroker
from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.channel import Channel
    from broker.wire.methods import AccessRequest, ChannelClose, ChannelFlow

__all__ = ["access_request", "close", "flow"]

REPLY_SUCCESS: Final = 200


def flow(channel: Channel, method: ChannelFlow) -> None:
    """channel.flow: only going on is supported."""
    if not method.active:
        raise NotImplementedByBroker("active=false")

    channel.send(codec.encode_channel_flow_ok(True))


def close(channel: Channel, method: ChannelClose) -> None:
    """channel.close: everything it held is let go before close-ok is sent."""
    fields: dict[str, object] = {"channel": channel.channel_id, "reason": "the client closed it"}
    if method.reply_code != REPLY_SUCCESS:
        # What a client has against it, in its own words.
        fields.update(code=method.reply_code, text=method.reply_text)

    channel.connection.log("debug", "channel.closed", fields)
    channel.terminate()
    channel.send(codec.CHANNEL_CLOSE_OK)
    channel.connection.forget_channel(channel)


def access_request(channel: Channel, method: AccessRequest) -> None:
    """access.request: tickets mean nothing, and there is only one."""
    channel.send(codec.ACCESS_REQUEST_OK)
