"""The application: one way in for all requests (management layer).

Invariant: login and access are checked here, before a handler sees the request, and every error
leaves from here.
"""

from __future__ import annotations

import traceback
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from broker.management import (
    bindings,
    browse,
    certificates,
    connections,
    control,
    definitions,
    exchanges,
    health,
    lifecycle,
    login,
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
from broker.management.auth import ANYBODY, ANYONE, check_access
from broker.management.call import Call, Desk, is_from_local_socket, refusal
from broker.management.doorkeeper import Doorkeeper, Rules
from broker.management.errors import HTTPProblem, NotThere, problem_of
from broker.management.hardening import (
    cors_headers,
    is_from_elsewhere,
    loggable_path,
    preflight_headers,
)
from broker.management.hosts import KnownHosts
from broker.management.moves import Moves
from broker.management.pacing import Pacer
from broker.management.refusals import expect_little
from broker.management.routes import Router, split_path
from broker.management.target import target_of
from broker.management.visits import paced
from broker.metrics.totals import node_octets

if TYPE_CHECKING:
    from broker.management.auth import Caller
    from broker.management.pacing import Visitor
    from broker.management.routes import Match, Route
    from broker.management.site import Site
    from broker.management.target import Target

__all__ = ["ROUTER", "build_application"]

ROUTER: Final = Router(
    (
        *overview.ROUTES,
        *login.ROUTES,
        *nodes.ROUTES,
        *health.ROUTES,
        *control.ROUTES,
        *certificates.ROUTES,
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
}

HEALTH_PATHS: Final = "/health/"


def build_application(site: Site, rules: Rules | None = None) -> web.Application:
    """Make the API of a broker.

    Args:
        site: the broker.
        rules: what holds at its door.

    """
    rules = rules or Rules()
    application = web.Application(client_max_size=rules.body_bytes_max)

    under_way = Moves(site)
    front = _Front(Desk(site, under_way, Doorkeeper(site.node, rules)))

    async def handle(request: web.Request) -> web.StreamResponse:
        return await front.handle(request)

    async def stop(_application: web.Application) -> None:
        front.pacer.stop()
        await under_way.stop()

    application.on_shutdown.append(stop)
    # A name may hold line ends, which a dot alone does not stand for.
    application.router.add_route("*", "/{path:(?s:.*)}", handle, expect_handler=expect_little)
    return application


class _Front:
    """Takes a request in, and gives its answer out.

    Attributes:
        pacer: says when.

    """

    __slots__ = ("_desk", "_hosts", "_rules", "_site", "pacer")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._site = desk.site
        self._rules = desk.doorkeeper.rules
        self._hosts = KnownHosts(self._rules.hosts)
        self.pacer: Final = Pacer(lambda: sum(node_octets(self._site.node)))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await paced(self.pacer, request, partial(self._handle, request))

    async def _handle(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        match: Match | None = None
        try:
            target = target_of(request)
            segments = split_path(target.path)
            if segments[:1] == ["api"]:
                match = ROUTER.find(segments[1:])

            response = await self._answer(request, target, match, visitor)
        except web.HTTPException:
            raise
        except Exception as fault:
            response = self._refuse(request, fault)

        if not visitor.had_turn:
            # Nobody is refused more quickly than served.
            try:
                await self.pacer.turn(visitor)
            except HTTPProblem as fault:
                response = self._refuse(request, fault)

        response.headers.update(COMMON_HEADERS)
        response.headers.update(cors_headers(request.headers, self._rules.cors_origins))
        if match is not None:
            response.headers["allow"] = match.allowed

        return response

    async def _answer(
        self, request: web.Request, target: Target, match: Match | None, visitor: Visitor
    ) -> web.Response:
        self._check_host(request, target.host)
        if is_from_elsewhere(request, target.host, self._rules.cors_origins):
            raise HTTPProblem(403, "forbidden", "a page of another site may not change anything")

        if match is None:
            raise NotThere

        if request.method == "OPTIONS":
            headers = preflight_headers(request.headers, self._rules.cors_origins)
            return web.Response(headers=headers)

        method = "GET" if request.method == "HEAD" else request.method
        route = match.routes.get(method)
        if route is None:
            return web.Response(status=405)

        caller: Caller | None = None
        access = self._access_of(route)
        if access != ANYONE:
            caller = await self._desk.doorkeeper.caller_of(request)
            vhost = match.parameters.get("vhost")
            is_made = route.method == "PUT" and route.path == VHOST_PATH
            check_access(self._site.node, caller, access, vhost, may_be_new=is_made)
            visitor.name = caller.user.name

        await self.pacer.turn(visitor)
        return await route.handler(Call(self._desk, request, match.parameters, caller))

    def _check_host(self, request: web.Request, host: str) -> None:
        if not request.secure and not is_from_local_socket(request):
            self._hosts.check(host)

    def _access_of(self, route: Route) -> str:
        is_closed = not self._rules.has_open_health_checks
        if is_closed and route.access == ANYONE and route.path.startswith(HEALTH_PATHS):
            return ANYBODY

        return route.access

    def _refuse(self, request: web.Request, fault: Exception) -> web.Response:
        problem = problem_of(fault)
        if problem is None:
            fields: dict[str, object] = {
                "method": request.method,
                "path": loggable_path(request.raw_path),
                "traceback": "".join(traceback.format_exception(fault)),
            }
            self._site.node.log("error", "management.fault", fields)
            problem = HTTPProblem(500, "internal_server_error", "see the log of the broker")

        return refusal(problem)
