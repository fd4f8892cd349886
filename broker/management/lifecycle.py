"""Stopping and starting what is for clients, and the broker itself (management layer).

None of this is RabbitMQ's: there it is for ``rabbitmqctl`` alone.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from broker.errors import StartError
from broker.management.auth import ADMINISTRATOR, MONITOR
from broker.management.call import answer, done
from broker.management.errors import BadRequest, HTTPProblem, NotThere
from broker.management.routes import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from broker.management.call import Call

__all__ = ["ROUTES"]


async def get_state(call: Call) -> web.Response:
    around = call.site.around
    return answer(
        {
            "node": call.node.settings.node_name,
            "pid": os.getpid(),
            "state": around.gate.state,
            "connections": len(call.node.connections),
            "can_stop": around.request_stop is not None,
        }
    )


async def act(call: Call) -> web.Response:
    gate = call.site.around.gate
    actions: dict[str, Callable[[], Awaitable[None]]] = {
        "stop_app": gate.stop,
        "start_app": gate.start,
        "suspend_listeners": gate.suspend,
        "resume_listeners": gate.resume,
    }
    name = call["action"]
    if name == "stop":
        return _stop(call)

    if name not in actions:
        raise NotThere

    try:
        await actions[name]()
    except StartError as problem:
        raise HTTPProblem(503, "start_failed", str(problem)) from None

    return done()


def _stop(call: Call) -> web.Response:
    request_stop = call.site.around.request_stop
    if request_stop is None:
        raise BadRequest("the broker is part of a program, which stops it", "embedded")

    # The answer goes out first.
    asyncio.get_running_loop().call_soon(request_stop)
    return done()


ROUTES: Final = (
    Route("GET", "/lifecycle", MONITOR, get_state),
    Route("POST", "/lifecycle/:action", ADMINISTRATOR, act),
)
