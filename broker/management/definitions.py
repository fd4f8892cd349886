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
from broker.management.bindings import bindings_of
from broker.management.call import done
from broker.management.definitions_import import Importer, read_document
from broker.management.errors import BadRequest
from broker.management.identity import cluster_name_of, product_of
from broker.management.json_text import JSON, render, render_list
from broker.management.parameters import global_parameter_rows, parameters_in
from broker.management.permissions import permission_rows, topic_permission_rows
from broker.management.policies import policies_of, policy_row
from broker.management.routes import Route
from broker.management.users import user_row
from broker.management.vhosts import metadata_row
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call

__all__ = ["ROUTES"]

ROWS_PER_TURN: Final = 256
INTERNAL_PREFIX: Final = "internal"
"""Global parameters that begin so are nobody's business."""

VHOST: Final = "vhost"


# -- rows


def _queues(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            if queue.exclusive_owner is None:
                yield {
                    "name": queue.name,
                    VHOST: vhost.name,
                    "type": queue.type,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": table_to_plain(queue.arguments),
                }


def _exchanges(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            if exchange.name and not exchange.name.startswith("amq.") and not exchange.internal:
                yield {
                    "name": exchange.name,
                    VHOST: vhost.name,
                    "type": exchange.type,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": False,
                    "arguments": table_to_plain(exchange.arguments),
                }


def _bindings(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    for vhost in vhosts:
        for binding in bindings_of(vhost):
            destination = binding.destination
            queue = vhost.queues.get(destination.name) if destination.is_queue else None
            if queue is not None and queue.exclusive_owner is not None:
                continue

            yield {
                "source": binding.source.name,
                VHOST: vhost.name,
                "destination": destination.name,
                "destination_type": "queue" if destination.is_queue else "exchange",
                "routing_key": binding.routing_key,
                "arguments": table_to_plain(binding.arguments),
            }


def _policies(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    for vhost in vhosts:
        for policy in policies_of(vhost, is_operator=False):
            yield policy_row(vhost, policy)


def _parameters(node: Node, vhosts: list[VirtualHost]) -> Iterator[JSON]:
    for vhost in vhosts:
        for one in parameters_in(node, vhost):
            yield {
                "component": one.component,
                "name": one.name,
                "value": one.value,
                VHOST: vhost.name,
            }


def _vhosts(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    for vhost in vhosts:
        yield {
            "name": vhost.name,
            "limits": limits_of_vhost(vhost),
            "metadata": metadata_row(vhost),
        }


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
        "users": iter([user_row(user) for user in users]),
        "vhosts": _vhosts(vhosts),
        "permissions": iter(permission_rows(users)),
        "topic_permissions": iter(topic_permission_rows(users)),
        "parameters": _parameters(node, vhosts),
        "global_parameters": iter(shown),
        "policies": _policies(vhosts),
        "queues": _queues(vhosts),
        "exchanges": _exchanges(vhosts),
        "bindings": _bindings(vhosts),
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
    sections = {
        "parameters": _without_vhost(_parameters(node, [vhost])),
        "policies": _without_vhost(_policies([vhost])),
        "queues": _without_vhost(_queues([vhost])),
        "exchanges": _without_vhost(_exchanges([vhost])),
        "bindings": _without_vhost(_bindings([vhost])),
    }
    return await _answer(call, head, sections)


def _without_vhost(rows: Iterator[JSON]) -> Iterator[JSON]:
    for row in rows:
        del row[VHOST]
        yield row


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
        form = await call.request.post()
        field = form.get("file")
        if isinstance(field, web.FileField):
            raw = field.file.read()
        elif isinstance(field, str):
            raw = field.encode("utf-8", "surrogateescape")

        redirect = str(form.get("redirect", ""))
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
