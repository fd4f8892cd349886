"""Nodes, of which there is one (management layer)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.management.auth import ADMINISTRATOR, ANYBODY, MONITOR
from broker.management.call import answer, done
from broker.management.errors import NotThere
from broker.management.identity import exchange_types, versions
from broker.management.node_counts import (
    MACHINE,
    MACHINE_KEYS,
    average_times,
    machine_totals,
)
from broker.management.overview import contexts
from broker.management.paging import columns_of, pick
from broker.management.routes import Route
from broker.management.samples import add_samples, ranges_of
from broker.management.stats import churn_rates

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

ABSENT: Final = (
    "proc_used",
    "gc_bytes_reclaimed",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "queue_index_read_count",
    "queue_index_write_count",
    "queue_index_journal_write_count",
)
"""Numbers of a RabbitMQ node that there are none of here: always 0."""


def _row(call: Call) -> JSON:
    node = call.node
    machine = call.site.around.machine()
    short = node.short_of()
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
        "mem_limit": machine.memory_limit_bytes or call.site.around.memory_bytes(),
        "mem_alarm": "memory" in short,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": machine.disk_limit_bytes or 0,
        "disk_free_alarm": "disk" in short,
        "fd_total": machine.descriptors_max or 0,
        "sockets_total": machine.descriptors_max or 0,
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
        "log_files": _log_files(call),
        "db_dir": call.site.around.data_directory or "",
        "config_files": list(call.site.around.config_files),
        "ra_open_file_metrics": {},
        "metrics_gc_queue_length": {},
        **versions(node),
        **churn_rates(call.site.sampler),
    }
    add_samples(ranges_of(call), call.site.sampler, None, row)
    _add_counts(call, row)
    return row


def _log_files(call: Call) -> list[str]:
    log = call.site.around.operator.log
    path = None if log is None else log.settings().file.path
    return ["<stderr>"] if path is None else [path]


def _add_counts(call: Call, row: JSON) -> None:
    """Gauges and counters of the machine, each of which has details."""
    sampler = call.site.sampler
    for key, number in zip(MACHINE_KEYS, machine_totals(call.site), strict=True):
        row[key] = number
        row[f"{key}_details"] = {"rate": sampler.rate(MACHINE, key)}

    numbers: dict[str, float] = dict.fromkeys(ABSENT, 0) | average_times(call.site)
    counted = sampler.counters(None)
    numbers["msg_store_read_count"] = counted["disk_reads"]
    numbers["msg_store_write_count"] = counted["disk_writes"]
    for key, value in numbers.items():
        row[key] = value
        row[f"{key}_details"] = {"rate": 0.0}

    for key, counter in (("read", "disk_reads"), ("write", "disk_writes")):
        row[f"msg_store_{key}_count_details"] = {"rate": sampler.rate(None, counter)}

    add_samples(ranges_of(call), sampler, MACHINE, row)


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
    used = call.site.around.machine().memory_bytes or 0
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
