"""Nodes, of which there is one (management layer)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.management.auth import ADMINISTRATOR, ANYBODY, MONITOR
from broker.management.call import answer, done
from broker.management.errors import NotThere
from broker.management.identity import exchange_types, versions
from broker.management.overview import contexts
from broker.management.paging import columns_of, pick
from broker.management.routes import Route
from broker.management.stats import churn_rates, node_stats

if TYPE_CHECKING:
    from aiohttp import web

    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES"]

MECHANISMS: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "AMQPLAIN mechanism",
    "ANONYMOUS": "SASL ANONYMOUS authentication mechanism",
}

COUNTED: Final = (
    "mem_used",
    "fd_used",
    "sockets_used",
    "proc_used",
    "disk_free",
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
    "io_read_count",
    "io_read_bytes",
    "io_read_avg_time",
    "io_write_count",
    "io_write_bytes",
    "io_write_avg_time",
    "io_sync_count",
    "io_sync_avg_time",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
    "queue_index_journal_write_count",
)
"""Gauges and counters of a RabbitMQ node, each of which has details; 0 where there is no such
thing here."""


def _row(call: Call) -> JSON:
    node = call.node
    machine = call.site.around.machine()
    short = node.short_of()
    stats = node_stats(call.site.sampler)
    known: dict[str, object] = {
        "mem_used": machine.memory_used_bytes,
        "fd_used": machine.descriptors_used,
        "sockets_used": len(node.connections),
        "disk_free": machine.disk_free_bytes,
        "msg_store_read_count": stats.get("disk_reads", 0),
        "msg_store_write_count": stats.get("disk_writes", 0),
    }
    row: JSON = {
        "name": node.settings.node_name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": call.site.now_wall_ms - call.site.started_wall_ms,
        "rates_mode": "basic",
        "run_queue": 0,
        "processors": os.cpu_count() or 1,
        "mem_limit": machine.memory_limit_bytes,
        "mem_alarm": "memory" in short,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": machine.disk_limit_bytes,
        "disk_free_alarm": "disk" in short,
        "fd_total": machine.descriptors_max,
        "sockets_total": machine.sockets_max,
        "proc_total": 0,
        "partitions": [],
        "cluster_links": [],
        "net_ticktime": 60,
        "enabled_plugins": ["rabbitmq_management"],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": MECHANISMS.get(name, name), "enabled": True}
            for name in node.mechanisms
        ],
        "applications": [{"name": "leveret", "description": "Leveret", "version": __version__}],
        "contexts": contexts(call),
        "log_files": [],
        "db_dir": call.site.around.data_directory or "",
        "config_files": list(call.site.around.config_files),
        "ra_open_file_metrics": {},
        "metrics_gc_queue_length": {},
        **versions(node),
        **churn_rates(call.site.sampler),
    }
    for name in COUNTED:
        row[name] = known.get(name, 0)
        row[f"{name}_details"] = {"rate": 0.0}

    return row


def _check_name(call: Call) -> None:
    if call["node"] != call.node.settings.node_name:
        raise NotThere


async def list_nodes(call: Call) -> web.Response:
    return answer([pick(_row(call), columns_of(call))])


async def get_node(call: Call) -> web.Response:
    _check_name(call)
    row = _row(call)
    if call.flag("memory"):
        row["memory"] = _memory(call)

    return answer(pick(row, columns_of(call)))


def _memory(call: Call) -> JSON:
    used = call.site.around.machine().memory_used_bytes
    return {
        "other_proc": used,
        "strategy": "rss",
        "total": {"erlang": used, "rss": used, "allocated": used},
    }


async def get_memory(call: Call) -> web.Response:
    _check_name(call)
    return answer({"memory": _memory(call)})


async def get_relative_memory(call: Call) -> web.Response:
    _check_name(call)
    return answer({"memory": {"other_proc": 100, "total": {"erlang": 100, "rss": 100}}})


async def get_tables(call: Call) -> web.Response:
    """Tables of Erlang, which there are none of."""
    _check_name(call)
    return answer({"ets_tables_memory": "no_tables"})


async def list_attempts(call: Call) -> web.Response:
    _check_name(call)
    churn = call.node.churn
    total = churn.logins + churn.logins_refused
    return answer(
        [
            {
                "protocol": "amqp091",
                "auth_attempts": total,
                "auth_attempts_failed": churn.logins_refused,
                "auth_attempts_succeeded": churn.logins,
            }
        ]
    )


async def list_attempts_by_source(call: Call) -> web.Response:
    _check_name(call)
    return answer([])


async def list_nothing(call: Call) -> web.Response:
    return answer([])


async def do_nothing(call: Call) -> web.Response:
    return done()


NODE: Final = "/nodes/:node"
ATTEMPTS: Final = "/auth/attempts/:node"

ROUTES: Final = (
    Route("GET", "/nodes", MONITOR, list_nodes),
    Route("GET", NODE, MONITOR, get_node),
    Route("GET", f"{NODE}/memory", MONITOR, get_memory),
    Route("GET", f"{NODE}/memory/relative", MONITOR, get_relative_memory),
    Route("GET", f"{NODE}/memory/ets", MONITOR, get_tables),
    Route("GET", f"{NODE}/memory/ets/:filter", MONITOR, get_tables),
    Route("GET", ATTEMPTS, MONITOR, list_attempts),
    Route("GET", f"{ATTEMPTS}/source", MONITOR, list_attempts_by_source),
    Route("GET", "/feature-flags", ANYBODY, list_nothing),
    Route("GET", "/deprecated-features", ANYBODY, list_nothing),
    Route("GET", "/deprecated-features/used", ANYBODY, list_nothing),
    Route("PUT", "/feature-flags/:flag/enable", ADMINISTRATOR, do_nothing),
    Route("POST", "/rebalance/queues", ADMINISTRATOR, do_nothing),
    Route("DELETE", "/reset", ADMINISTRATOR, do_nothing),
    Route("DELETE", "/reset/:node", ADMINISTRATOR, do_nothing),
    Route("GET", "/shovels", MONITOR, list_nothing),
    Route("GET", "/shovels/:name", MONITOR, list_nothing),
    Route("GET", "/federation-links", MONITOR, list_nothing),
    Route("GET", "/federation-links/:name", MONITOR, list_nothing),
    Route("GET", "/traces", MONITOR, list_nothing),
    Route("GET", "/trace-files", MONITOR, list_nothing),
    Route("GET", "/stream/connections", ANYBODY, list_nothing),
    Route("GET", "/stream/publishers", ANYBODY, list_nothing),
    Route("GET", "/stream/consumers", ANYBODY, list_nothing),
)
