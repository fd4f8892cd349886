"""What the node is and how it does (cli layer)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.listings import VERBS as LISTINGS
from broker.cli.ctl.printing import Facts, Lines, Rows, Value
from broker.cli.ctl.terms import as_cell
from broker.cli.ctl.verb import Run, Verb, Wanted, path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.cli.ctl.printing import Result

__all__ = ["VERBS", "alarm_names", "listeners_of"]

GROUP: Final = "Monitoring, observability and health checks"
CLUSTER: Final = "Cluster"
CONFIGURATION: Final = "Configuration and Environment"
GIGABYTE: Final = 10**9
ANY_ADDRESS: Final = {"0.0.0.0": "[::]", "::": "[::]"}  # noqa: S104
PURPOSES: Final = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS",
}

Fact = dict[str, object]


def _part(facts: Fact, name: str) -> Fact:
    value = facts.get(name)
    return value if isinstance(value, dict) else {}


def _number(facts: Fact, name: str) -> float:
    value = facts.get(name)
    return value if isinstance(value, int | float) else 0


def _gigabytes(size: float) -> str:
    return f"{round(size / GIGABYTE, 4)} gb"


def _several(values: object) -> list[str]:
    return (
        [f" * {value}" for value in values] if isinstance(values, list) and values else ["(none)"]
    )


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """A part of a report; the title stands out where somebody looks."""
    shown = f"\x1b[1m{title}\x1b[0m" if sys.stdout.isatty() else title
    return [shown, "", *lines, ""]


def listeners_of(overview: Fact) -> list[Fact]:
    """Where the broker accepts."""
    found = overview.get("listeners")
    rows = found if isinstance(found, list) else []
    return [
        {
            "interface": _interface(str(row["ip_address"])),
            "node": row["node"],
            "port": row["port"],
            "protocol": row["protocol"],
            "purpose": PURPOSES.get(str(row["protocol"]), str(row["protocol"])),
        }
        for row in rows
    ]


def _interface(host: str) -> str:
    return ANY_ADDRESS.get(host) or (f"[{host}]" if ":" in host else host)


def _listener_line(row: Fact) -> str:
    return (
        f"nterface: {row['interface']}, port: {row['port']}, protocol: {row['protocol']},"
        f" purpose: {row['purpose']}"
    )


def alarm_names(run: Run) -> list[str]:
    """What publishers are held back for: ``memory``, ``disk``."""
    alarms = run.get("/alarms")
    return [name for name in ("memory", "disk") if _part(alarms, name).get("in_effect") is True]


ALARM_TEXTS: Final = {"memory": "Memory alarm", "disk": "Free disk space alarm"}


def _alarm_lines(names: list[str], node: str) -> list[str]:
    return [f"{ALARM_TEXTS[name]} on node {node}" for name in names] or ["(none)"]


# -- status


def _status_facts(run: Run) -> Fact:
    overview = run.get("/overview")
    node = run.get(path("nodes", str(overview["node"])))
    alarms = run.get("/alarms")
    life = run.get("/lifecycle")
    memory = _part(alarms, "memory")
    disk = _part(alarms, "disk")
    totals = _part(overview, "object_totals")
    fraction = memory.get("fraction")
    return {
        "active_plugins": node["enabled_plugins"],
        "alarms": [name for name in ALARM_TEXTS if _part(alarms, name).get("in_effect") is True],
        "config_files": node["config_files"],
        "crypto_lib_version": overview["crypto_lib_version"],
        "data_directory": node["db_dir"],
        "disk_free": node["disk_free"],
        "disk_free_limit": disk.get("limit"),
        "erlang_version": overview["erlang_full_version"],
        "file_descriptors": {
            "sockets_limit": node["sockets_total"],
            "sockets_used": node["sockets_used"],
            "total_limit": node["fd_total"],
            "total_used": node["fd_used"],
        },
        "is_under_maintenance": node["being_drained"],
        "listeners": listeners_of(overview),
        "log_files": node["log_files"],
        "memory": {"strategy": "rss", "total": {"rss": node["mem_used"]}},
        "net_ticktime": node["net_ticktime"],
        "node": overview["node"],
        "os": sys.platform.capitalize(),
        "pid": int(str(node["os_pid"])),
        "product_name": overview["product_name"],
        "product_version": overview["product_version"],
        "rabbitmq_version": overview["rabbitmq_version"],
        "run_queue": node["run_queue"],
        "state": life["state"],
        "totals": {
            "connection_count": totals.get("connections", 0),
            "queue_count": totals.get("queues", 0),
            "virtual_host_count": len(run.rows("/vhosts?columns=name")),
        },
        "uptime": int(_number(node, "uptime")) // 1000,
        "vm_memory_calculation_strategy": "rss",
        "vm_memory_high_watermark_limit": memory.get("limit"),
        "vm_memory_high_watermark_setting": (
            {"absolute": memory.get("bytes")} if fraction is None else {"relative": fraction}
        ),
    }


def _runtime_lines(facts: Fact) -> list[str]:
    return [
        f"OS PID: {facts['pid']}",
        f"OS: {facts['os']}",
        f"Uptime (seconds): {facts['uptime']}",
        f"Is under maintenance?: {as_cell(facts['is_under_maintenance'])}",
        f"Application: {facts['state']}",
        f"Product: {facts['product_name']} {facts['product_version']}",
        f"RabbitMQ version: {facts['rabbitmq_version']}",
        f"Node name: {facts['node']}",
        f"Python: {facts['erlang_version']}",
    ]


def _memory_lines(facts: Fact) -> list[str]:
    setting = _part(facts, "vm_memory_high_watermark_setting")
    limit = _number(facts, "vm_memory_high_watermark_limit")
    shown = f"{setting['relative']} of available memory, computed to: {_gigabytes(limit)}"
    if "absolute" in setting:
        absolute = setting["absolute"]
        shown = "none" if absolute is None else _gigabytes(limit)

    used = _number(_part(_part(facts, "memory"), "total"), "rss")
    return [
        f"Total memory used: {_gigabytes(used)}",
        f"Calculation strategy: {facts['vm_memory_calculation_strategy']}",
        f"Memory high watermark setting: {shown}",
    ]


def _status_text(facts: Fact) -> str:
    descriptors = _part(facts, "file_descriptors")
    totals = _part(facts, "totals")
    alarms = [str(name) for name in _items(facts, "alarms")]
    data = str(facts["data_directory"]) or "(none: everything is kept in memory)"
    lines = [
        *_section("Runtime", _runtime_lines(facts)),
        *_section("Plugins", ["Enabled plugins:", "", *_several(facts["active_plugins"])]),
        *_section("Data directory", [f"Node data directory: {data}"]),
        *_section("Config files", _several(facts["config_files"])),
        *_section("Log file(s)", _several(facts["log_files"])),
        *_section("Alarms", _alarm_lines(alarms, str(facts["node"]))),
        *_section("Memory", _memory_lines(facts)),
        *_section(
            "File Descriptors",
            [
                f"Total: {descriptors['total_used']}, limit: {descriptors['total_limit']}",
                f"Sockets: {descriptors['sockets_used']}, limit: {descriptors['sockets_limit']}",
            ],
        ),
        *_section(
            "Free Disk Space",
            [
                f"Low free disk space watermark: {_gigabytes(_number(facts, 'disk_free_limit'))}",
                f"Free disk space: {_gigabytes(_number(facts, 'disk_free'))}",
            ],
        ),
        *_section(
            "Totals",
            [
                f"Connection count: {totals['connection_count']}",
                f"Queue count: {totals['queue_count']}",
                f"Virtual host count: {totals['virtual_host_count']}",
            ],
        ),
        *_section("Listeners", [f"I{_listener_line(row)}" for row in _dicts(facts, "listeners")]),
    ]
    return "\n".join(lines[:-1])


def _items(facts: Fact, name: str) -> list[object]:
    value = facts.get(name)
    return value if isinstance(value, list) else []


def _dicts(facts: Fact, name: str) -> list[Fact]:
    return [item for item in _items(facts, name) if isinstance(item, dict)]


def status(run: Run) -> Result:
    facts = _status_facts(run)
    return Facts(facts, _status_text(facts))


def cluster_status(run: Run) -> Result:
    overview = run.get("/overview")
    node = str(overview["node"])
    names = alarm_names(run)
    listeners = listeners_of(overview)
    version = f"{overview['product_name']} {overview['product_version']}"
    facts: Fact = {
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [node],
        "ram_nodes": [],
        "running_nodes": [node],
        "versions": {
            node: {
                "rabbitmq_name": overview["product_name"],
                "rabbitmq_version": overview["product_version"],
            }
        },
        "maintenance_status": {node: "not under maintenance"},
        "alarms": names,
        "partitions": {},
        "listeners": {node: listeners},
        "feature_flags": [],
    }
    lines = [
        *_section("Basics", [f"Cluster name: {as_cell(overview['cluster_name'])}"]),
        *_section("Disk Nodes", [node]),
        *_section("Running Nodes", [node]),
        *_section("Versions", [f"{node}: {version} on {overview['erlang_full_version']}"]),
        *_section("Maintenance status", [f"Node: {node}, status: not under maintenance"]),
        *_section("Alarms", _alarm_lines(names, node)),
        *_section("Network Partitions", ["(none)"]),
        *_section("Listeners", [f"Node: {node}, i{_listener_line(row)}" for row in listeners]),
        *_section("Feature flags", ["(none)"]),
    ]
    return Facts(facts, "\n".join(lines[:-1]))


def ping(run: Run) -> Result:
    """Anybody may ask for the version."""
    run.demand("GET", "/version")
    return Value("Ping succeeded")


def _ping_banner(run: Run) -> str:
    return f"Will ping {run.node}. This only checks that it answers."


def server_version(run: Run) -> Result:
    return Value(str(run.demand("GET", "/version")))


def listeners(run: Run) -> Result:
    rows = listeners_of(run.get("/overview"))
    facts: Fact = {"node": run.node, "result": "ok", "listeners": rows}
    return Facts(facts, "\n".join(f"I{_listener_line(row)}" for row in rows))


def alarms(run: Run) -> Result:
    names = alarm_names(run)
    node = run.node
    text = f"Node {node} reported no alarms, local or clusterwide"
    if names:
        text = "\n".join(_alarm_lines(names, node))

    return Facts({"node": node, "result": "ok", "alarms": names}, text)


def memory_breakdown(run: Run) -> Result:
    """Python does not tell what memory is for: there is the total alone."""
    used = _number(run.get(path("nodes", run.node)), "mem_used")
    total = int(used)
    return Facts({"total": total}, f"total: {_gigabytes(used)} (100.0%)")


def list_node_auth_attempt_stats(run: Run) -> Result:
    columns = ("protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")
    rows = run.rows(path("auth", "attempts", run.node))
    return Rows(columns, ([row[name] for name in columns] for row in rows))


def environment(run: Run) -> Result:
    """What is in force, as far as it can be changed while the broker runs; and the files."""
    node = run.get(path("nodes", run.node))
    facts: Fact = {
        "config_files": node["config_files"],
        "data_directory": node["db_dir"],
        "listeners": listeners_of(run.get("/overview")),
        "alarms": run.get("/alarms"),
        "global_parameters": {
            str(row["name"]): row["value"] for row in run.rows("/global-parameters")
        },
    }
    answer = run.client.ask("GET", "/log")
    log = answer.value
    if isinstance(log, dict) and "level" in log:
        facts["log"] = log

    return Facts(facts, "\n".join(_environment_lines(facts)))


def _environment_lines(facts: Fact, lead: str = "") -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            yield from _environment_lines(value, f"{lead}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, item in enumerate(value):
                yield from _environment_lines(item, f"{lead}{name}.{number}.")
        else:
            yield f"{lead}{name}: {as_cell(value)}"


# -- report

PARTS: Final = ("list_queues", "list_exchanges", "list_bindings")


def _lists() -> dict[str, Verb]:
    return {verb.name: verb for verb in LISTINGS}


def report(run: Run) -> Result:
    """Everything for whoever helps."""
    return Lines(_report_lines(run))


def _report_lines(run: Run) -> Iterator[str]:
    lists = _lists()
    yield f"Status of node {run.node} ..."
    yield _status_text(_status_facts(run))
    for title, result in (
        ("Cluster status", cluster_status(run)),
        ("Environment", environment(run)),
    ):
        yield f"\n{title} of node {run.node} ..."
        assert isinstance(result, Facts)
        yield result.text

    for name in ("list_connections", "list_channels"):
        yield from _table_lines(run, lists[name])

    for row in run.rows("/vhosts?columns=name"):
        run.vhost = str(row["name"])
        for name in PARTS:
            yield from _table_lines(run, lists[name])


def _table_lines(run: Run, verb: Verb) -> Iterator[str]:
    wanted = Wanted(more=verb.columns, options={"timeout": "none"}, vhost=run.vhost)
    part = Run(verb, wanted, run.client, run.printer)
    yield f"\n{part.banner.splitlines()[-1]}"
    table = verb.run(part)
    assert isinstance(table, Rows)
    yield "\t".join(table.columns)
    for row in table.rows:
        yield "\t".join(map(as_cell, row))


VERBS: Final = (
    Verb(
        "alarms",
        GROUP,
        "Lists resource alarms in effect.",
        "",
        alarms,
        "Asking node {node} to report any known resource alarms ...",
    ),
    Verb(
        "cluster_status",
        CLUSTER,
        "Displays the one node that there is.",
        "",
        cluster_status,
        "Cluster status of node {node} ...",
    ),
    Verb(
        "environment",
        CONFIGURATION,
        "Displays what is in force: files, limits, log, parameters.",
        "",
        environment,
        "Application environment of node {node} ...",
    ),
    Verb(
        "listeners",
        GROUP,
        "Lists where the node accepts connections.",
        "",
        listeners,
        "Asking node {node} to report its protocol listeners ...",
    ),
    Verb(
        "list_node_auth_attempt_stats",
        GROUP,
        "Counts the attempts to log in.",
        "",
        list_node_auth_attempt_stats,
        'Listing authentication\n attempts for node "{node}" ...',
    ),
    Verb(
        "memory_breakdown",
        GROUP,
        "Tells how much memory is in use.",
        "",
        memory_breakdown,
        "Reporting memory breakdown on node {node}...",
    ),
    Verb("ping", GROUP, "Checks that the broker answers.", "", ping, _ping_banner),
    Verb(
        "report",
        GROUP,
        "Generates a report of everything, for whoever helps.",
        "",
        report,
        "Reporting server status of node {node} ...\n",
    ),
    Verb(
        "server_version",
        GROUP,
        "Displays the version of RabbitMQ that the broker passes for.",
        "",
        server_version,
        "Asking node {node} for its RabbitMQ version...",
    ),
    Verb("status", GROUP, "Displays status of a node.", "", status, "Status of node {node} ..."),
)
