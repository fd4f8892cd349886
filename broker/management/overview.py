"""The broker as a whole: overview, versions, who am I, login, cluster name (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.parameter_commands import set_global_parameter
from broker.core.settings import COMPATIBLE_VERSION
from broker.management.arguments import text_of
from broker.management.auth import ADMINISTRATOR, ANYBODY, ANYONE
from broker.management.call import answer, done
from broker.management.consumer_rows import connections_of
from broker.management.identity import CLUSTER_NAME, cluster_name_of, exchange_types, versions
from broker.management.paging import columns_of, pick
from broker.management.routes import Route
from broker.management.samples import add_samples, ranges_of
from broker.management.stats import churn_rates, depths, node_stats

if TYPE_CHECKING:
    from aiohttp import web

    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES"]

RETENTION: Final = {
    "global": [600, 3600, 28800, 86400],
    "basic": [600, 3600],
    "detailed": [600],
}
NEVER_CACHE: Final = {"expires": "0", "pragma": "no-cache"}


async def get_overview(call: Call) -> web.Response:
    node = call.node
    sampler = call.site.sampler
    is_monitor = call.caller.is_monitor
    facts: JSON = {
        **versions(node),
        "rates_mode": "basic",
        "sample_retention_policies": RETENTION,
        "exchange_types": exchange_types(),
        "cluster_name": cluster_name_of(node),
        "cluster_tags": {},
        "node_tags": {},
        "node": node.settings.node_name,
        "default_queue_type": "classic",
        "disable_stats": False,
        "enable_queue_totals": False,
        "is_op_policy_updating_enabled": True,
        "require_definition_json_extension": False,
        "message_stats": node_stats(sampler),
        "churn_rates": churn_rates(sampler),
        "queue_totals": depths(call.site, None, call.visible_vhosts()),
        "object_totals": _object_totals(call, has_consumers=is_monitor),
        "statistics_db_event_queue": 0,
    }
    add_samples(ranges_of(call), sampler, None, facts)
    if is_monitor:
        facts["listeners"] = listeners(call)
        facts["contexts"] = contexts(call)

    return answer(pick(facts, columns_of(call)))


def _object_totals(call: Call, *, has_consumers: bool) -> JSON:
    vhosts = call.visible_vhosts()
    connections = [
        one
        for one in connections_of(call.node)
        if call.caller.is_monitor or one.user is call.caller.user
    ]
    totals: JSON = {
        "queues": sum(len(vhost.queues) for vhost in vhosts),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "connections": len(connections),
        "channels": sum(len(one.channels) for one in connections),
    }
    if has_consumers:
        totals["consumers"] = sum(call.site.glance(vhost).consumers for vhost in vhosts)

    return totals


def listeners(call: Call) -> list[JSON]:
    """Where the broker accepts."""
    name = call.node.settings.node_name
    return [
        {
            "node": name,
            "protocol": one.protocol,
            "ip_address": one.host,
            "port": one.port,
            "tls": one.is_tls,
            "socket_opts": [],
        }
        for one in call.site.around.listeners()
    ]


def contexts(call: Call) -> list[JSON]:
    """Where the broker answers HTTP."""
    name = call.node.settings.node_name
    return [
        {
            "ssl_opts": [],
            "cowboy_opts": "[]",
            "node": name,
            "description": "Leveret Management",
            "path": "/",
            "port": str(one.port),
        }
        for one in call.site.around.listeners()
        if one.protocol.startswith("http")
    ]


async def get_version(call: Call) -> web.Response:
    return answer(COMPATIBLE_VERSION, headers=NEVER_CACHE)


async def get_cluster_name(call: Call) -> web.Response:
    return answer({"name": cluster_name_of(call.node)})


async def put_cluster_name(call: Call) -> web.Response:
    name = text_of(await call.body("name"), "name")
    by = call.caller.name
    node = call.node
    await call.site.change(lambda: set_global_parameter(node, CLUSTER_NAME, name, by=by))
    return done()


async def get_extensions(call: Call) -> web.Response:
    return answer([{"javascript": "dispatcher.js"}])


ROUTES: Final = (
    Route("GET", "/overview", ANYBODY, get_overview),
    Route("GET", "/version", ANYONE, get_version),
    Route("GET", "/cluster-name", ANYBODY, get_cluster_name),
    Route("PUT", "/cluster-name", ADMINISTRATOR, put_cluster_name),
    Route("GET", "/extensions", ANYBODY, get_extensions),
)
