"""Verbs of rabbitmqctl and its kin that are about clusters, as one node answers (cli layer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_DATA, CtlError, WrongUsage
from broker.cli.ctl.printing import Done, Facts, Lines, Rows, Value
from broker.cli.ctl.terms import as_cell
from broker.cli.ctl.verb import Option, Run, Verb, path
from broker.cli.numbers import COUNT_MAX

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

CLUSTER: Final = "Cluster"
HEALTH: Final = "Monitoring, observability and health checks"
SETTINGS: Final = "Configuration and Environment"
VHOSTS: Final = "Virtual hosts"
STORE_BANNER: Final = "Checking if metadata store on node {node} has finished initializing ..."
STORE_TEXT: Final = "Metadata store on node {node} has completed its initialization"
CERTIFICATE_COLUMNS: Final = ("tls", "server_name", "purpose", "subject", "not_after", "path")
NO_INTERCEPTORS: Final = ("name", "operations", "priority")

FINE: Final = (
    (
        "has_reached_target_cluster_size",
        CLUSTER,
        "Checks that the node answers: there is no other.",
        "Checking if target cluster size has been reached on node {node} ...",
        "Target cluster size has been reached on node {node}",
    ),
    (
        "check_if_metadata_store_is_initialized",
        HEALTH,
        "Checks that the node answers: it has what it kept then.",
        STORE_BANNER,
        STORE_TEXT,
    ),
    (
        "check_if_metadata_store_is_initialized_with_data",
        HEALTH,
        "Checks that the node answers: it has what it kept then.",
        STORE_BANNER,
        STORE_TEXT,
    ),
    (
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        HEALTH,
        "Checks that the node answers: queues have one replica.",
        "Checking if node {node} runs promotable replicas of any queues ...",
        "Node {node} reported no queues with promotable replicas",
    ),
    (
        "check_if_node_is_mirror_sync_critical",
        HEALTH,
        "Checks that the node answers: queues have no mirrors.",
        "",
        "ok",
    ),
    (
        "check_if_cluster_has_classic_queue_mirroring_policy",
        HEALTH,
        "Checks that the node answers: queues have no mirrors.",
        "Checking if cluster has any classic queue mirroring policy ...",
        "Cluster reported no classic queue mirroring policies",
    ),
    (
        "remove_classic_queue_mirroring_from_policies",
        "Operations",
        "Does nothing: no policy here can ask for mirrors.",
        "",
        "",
    ),
    (
        "reconcile_vhosts",
        VHOSTS,
        "Does nothing: virtual hosts are where they are needed.",
        "Will try to initiate virtual host reconciliation on all reachable cluster nodes...",
        "",
    ),
)
"""Name, group, help, what is said before, and what is said of a node that answers."""


def _fine(text: str, run: Run) -> Result:
    run.demand("GET", "/version")
    return Value(text.format(node=run.node)) if text else Done()


def check_elected_leaders(run: Run) -> Result:
    place = path("vhost", run.vhost)
    if run["across_all_vhosts"]:
        place = "/all-vhosts"

    check = "/health/checks/quorum-queues-without-elected-leaders"
    run.demand("GET", f"{check}{place}{path('pattern', run['pattern'])}")
    return Value("Node reported no quorum queues without an elected leader")


def activate_monitoring(run: Run) -> Result:
    run.demand("DELETE", "/alarms/disk")
    return Done()


def deactivate_monitoring(run: Run) -> Result:
    run.demand("PUT", "/alarms/disk", {"off": True})
    return Done()


def list_channel_interceptors(_run: Run) -> Result:
    return Rows(NO_INTERCEPTORS, iter(()), is_blank_shown=True)


def rebalance(run: Run) -> Result:
    run.demand("POST", "/rebalance/queues")
    return Done("Nothing to do: there is one node")


def quorum_status(run: Run) -> Result:
    run.check_vhost()
    rows = run.rows(path("queues", "quorum", run.vhost, run["queue"], "status"))
    columns = tuple(rows[0]) if rows else ("Node Name",)
    return Rows(columns, ([row[name] for name in columns] for row in rows))


def peek(run: Run) -> Result:
    text = run["position"]
    try:
        position = int(text)
    except ValueError:
        position = 0

    if not 1 <= position <= COUNT_MAX:
        raise WrongUsage("the position is a number, and the first is 1")

    where = f"{path('queues', run.vhost, run['queue'], 'browse')}?limit=1&offset={position - 1}"
    items = run.get(where)["items"]
    if not isinstance(items, list) or not items:
        raise CtlError(f"there is no message at position {text}", EXIT_DATA)

    facts: dict[str, object] = items[0]
    return Facts(facts, "\n".join(f"{name}: {as_cell(value)}" for name, value in facts.items()))


def erlang_version(run: Run) -> Result:
    """Clients show it as the version of what the broker runs on."""
    return Value(str(run.get("/overview")["erlang_full_version"]))


def log_location(run: Run) -> Result:
    files = run.get(path("nodes", run.node))["log_files"]
    return Lines(map(str, files) if isinstance(files, list) else ())


def certificates(run: Run) -> Result:
    rows = run.rows("/certificates")
    return Rows(
        CERTIFICATE_COLUMNS, ([row.get(name) for name in CERTIFICATE_COLUMNS] for row in rows)
    )


def autocomplete(run: Run) -> Result:
    """Needs no broker."""
    from broker.cli.ctl.table import VERBS as ALL

    prefix = run["prefix"]
    return Lines(name for name in sorted(ALL) if name.startswith(prefix))


VERBS: Final = (
    *(
        Verb(name, group, summary, "", partial(_fine, text), banner)
        for name, group, summary, banner, text in FINE
    ),
    Verb(
        "check_for_quorum_queues_without_an_elected_leader",
        HEALTH,
        "Checks that the node answers: it leads all its queues.",
        "<pattern>",
        check_elected_leaders,
        "Checking if quorum queues have an elected leader ...",
        options=(Option("--across-all-vhosts", text="in all virtual hosts"),),
        has_vhost=True,
    ),
    Verb(
        "activate_free_disk_space_monitoring",
        HEALTH,
        "Has the free disk space watched again, with the limit that is configured.",
        "",
        activate_monitoring,
        "[Re-]activating free disk space monitoring on node {node}...",
    ),
    Verb(
        "deactivate_free_disk_space_monitoring",
        HEALTH,
        "Has the free disk space watched no more, until the broker ends.",
        "",
        deactivate_monitoring,
        "Deactivating free disk space monitoring on node {node}...",
    ),
    Verb(
        "list_channel_interceptors",
        HEALTH,
        "Lists channel interceptors: there are none.",
        "",
        list_channel_interceptors,
        "Listing channel interceptors ...",
    ),
    Verb(
        "rebalance",
        CLUSTER,
        "Does nothing: there is one node.",
        "[type]",
        rebalance,
        "Rebalancing queues ...",
    ),
    Verb(
        "quorum_status",
        "Queues",
        "Displays the one replica of a quorum queue.",
        "<queue>",
        quorum_status,
        "Status of quorum queue {queue} on node {node} ...",
        has_vhost=True,
    ),
    Verb(
        "peek",
        "Queues",
        "Shows the message at a position of a queue, and leaves it there.",
        "<queue> <position>",
        peek,
        "Peeking at queue {queue} at position {position}...",
        has_vhost=True,
    ),
    Verb(
        "erlang_version",
        HEALTH,
        "Displays what the broker runs on, which is Python.",
        "",
        erlang_version,
        "Asking node {node} for its Erlang/OTP version...",
    ),
    Verb(
        "log_location",
        SETTINGS,
        "Displays where the log is written.",
        "",
        log_location,
        "Log file location(s) on node {node} ...",
    ),
    Verb(
        "certificates",
        SETTINGS,
        "Lists the certificates in use, and when they expire.",
        "",
        certificates,
        "Certificates of node {node} ...",
    ),
    Verb(
        "autocomplete",
        SETTINGS,
        "Lists the commands that begin with a text.",
        "[prefix]",
        autocomplete,
    ),
)
