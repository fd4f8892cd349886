"""Connections, channels and consumers: lists, one of them, close (management layer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.management.auth import ANYBODY, VHOST
from broker.management.call import answer, done
from broker.management.consumer_rows import (
    channel_details,
    channel_named,
    channel_row,
    channels_of,
    connection_named,
    connection_row,
    connections_of,
    consumer_row,
)
from broker.management.errors import NotAuthorised, NotThere
from broker.management.paging import answer_list, columns_of, pick
from broker.management.routes import Route
from broker.management.samples import ranges_of

if TYPE_CHECKING:
    from aiohttp import web

    from broker.auth.users import User
    from broker.core.consumer import Consumer
    from broker.management.call import Call
    from broker.protocol.channel import Channel
    from broker.protocol.connection import Connection

__all__ = ["ROUTES"]

REASON_DEFAULT: Final = "Closed via management plugin"


def _check_own(call: Call, user: User | None, *, is_monitor_enough: bool) -> None:
    """Demand that it is the caller's own, or that the caller sees (or may do) everything."""
    caller = call.caller
    sees_all = caller.is_monitor if is_monitor_enough else caller.is_administrator
    if not sees_all and user is not caller.user:
        raise NotAuthorised("User not authorised to access object")


def _visible_connections(call: Call) -> list[Connection]:
    caller = call.caller
    vhost = call.request.headers.get("x-vhost", "")
    found = connections_of(call.node)
    if not caller.is_monitor:
        found = [one for one in found if one.user is caller.user]

    if vhost:
        found = [one for one in found if one.vhost is not None and one.vhost.name == vhost]

    return sorted(found, key=_name_of_connection)


def _name_of_connection(connection: Connection) -> str:
    return connection.name


def _name_of_channel(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.channel_id})"


async def _answer_connections(
    call: Call, found: list[Connection], *, is_paged: bool = True
) -> web.Response:
    row_of = partial(connection_row, call.site, ranges_of(call))
    return await answer_list(call, found, row_of, name_of=_name_of_connection, is_paged=is_paged)


async def _answer_channels(
    call: Call, connections: list[Connection], *, is_paged: bool = True
) -> web.Response:
    found = [channel for one in connections for channel in channels_of(one)]
    row_of = partial(channel_row, call.site, ranges_of(call))
    return await answer_list(call, found, row_of, name_of=_name_of_channel, is_paged=is_paged)


# -- connections


async def list_connections(call: Call) -> web.Response:
    return await _answer_connections(call, _visible_connections(call))


async def list_in_vhost(call: Call) -> web.Response:
    found = [one for one in _visible_connections(call) if one.vhost is call.vhost]
    return await _answer_connections(call, found, is_paged=False)


def _connection_in_path(call: Call) -> Connection:
    connection = connection_named(call.node, call["connection"])
    if connection is None:
        raise NotThere

    return connection


async def get_connection(call: Call) -> web.Response:
    connection = _connection_in_path(call)
    _check_own(call, connection.user, is_monitor_enough=True)
    return answer(pick(connection_row(call.site, ranges_of(call), connection), columns_of(call)))


async def close_connection(call: Call) -> web.Response:
    connection = _connection_in_path(call)
    _check_own(call, connection.user, is_monitor_enough=False)
    reason = call.request.headers.get("x-reason") or REASON_DEFAULT
    await call.site.change(lambda: connection.force_close(reason))
    return done()


def _of_user(call: Call, *, is_monitor_enough: bool) -> list[Connection]:
    user = call.node.users.users.get(call["user"])
    if user is None:
        raise NotThere

    _check_own(call, user, is_monitor_enough=is_monitor_enough)
    return [one for one in connections_of(call.node) if one.user is user]


async def list_of_user(call: Call) -> web.Response:
    return await _answer_connections(call, _of_user(call, is_monitor_enough=True))


async def close_of_user(call: Call) -> web.Response:
    found = _of_user(call, is_monitor_enough=False)
    reason = call.request.headers.get("x-reason") or REASON_DEFAULT

    def close() -> None:
        for connection in found:
            connection.force_close(reason)

    await call.site.change(close)
    return done()


async def list_sessions(call: Call) -> web.Response:
    """Sessions are of AMQP 1.0, which nobody speaks here."""
    _check_own(call, _connection_in_path(call).user, is_monitor_enough=True)
    return answer([])


# -- channels


async def list_channels(call: Call) -> web.Response:
    return await _answer_channels(call, _visible_connections(call))


async def list_channels_in_vhost(call: Call) -> web.Response:
    found = [one for one in _visible_connections(call) if one.vhost is call.vhost]
    return await _answer_channels(call, found, is_paged=False)


async def list_channels_of(call: Call) -> web.Response:
    connection = _connection_in_path(call)
    _check_own(call, connection.user, is_monitor_enough=True)
    return await _answer_channels(call, [connection], is_paged=False)


async def get_channel(call: Call) -> web.Response:
    channel = channel_named(call.node, call["channel"])
    if channel is None:
        raise NotThere

    _check_own(call, channel.actor.user, is_monitor_enough=True)
    return answer(pick(channel_details(call.site, ranges_of(call), channel), columns_of(call)))


# -- consumers


async def list_consumers(call: Call) -> web.Response:
    caller = call.caller
    found: list[Consumer] = []
    for vhost in call.visible_vhosts():
        for queue in vhost.queues.values():
            found += queue.consumers

    if not caller.is_monitor:
        found = [one for one in found if _owner_of(one) is caller.user]

    return await answer_list(
        call,
        found,
        partial(consumer_row, call.site),
        name_of=lambda consumer: consumer.tag,
        is_paged=False,
    )


def _owner_of(consumer: Consumer) -> User | None:
    actor = consumer.deliveries.actor
    return None if actor is None else actor.user


ROUTES: Final = (
    Route("GET", "/connections", ANYBODY, list_connections),
    Route("GET", "/connections/:connection", ANYBODY, get_connection),
    Route("DELETE", "/connections/:connection", ANYBODY, close_connection),
    Route("GET", "/connections/:connection/channels", ANYBODY, list_channels_of),
    Route("GET", "/connections/:connection/sessions", ANYBODY, list_sessions),
    Route("GET", "/connections/username/:user", ANYBODY, list_of_user),
    Route("DELETE", "/connections/username/:user", ANYBODY, close_of_user),
    Route("GET", "/vhosts/:vhost/connections", VHOST, list_in_vhost),
    Route("GET", "/channels", ANYBODY, list_channels),
    Route("GET", "/channels/:channel", ANYBODY, get_channel),
    Route("GET", "/vhosts/:vhost/channels", VHOST, list_channels_in_vhost),
    Route("GET", "/consumers", ANYBODY, list_consumers),
    Route("GET", "/consumers/:vhost", VHOST, list_consumers),
)
