"""Who may ask for metrics, and how often (management layer).

Whoever reaches the port may, unless a login is wanted. What no page may do is to give this machine
a name of its own and to read them as pages of ours would: see :mod:`broker.management.hosts`.
Here that holds for the addresses that only this machine has; elsewhere monitoring systems come by
all the names that there are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from broker.management.auth import MONITOR, check_access
from broker.management.call import is_loopback, refusal
from broker.management.doorkeeper import Doorkeeper
from broker.management.errors import HTTPProblem
from broker.management.hosts import KnownHosts
from broker.management.pacing import Pacer
from broker.management.target import target_of
from broker.management.visits import paced
from broker.metrics.totals import node_octets

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

    from broker.core.node import Node
    from broker.management.doorkeeper import Rules
    from broker.management.pacing import Visitor

__all__ = ["guard_metrics"]


def guard_metrics(node: Node, rules: Rules, *, wants_login: bool) -> Middleware:
    """What stands before the application that Prometheus asks.

    Args:
        node: the broker core.
        rules: what holds at the door of the API.
        wants_login: whether only monitors and administrators may ask.

    """
    doorkeeper = Doorkeeper(node, rules)
    hosts = KnownHosts(rules.hosts)
    pacer = Pacer(lambda: sum(node_octets(node)))

    async def admit(request: web.Request) -> None:
        if not request.secure and is_loopback(_own_address(request)):
            hosts.check(target_of(request).host)

        if wants_login:
            check_access(node, await doorkeeper.caller_of(request), MONITOR, None)

    async def handle(
        request: web.Request, handler: Handler, visitor: Visitor
    ) -> web.StreamResponse:
        try:
            await admit(request)
            await pacer.turn(visitor)
        except HTTPProblem as problem:
            if not visitor.had_turn:
                await pacer.turn(visitor)

            return refusal(problem)

        return await handler(request)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await paced(pacer, request, partial(handle, request, handler))

    return guard


def _own_address(request: web.Request) -> str:
    """Which address of this machine somebody has come to."""
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return str(name[0]) if isinstance(name, tuple) else ""
