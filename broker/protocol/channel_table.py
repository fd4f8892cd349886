"""The channels of a connection as a whole: opening one, and the end of all (section CH)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.errors import ChannelFault, NotAllowed
from broker.protocol.channel import Channel
from broker.wire import codec
from broker.wire.constants import CHANNEL_OPEN, SERVER_TO_CLIENT

if TYPE_CHECKING:
    from broker.protocol.connection import Connection

__all__ = ["handle_unopened", "terminate_all"]


def handle_unopened(connection: Connection, channel_id: int, index: int, payload: bytes) -> None:
    """A method on a channel that is not open: only channel.open has a place there.

    Raises:
        NotAllowed: there are channels enough; whatever the method, the number is a new one.
        FrameError: it does not decode, which is found before the missing channel (rule F-08).
        ChannelFault: it is another method (rule CH-03).

    """
    _check_limits(connection)
    if index not in SERVER_TO_CLIENT:
        codec.decode_method(index, payload)

    if index != CHANNEL_OPEN:
        raise ChannelFault("expected 'channel.open'")

    vhost = connection.vhost
    actor = connection.actor
    user = connection.user
    assert vhost is not None
    assert actor is not None
    assert user is not None
    connection.node.count_channel(user.name, 1)
    connection.node.churn.channels_opened += 1
    channel = Channel(connection, channel_id, vhost, actor)
    connection.channels[channel_id] = channel
    channel.send(codec.CHANNEL_OPEN_OK)
    connection.tell("channel.created", channel_id)


def _check_limits(connection: Connection) -> None:
    """Rules CH-04 and CH-05."""
    count = len(connection.channels)
    if connection.channel_max and count >= connection.channel_max:
        raise NotAllowed(
            f"number of channels opened ({count}) has reached the negotiated channel_max "
            f"({connection.channel_max})",
            class_id=0,
            method_id=0,
        )

    user = connection.user
    assert user is not None
    limit = user.channels_max
    if limit is not None and connection.node.channel_counts.get(user.name, 0) >= limit:
        raise NotAllowed(
            f"number of channels opened for user '{user.name}' has reached the maximum "
            f"allowed user limit of {limit}",
            class_id=0,
            method_id=0,
        )


def terminate_all(connection: Connection) -> None:
    """The connection ends: every channel lets go of what it holds (rule C-70)."""
    channels = list(connection.channels.values())
    for channel in channels:
        # First of all channels: what one gives back must not go to another one's consumer.
        channel.stop_deliveries()

    for channel in channels:
        channel.terminate()
        connection.forget_channel(channel)
