"""Virtual hosts, and what limits there are in them (management layer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.limit_commands import (
    clear_vhost_limits,
    limits_of_vhost,
    set_vhost_limits,
)
from broker.core.protection import Protected
from broker.core.user_commands import Rights, set_permissions
from broker.core.vhost_commands import set_vhost_metadata
from broker.core.vhost_metadata import VHostMetadata
from broker.management.arguments import boolean_of, tags_of, text_of
from broker.management.auth import ADMINISTRATOR, ANYBODY, VHOST_OR_MONITOR
from broker.management.call import answer, created, done
from broker.management.errors import BadRequest, HTTPProblem, NotThere
from broker.management.paging import answer_list, columns_of, pick
from broker.management.routes import Route
from broker.management.samples import Ranges, add_samples, ranges_of
from broker.management.stats import add_stats, depths, vhost_octets, vhost_stats

if TYPE_CHECKING:
    from aiohttp import web

    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.management.site import Site

__all__ = ["ROUTES", "metadata_in", "metadata_row"]

CLASSIC: Final = "classic"


def metadata_row(vhost: VirtualHost) -> JSON:
    """What is said of a virtual host, as definitions have it."""
    metadata = vhost.metadata
    return {
        "description": metadata.description,
        "tags": list(metadata.tags),
        "default_queue_type": metadata.default_queue_type or CLASSIC,
    }


def metadata_in(body: JSON, *, is_protected: bool) -> VHostMetadata:
    """What a request, or a definition, says of a virtual host.

    Raises:
        BadRequest: something has the wrong type.

    """
    queue_type = body.get("default_queue_type", body.get("defaultqueuetype")) or ""
    if not isinstance(queue_type, str):
        raise BadRequest(["not_a_string", "default_queue_type"])

    return VHostMetadata(
        description=text_of(body, "description"),
        tags=tags_of(body.get("tags", [])),
        # Old files have the word for "none".
        default_queue_type="" if queue_type == "undefined" else queue_type,
        is_protected=boolean_of(body, "protected_from_deletion", default=is_protected),
    )


def _row(site: Site, ranges: Ranges, vhost: VirtualHost) -> JSON:
    metadata = metadata_row(vhost)
    sampler = site.sampler
    row: JSON = {
        "name": vhost.name,
        **metadata,
        "protected_from_deletion": vhost.metadata.is_protected,
        "metadata": metadata,
        "tracing": vhost.tracer is not None,
        "cluster_state": {site.node.settings.node_name: "running"},
        **vhost_octets(sampler, vhost),
        **depths(site, vhost, [vhost]),
    }
    add_stats(row, vhost_stats(sampler, vhost))
    add_samples(ranges, sampler, vhost, row, depths="msg_rates")
    return row


def _name_of(vhost: VirtualHost) -> str:
    return vhost.name


async def list_vhosts(call: Call) -> web.Response:
    caller = call.caller
    found = [
        vhost
        for vhost in call.node.vhosts.values()
        if caller.is_monitor or caller.may_see(vhost.name)
    ]
    found.sort(key=_name_of)
    return await answer_list(
        call, found, partial(_row, call.site, ranges_of(call)), name_of=_name_of
    )


async def get_vhost(call: Call) -> web.Response:
    row = _row(call.site, ranges_of(call), call.vhost)
    return answer(pick(row, columns_of(call)))


async def put_vhost(call: Call) -> web.Response:
    body = await call.body()
    node = call.node
    name = call["vhost"]
    existing = node.vhosts.get(name)
    if not name:
        raise BadRequest("a virtual host has a name")

    metadata = metadata_in(
        body, is_protected=existing is not None and existing.metadata.is_protected
    )
    is_traced = boolean_of(body, "tracing") if "tracing" in body else None
    by = call.caller.name

    def make() -> None:
        vhost = node.add_vhost(name, by=by)
        set_vhost_metadata(node, name, metadata, by=by)
        if is_traced is not None:
            node.set_tracing(vhost, is_traced)

        if existing is None and by in node.users.users:
            # RabbitMQ: whoever makes it may do everything in it.
            set_permissions(node, by, Rights(".*", ".*", ".*"), vhost=name, by=by)

    try:
        await call.site.change(make)
    except ValueError as problem:
        raise BadRequest(str(problem)) from None

    return created() if existing is None else done()


async def delete_vhost(call: Call) -> web.Response:
    node = call.node
    name = call["vhost"]
    by = call.caller.name
    try:
        await call.site.change(lambda: node.delete_vhost(name, by=by))
    except Protected as problem:
        raise HTTPProblem(412, "precondition_failed", str(problem)) from None

    return done()


async def protect(call: Call) -> web.Response:
    return await _set_protection(call, is_on=True)


async def unprotect(call: Call) -> web.Response:
    return await _set_protection(call, is_on=False)


async def _set_protection(call: Call, *, is_on: bool) -> web.Response:
    node = call.node
    vhost = call.vhost
    metadata = vhost.metadata._replace(is_protected=is_on)
    by = call.caller.name
    await call.site.change(lambda: set_vhost_metadata(node, vhost.name, metadata, by=by))
    return done()


async def start_on_node(call: Call) -> web.Response:
    """It runs: there is nothing to start."""
    if call["node"] != call.node.settings.node_name:
        raise NotThere

    return done()


# -- limits


def _limits_row(vhost: VirtualHost) -> JSON:
    return {"vhost": vhost.name, "value": limits_of_vhost(vhost)}


async def list_limits(call: Call) -> web.Response:
    caller = call.caller
    named = call.parameters.get("vhost")
    found = [
        _limits_row(vhost)
        for vhost in call.node.vhosts.values()
        if limits_of_vhost(vhost)
        and (named == vhost.name or (named is None and _sees(call, vhost, caller.is_monitor)))
    ]
    return answer(found)


def _sees(call: Call, vhost: VirtualHost, is_monitor: bool) -> bool:
    return is_monitor or call.caller.may_see(vhost.name)


async def put_limit(call: Call) -> web.Response:
    value = (await call.body("value"))["value"]
    vhost = call.node.vhosts.get(call["name"])
    if vhost is None:
        raise NotThere("not_found", "vhost_not_found")

    await _set_limits(call, vhost, {**limits_of_vhost(vhost), call["limit"]: value})
    return done()


async def delete_limit(call: Call) -> web.Response:
    vhost = call.node.vhosts.get(call["name"])
    if vhost is None:
        raise NotThere("not_found", "vhost_not_found")

    left: dict[str, object] = {**limits_of_vhost(vhost)}
    left.pop(call["limit"], None)
    await _set_limits(call, vhost, left)
    return done()


async def _set_limits(call: Call, vhost: VirtualHost, limits: dict[str, object]) -> None:
    node = call.node
    by = call.caller.name

    def change() -> None:
        if limits:
            set_vhost_limits(node, vhost.name, limits, by=by)
        elif limits_of_vhost(vhost):
            clear_vhost_limits(node, vhost.name, by=by)

    try:
        await call.site.change(change)
    except ValueError as problem:
        raise BadRequest(f"Validation failed\n\n{problem}\n") from None


ROUTES: Final = (
    Route("GET", "/vhosts", ANYBODY, list_vhosts),
    Route("GET", "/vhosts/:vhost", ADMINISTRATOR, get_vhost),
    Route("PUT", "/vhosts/:vhost", ADMINISTRATOR, put_vhost),
    Route("DELETE", "/vhosts/:vhost", ADMINISTRATOR, delete_vhost),
    Route("POST", "/vhosts/:vhost/deletion/protection", ADMINISTRATOR, protect),
    Route("DELETE", "/vhosts/:vhost/deletion/protection", ADMINISTRATOR, unprotect),
    Route("POST", "/vhosts/:vhost/start/:node", ADMINISTRATOR, start_on_node),
    Route("GET", "/vhost-limits", ANYBODY, list_limits),
    Route("GET", "/vhost-limits/:vhost", VHOST_OR_MONITOR, list_limits),
    Route("PUT", "/vhost-limits/:name/:limit", ADMINISTRATOR, put_limit),
    Route("DELETE", "/vhost-limits/:name/:limit", ADMINISTRATOR, delete_limit),
)
