"""Requests as those who share out the loop's time see them (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from broker.auth.guard import network_of
from broker.management.call import is_from_local_socket
from broker.management.pacing import Pacer, Visitor, cost_besides
from broker.management.threshold import FIRST_OF_CONNECTION

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiohttp import web

__all__ = ["paced"]

T = TypeVar("T")


async def paced(
    pacer: Pacer, request: web.Request, handle: Callable[[Visitor], Coroutine[object, None, T]]
) -> T:
    """Have a request handled, and charge what it takes to whoever makes it.

    Args:
        pacer: measures, and says when.
        request: as it came. Who makes it is told by the address, until a name is known; whoever has
            opened the socket in the data directory is not charged.
        handle: does what it wants.

    """
    name = f"@{network_of(request.remote or '')}"
    visitor = Visitor(name, is_free=is_from_local_socket(request))
    besides_s = cost_besides(is_first=FIRST_OF_CONNECTION.get(), is_secure=request.secure)
    return await pacer.measured(handle(visitor), visitor, besides_s)
