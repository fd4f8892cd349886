"""Who asks: by a password with each request, by a session, or by a socket (management layer).

Invariant: passwords are judged where those of AMQP are (:mod:`broker.auth.logins`), with the same
delays and bounds, and never in the event loop where that takes long.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.auth.logins import Attempt
from broker.auth.users import AuthenticationError
from broker.management.auth import OPENING_TAGS, Caller, LocalAdministrator
from broker.management.call import is_from_local_socket, is_near
from broker.management.errors import NotAuthorised, Unauthenticated
from broker.management.sessions import Sessions

if TYPE_CHECKING:
    from aiohttp import web

    from broker.auth.users import User
    from broker.core.node import Node

__all__ = ["COOKIE", "Doorkeeper", "Rules", "credentials_in"]

COOKIE: Final = "leveret_session"
COOKIE_PATH: Final = "/api"


class Rules(NamedTuple):
    """What holds at the door of the API.

    Attributes:
        cors_origins: sites whose pages may use it.
        session_timeout_s: how long a login lasts.
        has_open_health_checks: whether some of them need no login.
        body_bytes_max: of a request.
        hosts: names under which plain HTTP is answered, besides private ones.

    """

    cors_origins: tuple[str, ...] = ()
    session_timeout_s: float = 28_800.0
    has_open_health_checks: bool = True
    body_bytes_max: int = 64 * 2**20
    hosts: tuple[str, ...] = ()


class Doorkeeper:
    """Finds out who asks.

    Args:
        node: the broker core.
        rules: what holds.

    """

    def __init__(self, node: Node, rules: Rules) -> None:
        self._node = node
        self.rules: Final = rules
        self.sessions: Final = Sessions(
            node.users,
            monotonic=node.clock.monotonic,
            random_bytes=node.random_bytes,
            timeout_s=rules.session_timeout_s,
        )

    async def caller_of(self, request: web.Request) -> Caller:
        """Who makes a request.

        Raises:
            Unauthenticated: nothing says who.
            NotAuthorised: the password is wrong, or the user may not use the API.

        """
        header = request.headers.get("authorization")
        if header is None and is_from_local_socket(request):
            return Caller(LocalAdministrator())

        if header is None:
            token = request.cookies.get(COOKIE, "")
            return self._caller(self._user_of(token), request)

        scheme, _, rest = header.partition(" ")
        if scheme.lower() == "bearer":
            return self._caller(self._user_of(rest.strip()), request)

        if scheme.lower() != "basic":
            raise Unauthenticated

        name, password = credentials_in(rest)
        return await self.log_in(name, password, request)

    def _user_of(self, token: str) -> User:
        user = self.sessions.user_of(token) if token else None
        if user is None:
            raise Unauthenticated

        return user

    async def log_in(self, name: str, password: str, request: web.Request) -> Caller:
        """Judge a password.

        Raises:
            NotAuthorised: it is wrong, or the user may not use the API.

        """
        user = await self._judge(name, password, request)
        return self._caller(user, request)

    async def _judge(self, name: str, password: str, request: web.Request) -> User:
        logins = self._node.logins
        later: asyncio.Future[User | AuthenticationError] = (
            asyncio.get_running_loop().create_future()
        )

        def told(verdict: User | AuthenticationError) -> None:
            if not later.done():
                later.set_result(verdict)

        source = request.remote or ""
        # The place is judged below, in words of its own.
        attempt = Attempt(name, password, source, is_loopback=True)
        began_s = self._node.clock.monotonic()
        verdict = logins.judge(attempt, int(began_s * 1000), told)
        if verdict is None:
            verdict = await later

        if not isinstance(verdict, AuthenticationError):
            return verdict

        self._node.log(
            "warning",
            "login.refused",
            {"user": name, "mechanism": "HTTP", "peer": source, "reason": verdict.reason},
        )
        due_s = began_s + logins.guard.delay_of(source) / 1000
        await asyncio.sleep(max(0.0, due_s - self._node.clock.monotonic()))
        raise NotAuthorised("Not_Authorized", "not_authorized")

    def _caller(self, user: User, request: web.Request) -> Caller:
        if user.name in self._node.users.loopback_only_users and not is_near(request):
            raise NotAuthorised("User can only log in via localhost")

        if OPENING_TAGS.isdisjoint(user.tags):
            raise NotAuthorised("Not management user")

        return Caller(user)

    def open_session(self, caller: Caller, request: web.Request, response: web.Response) -> str:
        """Begin a session, whose token goes out as a cookie too."""
        token = self.sessions.open(caller.user)
        response.set_cookie(
            COOKIE,
            token,
            max_age=int(self.rules.session_timeout_s),
            path=COOKIE_PATH,
            secure=request.secure,
            httponly=True,
            samesite="Strict",
        )
        return token

    def close_session(self, request: web.Request, response: web.Response) -> None:
        """End the session that a request belongs to, by cookie or header."""
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            self.sessions.close(rest.strip())

        self.sessions.close(request.cookies.get(COOKIE, ""))
        response.del_cookie(COOKIE, path=COOKIE_PATH)


def credentials_in(encoded: str) -> tuple[str, str]:
    """Name and password of basic authentication.

    Raises:
        Unauthenticated: there are none in it.

    """
    try:
        raw = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise Unauthenticated from None

    name, colon, password = raw.decode("utf-8", "surrogateescape").partition(":")
    if not colon:
        raise Unauthenticated

    return name, password
