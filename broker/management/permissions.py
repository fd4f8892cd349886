"""What users may do in virtual hosts, and with the keys of topic exchanges (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.user_commands import (
    NoSuchUser,
    NoSuchVirtualHost,
    TopicRights,
    clear_permissions,
    clear_topic_permissions,
    set_permissions,
    set_topic_permissions,
)
from broker.management.arguments import rights_in, text_of
from broker.management.auth import ADMINISTRATOR
from broker.management.call import answer, created, done
from broker.management.errors import BadRequest, NotThere
from broker.management.routes import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aiohttp import web

    from broker.auth.users import User
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES", "permission_rows", "topic_permission_rows"]


def permission_rows(users: Iterable[User], vhost: str | None = None) -> list[JSON]:
    """What these users may do, in one virtual host or in all."""
    return [
        {
            "user": user.name,
            "vhost": name,
            "configure": one.configure,
            "write": one.write,
            "read": one.read,
        }
        for user in users
        for name, one in user.permissions.items()
        if vhost in (None, name)
    ]


def topic_permission_rows(users: Iterable[User], vhost: str | None = None) -> list[JSON]:
    """The same for keys of topic exchanges."""
    return [
        {
            "user": user.name,
            "vhost": name,
            "exchange": exchange,
            "write": one.write,
            "read": one.read,
        }
        for user in users
        for (name, exchange), one in user.topic_permissions.items()
        if vhost in (None, name)
    ]


def _all_users(call: Call) -> list[User]:
    return list(call.node.users.users.values())


def _user_in_path(call: Call) -> User:
    user = call.node.users.users.get(call["user"])
    if user is None:
        raise NotThere

    return user


# -- lists


async def list_permissions(call: Call) -> web.Response:
    return answer(permission_rows(_all_users(call), call.parameters.get("vhost")))


async def list_permissions_of(call: Call) -> web.Response:
    return answer(permission_rows([_user_in_path(call)]))


async def list_topic_permissions(call: Call) -> web.Response:
    return answer(topic_permission_rows(_all_users(call), call.parameters.get("vhost")))


async def list_topic_permissions_of(call: Call) -> web.Response:
    return answer(topic_permission_rows([_user_in_path(call)]))


# -- one


async def _change(call: Call, command: Callable[[], None]) -> None:
    try:
        await call.site.change(command)
    except (NoSuchUser, NoSuchVirtualHost):
        raise BadRequest("vhost_or_user_not_found") from None
    except ValueError as problem:
        raise BadRequest(["invalid_regexp", str(problem)]) from None


async def get_permission(call: Call) -> web.Response:
    rows = permission_rows([_user_in_path(call)], call["place"])
    if not rows:
        raise NotThere

    return answer(rows[0])


async def put_permission(call: Call) -> web.Response:
    rights = rights_in(await call.body("configure", "write", "read"))
    node = call.node
    name, vhost, by = call["user"], call["place"], call.caller.name
    user = node.users.users.get(name)
    is_new = user is None or user.permission(vhost) is None
    await _change(call, lambda: set_permissions(node, name, rights, vhost=vhost, by=by))
    return created() if is_new else done()


async def delete_permission(call: Call) -> web.Response:
    user = _user_in_path(call)
    node = call.node
    vhost, by = call["place"], call.caller.name
    if user.permission(vhost) is None:
        raise NotThere

    def clear() -> None:
        clear_permissions(node, user.name, vhost=vhost, by=by)

    await _change(call, clear)
    return done()


def _topic_rows(call: Call) -> list[JSON]:
    user = _user_in_path(call)
    exchange = call.parameters.get("exchange")
    rows = topic_permission_rows([user], call["place"])
    if exchange is not None:
        rows = [row for row in rows if row["exchange"] == exchange]

    if not rows:
        raise NotThere

    return rows


async def get_topic_permissions(call: Call) -> web.Response:
    return answer(_topic_rows(call))


async def put_topic_permission(call: Call) -> web.Response:
    body = await call.body("exchange", "write", "read")
    rights = TopicRights(text_of(body, "exchange"), text_of(body, "write"), text_of(body, "read"))
    node = call.node
    name, vhost, by = call["user"], call["place"], call.caller.name
    user = node.users.users.get(name)
    is_new = user is None or (vhost, rights.exchange) not in user.topic_permissions
    await _change(call, lambda: set_topic_permissions(node, name, rights, vhost=vhost, by=by))
    return created() if is_new else done()


async def delete_topic_permissions(call: Call) -> web.Response:
    _topic_rows(call)
    node = call.node
    name, vhost, by = call["user"], call["place"], call.caller.name
    exchange = call.parameters.get("exchange")

    def clear() -> None:
        clear_topic_permissions(node, name, vhost=vhost, exchange=exchange, by=by)

    await _change(call, clear)
    return done()


# A virtual host that is not there is another error here than elsewhere: so it is no ``:vhost``.
ONE: Final = "/permissions/:place/:user"
TOPICS: Final = "/topic-permissions/:place/:user"

ROUTES: Final = (
    Route("GET", "/permissions", ADMINISTRATOR, list_permissions),
    Route("GET", "/vhosts/:vhost/permissions", ADMINISTRATOR, list_permissions),
    Route("GET", "/users/:user/permissions", ADMINISTRATOR, list_permissions_of),
    Route("GET", ONE, ADMINISTRATOR, get_permission),
    Route("PUT", ONE, ADMINISTRATOR, put_permission),
    Route("DELETE", ONE, ADMINISTRATOR, delete_permission),
    Route("GET", "/topic-permissions", ADMINISTRATOR, list_topic_permissions),
    Route("GET", "/vhosts/:vhost/topic-permissions", ADMINISTRATOR, list_topic_permissions),
    Route("GET", "/users/:user/topic-permissions", ADMINISTRATOR, list_topic_permissions_of),
    Route("GET", TOPICS, ADMINISTRATOR, get_topic_permissions),
    Route("PUT", TOPICS, ADMINISTRATOR, put_topic_permission),
    Route("DELETE", TOPICS, ADMINISTRATOR, delete_topic_permissions),
    Route("GET", f"{TOPICS}/:exchange", ADMINISTRATOR, get_topic_permissions),
    Route("DELETE", f"{TOPICS}/:exchange", ADMINISTRATOR, delete_topic_permissions),
)
