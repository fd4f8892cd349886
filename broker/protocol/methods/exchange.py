"""exchange.* (sections E.3 to E.5, E.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core import exchange_commands
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest
from broker.protocol.methods.names import strip_line_breaks
from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.channel import Channel
    from broker.wire.methods import ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind

__all__ = ["bind", "declare", "delete", "unbind"]


def declare(channel: Channel, method: ExchangeDeclare) -> None:
    """exchange.declare, active or passive."""
    name = strip_line_breaks(method.exchange)
    if method.passive:
        exchange_commands.check_exchange(channel.vhost, channel.actor, name)
    else:
        settings = ExchangeSettings(
            name,
            method.type,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
        )
        exchange_commands.declare_exchange(channel.vhost, channel.actor, settings)

    if not method.nowait:
        channel.send(codec.EXCHANGE_DECLARE_OK)


def delete(channel: Channel, method: ExchangeDelete) -> None:
    """exchange.delete."""
    name = strip_line_breaks(method.exchange)
    exchange_commands.delete_exchange(
        channel.vhost, channel.actor, name, if_unused=method.if_unused
    )
    if not method.nowait:
        channel.send(codec.EXCHANGE_DELETE_OK)


def bind(channel: Channel, method: ExchangeBind) -> None:
    """exchange.bind."""
    exchange_commands.bind(channel.vhost, channel.actor, _request(method))
    if not method.nowait:
        channel.send(codec.EXCHANGE_BIND_OK)


def unbind(channel: Channel, method: ExchangeUnbind) -> None:
    """exchange.unbind."""
    exchange_commands.unbind(channel.vhost, channel.actor, _request(method))
    if not method.nowait:
        channel.send(codec.EXCHANGE_UNBIND_OK)


def _request(method: ExchangeBind | ExchangeUnbind) -> BindingRequest:
    return BindingRequest(
        strip_line_breaks(method.source),
        strip_line_breaks(method.destination),
        False,
        method.routing_key,
        method.arguments,
    )
