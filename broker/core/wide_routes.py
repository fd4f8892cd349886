"""Core: the routes of a virtual host that reach many queues, as many as there is room for.

A route keeps a list of its queues. A few bytes a publish make a new one wherever keys come that
never came before, so the long ones are bounded together, whichever channels they belong to; the one
that was found longest ago is found again when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.publishing import Route

__all__ = ["WideRoutes"]


class WideRoutes:
    """The long routes of one virtual host, all of the same generation.

    Args:
        queues_max: as many queues in all; one route is kept whatever it has.

    """

    __slots__ = ("_count", "_generation", "_queues_max", "_routes")

    def __init__(self, queues_max: i64) -> None:
        self._queues_max = queues_max
        self._routes: dict[Route, None] = {}
        self._count: i64 = 0
        self._generation: i64 = 0

    def add(self, route: Route) -> None:
        """A route was found; others are forgotten where there are too many queues in all."""
        if route.generation != self._generation:
            self.clear()
            self._generation = route.generation

        routes = self._routes
        if route in routes:
            del routes[route]
            self._count -= len(route.queues)

        routes[route] = None
        self._count += len(route.queues)
        while self._count > self._queues_max and len(routes) > 1:
            oldest = next(iter(routes))
            del routes[oldest]
            self._count -= len(oldest.queues)
            oldest.forget()

    def clear(self) -> None:
        """Queues are gone, or others came: nothing is to be kept of how it was."""
        if self._routes:
            for route in self._routes:
                route.forget()

            self._routes = {}
            self._count = 0
