"""A web application with background tasks: it answers at once, and the work is done elsewhere.

Run a broker (`leveret serve`), a worker (`leveret worker web_app:tasks`) and this, then
`curl -d name=Ada localhost:8080/reports` and ask for the address that it answers.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from aiohttp import web

from broker.tasks import AmqpResults, Status, Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

tasks = Tasks(
    sys.argv[1] if len(sys.argv) > 1 and "://" in sys.argv[1] else "amqp://localhost/",
    # Any of several web processes may be asked, so results are where all of them look.
    results=AmqpResults(ttl=3600, shared=True),
)


@tasks.task
async def write_report(name: str) -> dict[str, str]:
    await asyncio.sleep(0.2)
    return {"title": f"Report for {name}"}


async def begin(request: web.Request) -> web.Response:
    name = str((await request.post())["name"])
    handle = await write_report.q(name)
    return web.json_response({"at": f"/reports/{handle.id}"}, status=202)


async def look(request: web.Request) -> web.Response:
    outcome = await write_report.handle(request.match_info["id"]).outcome()
    if outcome.status is Status.SUCCEEDED:
        return web.json_response(outcome.value)

    if outcome.error is not None:
        return web.json_response({"error": str(outcome.error)}, status=500)

    return web.json_response({"status": outcome.status}, status=202)


async def connected(_app: web.Application) -> AsyncIterator[None]:
    async with tasks:  # connect once, and disconnect with the application
        yield


def make_app() -> web.Application:
    app = web.Application()
    app.add_routes([web.post("/reports", begin), web.get("/reports/{id}", look)])
    app.cleanup_ctx.append(connected)
    return app


if __name__ == "__main__":
    web.run_app(make_app(), host="127.0.0.1", port=8080)
