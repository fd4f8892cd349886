"""Definitions out: all that was set up, as one document (management layer; rules DE-01..DE-08).

Without messages, exclusive queues, and what every virtual host is born with.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiohttp import web

from broker import __version__
from broker.core.limit_commands import limits_of_vhost
from broker.core.settings import COMPATIBLE_VERSION
from broker.management.auth import ADMINISTRATOR
from broker.management.call import done
from broker.management.definition_rows import (
    bindings_in,
    exchanges_in,
    parameter_rows_in,
    policies_in,
    queues_in,
    sections_of,
    user_in,
    vhosts_in,
)
from broker.management.definitions_import import Importer, read_document
from broker.management.errors import BadRequest
from broker.management.hardening import own_place
from broker.management.identity import cluster_name_of, product_of
from broker.management.json_text import JSON, render, render_list
from broker.management.parameters import global_parameter_rows
from broker.management.permissions import permission_rows, topic_permission_rows
from broker.management.routes import Route
from broker.management.vhosts import metadata_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call

__all__ = ["ROUTES"]

ROWS_PER_TURN: Final = 256
INTERNAL_PREFIX: Final = "internal"
"""Global parameters that begin so are nobody's business."""


# -- documents


def _head(node: Node) -> JSON:
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": product_of(node),
        "product_version": __version__,
    }


async def get_all(call: Call) -> web.Response:
    node = call.node
    name = cluster_name_of(node)
    head = {
        **_head(node),
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": name,
        "explanation": f"Definitions of cluster '{name}'",
    }
    users = list(node.users.users.values())
    vhosts = list(node.vhosts.values())
    shown = [
        row
        for row in global_parameter_rows(node)
        if not str(row["name"]).startswith(INTERNAL_PREFIX)
    ]
    sections: dict[str, Iterator[JSON]] = {
        "users": iter([user_in(user) for user in users]),
        "vhosts": vhosts_in(vhosts),
        "permissions": iter(permission_rows(users)),
        "topic_permissions": iter(topic_permission_rows(users)),
        "parameters": parameter_rows_in(node, vhosts),
        "global_parameters": iter(shown),
        "policies": policies_in(vhosts),
        "queues": queues_in(vhosts),
        "exchanges": exchanges_in(vhosts),
        "bindings": bindings_in(vhosts),
    }
    return await _answer(call, head, sections)


def _vhost_in_path(call: Call) -> VirtualHost:
    vhost = call.node.vhosts.get(call["place"])
    if vhost is None:
        raise BadRequest("vhost_not_found")

    return vhost


async def get_of_vhost(call: Call) -> web.Response:
    node = call.node
    vhost = _vhost_in_path(call)
    head = {
        **_head(node),
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost.name,
        "explanation": f"Definitions of virtual host '{vhost.name}'",
        "metadata": metadata_row(vhost),
        "description": vhost.metadata.description,
        "limits": limits_of_vhost(vhost),
    }
    return await _answer(call, head, sections_of(node, vhost))


async def _answer(call: Call, head: JSON, sections: dict[str, Iterator[JSON]]) -> web.Response:
    pieces = [render(head)[:-1]]
    for name, rows in sections.items():
        pieces.append(b',"%s":[' % name.encode("ascii"))
        pieces.append(await _rendered(rows))
        pieces.append(b"]")

    pieces.append(b"}")
    response = web.Response(body=b"".join(pieces), content_type="application/json")
    download = call.query.get("download")
    if download:
        clean = "".join(one for one in download if one.isalnum() or one in "._- ")
        response.headers["content-disposition"] = f'attachment; filename="{clean}"'

    return response


async def _rendered(rows: Iterator[JSON]) -> bytes:
    """The inside of a list, with the loop's turn between a few rows and the next."""
    chunks: list[bytes] = []
    chunk: list[JSON] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == ROWS_PER_TURN:
            chunks.append(render_list(chunk))
            chunk = []
            await asyncio.sleep(0)

    if chunk:
        chunks.append(render_list(chunk))

    return b",".join(chunks)


# -- in


async def post_all(call: Call) -> web.Response:
    return await _import(call, None)


async def post_of_vhost(call: Call) -> web.Response:
    return await _import(call, _vhost_in_path(call))


async def _import(call: Call, vhost: VirtualHost | None) -> web.Response:
    raw = b""
    redirect = ""
    if call.request.content_type == "multipart/form-data":
        form = await call.form()
        field = form.get("file")
        if isinstance(field, web.FileField):
            raw = field.file.read()
        elif isinstance(field, str):
            raw = field.encode("utf-8", "surrogateescape")

        redirect = own_place(str(form.get("redirect", "")))
    else:
        raw = await call.raw_body()

    document = read_document(raw)
    await Importer(call.site, document, vhost, by=call.caller.name).run()
    if redirect:
        return web.Response(status=303, headers={"location": redirect})

    return done()


ONE: Final = "/definitions/:place"

ROUTES: Final = (
    Route("GET", "/definitions", ADMINISTRATOR, get_all),
    Route("POST", "/definitions", ADMINISTRATOR, post_all),
    Route("GET", ONE, ADMINISTRATOR, get_of_vhost),
    Route("POST", ONE, ADMINISTRATOR, post_of_vhost),
    Route("GET", "/all-configuration", ADMINISTRATOR, get_all),
    Route("POST", "/all-configuration", ADMINISTRATOR, post_all),
)
