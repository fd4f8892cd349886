"""Users and their limits (management layer)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker.auth.passwords import (
    HASHING_ALGORITHM_DEFAULT,
    PasswordHash,
    new_password_hash,
    parse_password_hash,
)
from broker.core.limit_commands import clear_user_limits, limits_of_user, set_user_limits
from broker.core.protection import PROTECTED, check_user_may_go, is_protected
from broker.core.user_commands import (
    Rights,
    delete_user,
    put_user,
    set_permissions,
    unprotect_user,
)
from broker.management.arguments import object_of, rights_in, tags_of
from broker.management.auth import ADMINISTRATOR, ANYBODY
from broker.management.call import answer, created, done, is_from_local_socket
from broker.management.errors import BadRequest, HTTPProblem, NotAuthorised, NotThere
from broker.management.paging import answer_list, columns_of, pick
from broker.management.routes import Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from broker.auth.users import User
    from broker.core.node import Node
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES", "password_hash_in", "password_hash_of", "user_row"]


def user_row(user: User) -> JSON:
    """A user, as lists and definitions have it."""
    known = user.password_hash
    return {
        "name": user.name,
        "password_hash": "" if known is None else known.to_text(),
        "hashing_algorithm": HASHING_ALGORITHM_DEFAULT if known is None else known.algorithm,
        "tags": list(user.tags),
        "limits": limits_of_user(user),
    }


def _name_of(user: User) -> str:
    return user.name


async def _answer(call: Call, users: list[User]) -> web.Response:
    users.sort(key=_name_of)
    return await answer_list(call, users, user_row, name_of=_name_of)


async def list_users(call: Call) -> web.Response:
    return await _answer(call, list(call.node.users.users.values()))


async def list_without_permissions(call: Call) -> web.Response:
    found = [user for user in call.node.users.users.values() if not user.permissions]
    return await _answer(call, found)


def _user_in_path(call: Call) -> User:
    user = call.node.users.users.get(call["user"])
    if user is None:
        raise NotThere

    return user


async def get_user(call: Call) -> web.Response:
    return answer(pick(user_row(_user_in_path(call)), columns_of(call)))


async def password_hash_of(
    node: Node, body: JSON, *, algorithm: str | None = None
) -> PasswordHash | None:
    """The same as below, in a thread where a password is hashed, which may take long by intent."""
    wanted = node.users.hashing_algorithm
    if not body.get("password"):
        return password_hash_in(body, node.random_bytes, wanted, algorithm=algorithm)

    return await asyncio.to_thread(
        password_hash_in, body, node.random_bytes, wanted, algorithm=algorithm
    )


def password_hash_in(
    body: JSON,
    random_bytes: Callable[[int], bytes],
    wanted: str,
    *,
    algorithm: str | None = None,
) -> PasswordHash | None:
    """What a request, or a definition, says of a password; None where nobody can log in.

    Args:
        body: the user.
        random_bytes: source of salts.
        wanted: how a password is hashed.
        algorithm: how a hash was made that does not say it.

    Raises:
        BadRequest: it is said twice, or the hash cannot be one.

    """
    password = body.get("password")
    hashed = body.get("password_hash")
    if password is not None and hashed is not None:
        raise BadRequest("both_password_and_password_hash_are_provided")

    named = body.get("hashing_algorithm") or algorithm or HASHING_ALGORITHM_DEFAULT
    if not isinstance(named, str):
        raise BadRequest("hashing_algorithm should be a text")

    if isinstance(password, str) and password:
        return new_password_hash(password, wanted, random_bytes)

    if password or not hashed:
        if password:
            raise BadRequest("a password is a text")

        return None

    if not isinstance(hashed, str):
        raise BadRequest(["not_base64", hashed])

    try:
        return parse_password_hash(hashed, named)
    except ValueError as problem:
        if str(problem) == "it is not base64":
            raise BadRequest(["not_base64", hashed]) from None

        raise BadRequest(f"password_hash: {problem}") from None


def _tags_in(body: JSON) -> tuple[str, ...]:
    if "tags" in body:
        return tags_of(body["tags"])

    if "administrator" in body:
        # Before there were tags.
        return ("administrator",) if body["administrator"] in (True, "true") else ()

    raise BadRequest("tags_not_present")


async def put_one(call: Call) -> web.Response:
    body = await call.body()
    node = call.node
    name = call["user"]
    known = node.users.users.get(name)
    tags = _tags_in(body)
    password_hash = await password_hash_of(node, body)
    limits = object_of(body, "limits")
    granted = {vhost: rights_in(value) for vhost, value in object_of(body, "permissions").items()}
    by = call.caller.name
    if not name:
        raise BadRequest("a user has a name")

    is_lift = known is not None and _lifts_protection(call, known, password_hash, tags)

    def make() -> None:
        if is_lift:
            unprotect_user(node, name, by=by)

        put_user(node, name, password_hash, tags=tags, by=by)
        if limits:
            set_user_limits(node, name, limits, by=by, is_new=known is None)

        if known is None:
            _grant(call, name, granted)

    try:
        await call.site.change(make)
    except ValueError as problem:
        raise BadRequest(f"Validation failed\n\n{problem}\n") from None

    return created() if known is None else done()


def _grant(call: Call, name: str, granted: dict[str, Rights]) -> None:
    for vhost, rights in granted.items():
        if vhost in call.node.vhosts:
            set_permissions(call.node, name, rights, vhost=vhost, by=call.caller.name)


def _lifts_protection(
    call: Call, known: User, password_hash: PasswordHash | None, tags: tuple[str, ...]
) -> bool:
    """Whether the tag of protected users is taken away, and nothing else is changed: that may be
    done by whoever can open the socket in the data directory, and by nobody from elsewhere.
    RabbitMQ: by its command line, which is on the same machine too.
    """
    rest = tuple(tag for tag in known.tags if tag != PROTECTED)
    is_same = (password_hash, tags) == (known.password_hash, rest)
    return is_same and is_protected(known) and is_from_local_socket(call.request)


async def delete_one(call: Call) -> web.Response:
    user = _user_in_path(call)
    node = call.node
    by = call.caller.name
    await call.site.change(lambda: delete_user(node, user.name, by=by))
    return done()


async def delete_many(call: Call) -> web.Response:
    names = (await call.body("users"))["users"]
    if not isinstance(names, list):
        raise BadRequest("users should be a list of names")

    node = call.node
    by = call.caller.name
    doomed = [name for name in names if isinstance(name, str) and name in node.users.users]

    def delete() -> None:
        # All of them or none.
        for name in doomed:
            check_user_may_go(node.users.users[name])

        for name in doomed:
            delete_user(node, name, by=by)

    await call.site.change(delete)
    return done()


# -- limits


def _limits_row(user: User) -> JSON:
    return {"user": user.name, "value": limits_of_user(user)}


async def list_limits(call: Call) -> web.Response:
    users = call.node.users.users.values()
    return answer([_limits_row(user) for user in users if limits_of_user(user)])


async def get_limits(call: Call) -> web.Response:
    user = call.node.users.users.get(call["user"])
    caller = call.caller
    if not caller.is_monitor and user is not caller.user:
        raise NotAuthorised("User not authorised to access object")

    if user is None:
        raise NotThere

    return answer([_limits_row(user)] if limits_of_user(user) else [])


async def put_limit(call: Call) -> web.Response:
    value = (await call.body("value"))["value"]
    user = _user_in_path(call)
    node = call.node
    by = call.caller.name
    try:
        await call.site.change(
            lambda: set_user_limits(node, user.name, {call["limit"]: value}, by=by)
        )
    except ValueError as problem:
        # RabbitMQ: of virtual hosts it has a heading, of users none.
        raise BadRequest(str(problem)) from None

    return done()


async def delete_limit(call: Call) -> web.Response:
    user = _user_in_path(call)
    node = call.node
    by = call.caller.name
    # RabbitMQ: one that there cannot be is not there either.
    with suppress(ValueError):
        await call.site.change(lambda: clear_user_limits(node, user.name, [call["limit"]], by=by))

    return done()


# -- hashes


async def hash_password(call: Call) -> web.Response:
    return answer({"ok": await _hashed(call, call["password"])})


async def hash_password_in_body(call: Call) -> web.Response:
    """As LavinMQ does it: a path is written to logs, a body is not."""
    password = (await call.body("password"))["password"]
    if not isinstance(password, str):
        raise BadRequest("a password is a text")

    return answer({"ok": await _hashed(call, password)})


async def _hashed(call: Call, password: str) -> str:
    if not password:
        raise HTTPProblem(400, "bad_request", "a blank password can never log in")

    node = call.node
    made = await asyncio.to_thread(
        new_password_hash, password, node.users.hashing_algorithm, node.random_bytes
    )
    return made.to_text()


ROUTES: Final = (
    Route("GET", "/users", ADMINISTRATOR, list_users),
    Route("GET", "/users/without-permissions", ADMINISTRATOR, list_without_permissions),
    Route("POST", "/users/bulk-delete", ADMINISTRATOR, delete_many),
    Route("GET", "/users/:user", ADMINISTRATOR, get_user),
    Route("PUT", "/users/:user", ADMINISTRATOR, put_one),
    Route("DELETE", "/users/:user", ADMINISTRATOR, delete_one),
    Route("GET", "/user-limits", ADMINISTRATOR, list_limits),
    Route("GET", "/user-limits/:user", ANYBODY, get_limits),
    Route("PUT", "/user-limits/:user/:limit", ADMINISTRATOR, put_limit),
    Route("DELETE", "/user-limits/:user/:limit", ADMINISTRATOR, delete_limit),
    Route("GET", "/auth/hash_password/:password", ADMINISTRATOR, hash_password),
    Route("PUT", "/auth/hash_password", ADMINISTRATOR, hash_password_in_body),
)
