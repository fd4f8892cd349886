"""Answers Prometheus when it asks (exporter layer).

Invariant: the broker is read in the loop's own thread, which takes milliseconds; what is rendered
of that is rendered in another one, one scrape at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiohttp import web

from broker.exporters.families import FAMILIES
from broker.exporters.prometheus import (
    CONTENT_TYPE,
    render_detailed,
    render_node,
    render_per_object,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.metrics.snapshot import Rows, Snapshot

    ReadNode = Callable[[], Awaitable[Snapshot]]
    ReadRows = Callable[[frozenset[str] | None], Awaitable[Rows]]

__all__ = ["build_scrape_application"]

BODY_BYTES_MAX: Final = 1024

INDEX: Final = """\
<html><head><title>Leveret metrics</title></head><body><ul>
<li><a href="/metrics">/metrics</a>: the node as a whole
<li><a href="/metrics/per-object">/metrics/per-object</a>: each queue, exchange, connection, channel
<li><a href="/metrics/detailed?family=queue_coarse_metrics">/metrics/detailed</a>: what you ask for
</ul></body></html>
"""


class _Scrapes:
    def __init__(self, read: ReadNode, read_rows: ReadRows) -> None:
        self._read = read
        self._read_rows = read_rows
        self._turn = asyncio.Lock()

    async def node(self, _request: web.Request) -> web.Response:
        async with self._turn:
            body = await asyncio.to_thread(render_node, await self._read())

        return _answer(body)

    async def per_object(self, _request: web.Request) -> web.Response:
        async with self._turn:
            snapshot, rows = await self._read(), await self._read_rows(None)
            body = await asyncio.to_thread(render_per_object, snapshot, rows)

        return _answer(body)

    async def detailed(self, request: web.Request) -> web.Response:
        wanted = frozenset(request.query.getall("family", ()))
        unknown = sorted(wanted - FAMILIES)
        if unknown:
            known = ", ".join(sorted(FAMILIES))
            return web.Response(status=400, text=f"no family {unknown[0]!r}: one of {known}\n")

        names = request.query.getall("vhost", ())
        vhosts = frozenset(names) if names else None
        async with self._turn:
            rows = await self._read_rows(vhosts)
            queues = request.query.getall("queue", ())
            if queues:
                chosen = [row for row in rows.queues if row.name in queues]
                rows = rows._replace(queues=chosen)

            body = await asyncio.to_thread(render_detailed, await self._read(), rows, wanted)

        return _answer(body)


async def _index(_request: web.Request) -> web.Response:
    return web.Response(text=INDEX, content_type="text/html")


def _answer(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"content-type": CONTENT_TYPE})


def build_scrape_application(read: ReadNode, read_rows: ReadRows) -> web.Application:
    """Make the application.

    Args:
        read: takes a snapshot of the node.
        read_rows: takes one of everything in these virtual hosts; None is all.

    """
    scrapes = _Scrapes(read, read_rows)
    application = web.Application(client_max_size=BODY_BYTES_MAX)
    application.router.add_get("/", _index)
    application.router.add_get("/metrics", scrapes.node)
    application.router.add_get("/metrics/per-object", scrapes.per_object)
    application.router.add_get("/metrics/detailed", scrapes.detailed)
    return application
