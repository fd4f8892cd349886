"""One request on its way through a handler (management layer)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from aiohttp import web

from broker.management.errors import BadRequest, MissingKeys, Unauthenticated
from broker.management.json_text import JSON, parse_object, render

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from broker.core.actor import Actor
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.management.auth import Caller
    from broker.management.doorkeeper import Doorkeeper
    from broker.management.errors import HTTPProblem
    from broker.management.moves import Moves
    from broker.management.site import Site

__all__ = [
    "JSON_TYPE",
    "Call",
    "Desk",
    "answer",
    "created",
    "done",
    "is_from_local_socket",
    "is_local",
    "is_loopback",
    "is_near",
    "refusal",
]

JSON_TYPE: Final = "application/json"
FORWARDING_HEADERS: Final = ("x-forwarded-for", "x-real-ip")
FORWARDED: Final = "forwarded"

T = TypeVar("T")


def answer(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer with a JSON value."""
    return web.Response(
        body=render(value), status=status, content_type=JSON_TYPE, headers=dict(headers or {})
    )


def refusal(problem: HTTPProblem) -> web.Response:
    """What an error is answered with."""
    body = problem.body()
    if body is None:
        return web.Response(status=problem.status, headers=problem.headers)

    return answer(body, problem.status, problem.headers)


def created(headers: Mapping[str, str] | None = None) -> web.Response:
    """201: there is a new object."""
    return web.Response(status=201, headers=dict(headers or {}))


def done() -> web.Response:
    """204: it is as was asked."""
    return web.Response(status=204)


def is_loopback(remote: str | None) -> bool:
    """Whether an address is of this machine (rule C-36)."""
    try:
        address = ipaddress.ip_address((remote or "").partition("%")[0])
    except ValueError:
        return False

    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback

    return address.is_loopback


def is_near(request: web.Request) -> bool:
    """Whether who asks is on this machine, and does not come through a proxy from elsewhere.

    What a proxy says can only take somebody farther away: anybody may say it.
    """
    if is_from_local_socket(request):
        return True

    hops = [request.remote or ""]
    for name in FORWARDING_HEADERS:
        for value in request.headers.getall(name, ()):
            hops += [hop.strip() for hop in value.split(",")]

    return FORWARDED not in request.headers and all(map(is_loopback, hops))


def is_local(name: object) -> bool:
    """Whether the name of a socket is one in the file system, and no address."""
    return isinstance(name, str | bytes)


def is_from_local_socket(request: web.Request) -> bool:
    """Whether who asks has opened the socket in the data directory."""
    transport = request.transport
    return transport is not None and is_local(transport.get_extra_info("sockname"))


class Desk(NamedTuple):
    """What all requests share: the broker, and what was begun and goes on."""

    site: Site
    moves: Moves
    doorkeeper: Doorkeeper


class Call:
    """A request, and who makes it.

    Args:
        desk: the broker, and what is under way.
        request: as it came.
        parameters: the names in the path.
        caller: None where nobody had to log in.

    """

    __slots__ = ("_caller", "doorkeeper", "moves", "parameters", "query", "request", "site")

    def __init__(
        self, desk: Desk, request: web.Request, parameters: dict[str, str], caller: Caller | None
    ) -> None:
        self.site = desk.site
        self.moves = desk.moves
        self.doorkeeper = desk.doorkeeper
        self.request = request
        self.parameters = parameters
        self.query: Mapping[str, str] = request.rel_url.query
        self._caller = caller

    @property
    def node(self) -> Node:
        return self.site.node

    @property
    def caller(self) -> Caller:
        if self._caller is None:
            raise Unauthenticated

        return self._caller

    def __getitem__(self, name: str) -> str:
        """A name in the path."""
        return self.parameters[name]

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host in the path; it is there."""
        return self.node.vhosts[self.parameters["vhost"]]

    @property
    def actor(self) -> Actor:
        """The caller in the virtual host of the path."""
        return self.site.actor(self.caller, self.vhost)

    @property
    def is_loopback(self) -> bool:
        """Whether the caller is on this machine."""
        return is_near(self.request)

    def flag(self, name: str) -> bool:
        """Whether the query has ``name=true``."""
        return self.query.get(name) == "true"

    def visible_vhosts(self) -> list[VirtualHost]:
        """The virtual hosts that a list covers: that of the path, or all the caller may see."""
        name = self.parameters.get("vhost") or self.request.headers.get("x-vhost")
        vhosts = self.node.vhosts
        if name:
            return [vhosts[name]] if name in vhosts and self.caller.may_see(name) else []

        return [vhost for vhost in vhosts.values() if self.caller.may_see(vhost.name)]

    async def raw_body(self, bytes_max: int | None = None) -> bytes:
        """The body of the request.

        Args:
            bytes_max: what it may have; what all requests may have where nothing is said.

        Raises:
            BadRequest: it is too large.

        """
        if bytes_max is not None:
            self.request = self.request.clone(client_max_size=bytes_max)

        return await self._received(self.request.read)

    async def form(self) -> Mapping[str, object]:
        """The body of the request, which is that of a form.

        Raises:
            BadRequest: it is not, or too large.

        """
        return await self._received(self.request.post)

    async def _received(self, read: Callable[[], Awaitable[T]]) -> T:
        limit = self.request.client_max_size
        too_large = BadRequest(f"payload size exceeded limit of {limit} bytes")
        if (self.request.content_length or 0) > limit:
            raise too_large

        try:
            return await read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large from None
        except (web.RequestPayloadError, ConnectionError, ValueError, AssertionError) as fault:
            # Whoever sent it has gone, or it is not what its headers say.
            raise BadRequest("the body cannot be read") from fault

    async def body(self, *required: str) -> JSON:
        """The body of the request, which has to be an object with these keys.

        Raises:
            BadRequest: it is not.

        """
        value = parse_object(await self.raw_body())
        missing = [key for key in required if key not in value]
        if missing:
            raise MissingKeys(missing)

        return value
