"""The application: one way in for all requests (management layer).

Invariant: login and access are checked here, before a handler sees the request, and every error
leaves from here.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from aiohttp import web

from broker.management import (
    bindings,
    browse,
    connections,
    control,
    definitions,
    exchanges,
    health,
    lifecycle,
    messages,
    moves,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
)
from broker.management.auth import (
    ANYONE,
    Caller,
    LocalAdministrator,
    authenticate,
    check_access,
)
from broker.management.call import Call, Desk, answer, is_from_local_socket, is_loopback
from broker.management.errors import HTTPProblem, NotThere, problem_of
from broker.management.moves import Moves
from broker.management.routes import Router, split_path

if TYPE_CHECKING:
    from broker.management.routes import Match
    from broker.management.site import Site

__all__ = ["ROUTER", "build_application"]

BODY_BYTES_MAX: Final = 64 * 2**20
"""Definitions of a hundred thousand queues fit; RabbitMQ takes 20 MB."""

ROUTER: Final = Router(
    (
        *overview.ROUTES,
        *nodes.ROUTES,
        *health.ROUTES,
        *control.ROUTES,
        *lifecycle.ROUTES,
        *vhosts.ROUTES,
        *users.ROUTES,
        *permissions.ROUTES,
        *connections.ROUTES,
        *exchanges.ROUTES,
        *queues.ROUTES,
        *messages.ROUTES,
        *browse.ROUTES,
        *moves.ROUTES,
        *bindings.ROUTES,
        *policies.ROUTES,
        *parameters.ROUTES,
        *definitions.ROUTES,
    )
)

VHOST_PATH: Final = "/vhosts/:vhost"
"""What is put there is made."""

COMMON_HEADERS: Final = {
    "cache-control": "no-cache",
    "vary": "accept-encoding, origin",
    "content-security-policy": "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'",
}


def build_application(site: Site) -> web.Application:
    """Make the API of a broker."""
    application = web.Application(client_max_size=BODY_BYTES_MAX)

    under_way = Moves(site)
    front = _Front(Desk(site, under_way))

    async def handle(request: web.Request) -> web.StreamResponse:
        return await front.handle(request)

    async def stop(_application: web.Application) -> None:
        await under_way.stop()

    application.on_shutdown.append(stop)
    application.router.add_route("*", "/{path:.*}", handle)
    return application


class _Front:
    """Takes a request in, and gives its answer out."""

    __slots__ = ("_desk", "_site")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._site = desk.site

    async def handle(self, request: web.Request) -> web.StreamResponse:
        match: Match | None = None
        segments = split_path(request.raw_path)
        if segments[:1] == ["api"]:
            match = ROUTER.find(segments[1:])

        try:
            response = await self._answer(request, match)
        except web.HTTPException:
            raise
        except Exception as fault:
            response = self._refuse(request, fault)

        response.headers.update(COMMON_HEADERS)
        if match is not None:
            response.headers["allow"] = match.allowed

        return response

    async def _answer(self, request: web.Request, match: Match | None) -> web.Response:
        if match is None:
            raise NotThere

        if request.method == "OPTIONS":
            return web.Response()

        method = "GET" if request.method == "HEAD" else request.method
        route = match.routes.get(method)
        if route is None:
            return web.Response(status=405)

        caller: Caller | None = None
        if route.access != ANYONE:
            caller = self._log_in(request)
            vhost = match.parameters.get("vhost")
            is_made = route.method == "PUT" and route.path == VHOST_PATH
            check_access(self._site.node, caller, route.access, vhost, may_be_new=is_made)

        return await route.handler(Call(self._desk, request, match.parameters, caller))

    def _log_in(self, request: web.Request) -> Caller:
        header = request.headers.get("authorization")
        is_local = is_from_local_socket(request)
        if header is None and is_local:
            return Caller(LocalAdministrator())

        is_near = is_local or is_loopback(request.remote)
        return authenticate(self._site.node.users, header, is_loopback=is_near)

    def _refuse(self, request: web.Request, fault: Exception) -> web.Response:
        problem = problem_of(fault)
        if problem is None:
            fields: dict[str, object] = {
                "method": request.method,
                "path": request.raw_path,
                "traceback": "".join(traceback.format_exception(fault)),
            }
            self._site.node.log("error", "management.fault", fields)
            problem = HTTPProblem(500, "internal_server_error", "see the log of the broker")

        body = problem.body()
        if body is None:
            return web.Response(status=problem.status, headers=problem.headers)

        return answer(body, problem.status, problem.headers)
