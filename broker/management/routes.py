"""From method and path to a handler (management layer).

Paths are split first and decoded then: names of virtual hosts, queues and connections may hold
slashes, which are in them as ``%2F``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiohttp import web

    from broker.management.call import Call

    Handler = Callable[[Call], Awaitable[web.Response]]

__all__ = ["Match", "Route", "Router", "split_path"]

DEFAULT_EXCHANGE: Final = "amq.default"
"""What the exchange without a name is called in paths."""

EXCHANGE_PARAMETERS: Final = frozenset({"exchange", "source", "target"})


class Route(NamedTuple):
    """One verb of one resource."""

    method: str
    path: str
    """Segments behind ``/api``; those with a colon in front are parameters."""

    access: str
    """Who may, a constant of :mod:`broker.management.auth`."""

    handler: Handler


class Match(NamedTuple):
    """A resource that a path names: its routes by method, and the parameters."""

    routes: dict[str, Route]
    parameters: dict[str, str]

    @property
    def allowed(self) -> str:
        """The header of that name."""
        methods = set(self.routes) | {"OPTIONS"} | ({"HEAD"} if "GET" in self.routes else set())
        order = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")
        return ", ".join(method for method in order if method in methods)


class _Place:
    """One segment of a path, and what may follow it."""

    __slots__ = ("literals", "names", "parameter", "routes")

    def __init__(self) -> None:
        self.literals: dict[str, _Place] = {}
        self.parameter: _Place | None = None
        self.routes: dict[str, Route] = {}
        self.names: tuple[str, ...] = ()


class Router:
    """All resources of the API."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._root = _Place()
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        place = self._root
        names: list[str] = []
        for segment in route.path.strip("/").split("/"):
            if segment.startswith(":"):
                names.append(segment[1:])
                if place.parameter is None:
                    place.parameter = _Place()

                place = place.parameter
            else:
                place = place.literals.setdefault(segment, _Place())

        assert route.method not in place.routes, route
        assert not place.routes or place.names == tuple(names), route
        place.routes[route.method] = route
        place.names = tuple(names)

    def find(self, segments: list[str]) -> Match | None:
        """The resource of a path; words that the API knows go before parameters."""
        return self._find(self._root, segments, 0, [])

    def _find(self, place: _Place, segments: list[str], at: int, values: list[str]) -> Match | None:
        if at == len(segments):
            if not place.routes:
                return None

            return Match(place.routes, _named(place.names, values))

        literal = place.literals.get(segments[at])
        if literal is not None:
            found = self._find(literal, segments, at + 1, values)
            if found is not None:
                return found

        if place.parameter is None:
            return None

        return self._find(place.parameter, segments, at + 1, [*values, segments[at]])


def _named(names: tuple[str, ...], values: list[str]) -> dict[str, str]:
    parameters = dict(zip(names, values, strict=True))
    for name in EXCHANGE_PARAMETERS & parameters.keys():
        if parameters[name] == DEFAULT_EXCHANGE:
            parameters[name] = ""

    return parameters


def split_path(raw: str) -> list[str]:
    """The segments of a path, decoded; slashes at its end count for nothing."""
    parts = raw.partition("?")[0].rstrip("/").split("/")[1:]
    return [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in parts]
