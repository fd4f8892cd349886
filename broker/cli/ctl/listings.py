"""Lists of queues, exchanges, bindings, connections, channels and consumers (cli layer).

The columns are rabbitmqctl's. Its process identifiers are made up from names: what matters of them
is that they tell things apart, have no spaces, and that `close_connection` takes them back.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.cli.ctl.printing import Rows
from broker.cli.ctl.terms import Atoms, Table
from broker.cli.ctl.verb import Option, Run, Verb, path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from broker.cli.ctl.printing import Result

__all__ = ["VERBS", "pid_of_connection"]

GROUP: Final = "Monitoring, observability and health checks"

Fact = dict[str, object]


class Column(NamedTuple):
    """How a column is made.

    Attributes:
        keys: what of the API's row it needs.
        value: makes it from the row.

    """

    keys: tuple[str, ...]
    value: Callable[[Fact], object]


def plain(key: str) -> Column:
    """A value as it is."""
    return Column((key,), lambda row: row.get(key))


def table(key: str) -> Column:
    """Arguments."""

    def value(row: Fact) -> object:
        found = row.get(key)
        return Table(found) if isinstance(found, dict) else Table()

    return Column((key,), value)


def names(key: str) -> Column:
    """Words without quotes."""

    def value(row: Fact) -> object:
        found = row.get(key)
        return Atoms(map(str, found)) if isinstance(found, list) else None

    return Column((key,), value)


def nested(key: str, inner: str) -> Column:
    """A value within an object."""
    return Column((f"{key}.{inner}",), lambda row: _inner(row, key, inner))


def constant(value: object) -> Column:
    """What does not depend on anything."""
    return Column(("name",), lambda _row: value)


def _inner(row: Fact, key: str, inner: str) -> object:
    found = row.get(key)
    return found.get(inner) if isinstance(found, dict) else None


# -- process identifiers


def _pid(node: object, name: str, number: object = 0) -> str:
    code = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    return f"<{node}.{code}.{number}.0>"


def pid_of_connection(row: Fact) -> str:
    """What stands for the process of a connection."""
    return _pid(row["node"], str(row["name"]))


def _pid_of_owner(row: Fact) -> str | None:
    name = _inner(row, "owner_pid_details", "name")
    return None if name is None else _pid(row["node"], str(name))


def _pid_of_channel(row: Fact) -> str:
    connection = _inner(row, "connection_details", "name")
    return _pid(row["node"], str(connection), row["number"])


def _pid_of_channels_connection(row: Fact) -> str:
    return _pid(row["node"], str(_inner(row, "connection_details", "name")))


def _pid_of_consumer(row: Fact) -> str | None:
    found = row.get("channel_details")
    if not isinstance(found, dict) or "connection_name" not in found:
        return None

    return _pid(found["node"], str(found["connection_name"]), found["number"])


def _pid_of_queue(row: Fact) -> str:
    return _pid(row["node"], f"{row['vhost']}\0{row['name']}")


def _exclusive_consumer_pid(_row: Fact) -> None:
    return None


# -- columns

QUEUE_STATIC: Final = ("name", "durable", "auto_delete", "exclusive", "state", "type", "policy")
QUEUE_TOTALS: Final = ("messages", "messages_ready", "messages_unacknowledged")
QUEUE_STATS: Final = (
    "consumer_capacity",
    "consumer_utilisation",
    "consumers",
    "exclusive_consumer_tag",
    "head_message_timestamp",
    "idle_since",
    "memory",
    "message_bytes",
    "message_bytes_paged_out",
    "message_bytes_persistent",
    "message_bytes_ram",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "messages_paged_out",
    "messages_persistent",
    "messages_ram",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "single_active_consumer_tag",
)
QUEUES: Final[Mapping[str, Column]] = {
    **{name: plain(name) for name in (*QUEUE_STATIC, *QUEUE_TOTALS, *QUEUE_STATS)},
    "arguments": table("arguments"),
    "disk_reads": nested("message_stats", "disk_reads"),
    "disk_writes": nested("message_stats", "disk_writes"),
    "effective_policy_definition": plain("effective_policy_definition"),
    "exclusive_consumer_pid": Column(("name",), _exclusive_consumer_pid),
    "leader": plain("leader"),
    "members": names("members"),
    "online": names("online"),
    "operator_policy": plain("operator_policy"),
    "owner_pid": Column(("node", "owner_pid_details.name"), _pid_of_owner),
    "pid": Column(("node", "vhost", "name"), _pid_of_queue),
    # RabbitMQ: mirrors were there before version 4, and scripts ask for them.
    "slave_pids": constant(None),
    "synchronised_slave_pids": constant(None),
    "vhost": plain("vhost"),
}
CHEAP: Final = frozenset(
    {
        *QUEUE_STATIC,
        *QUEUE_TOTALS,
        "arguments",
        "effective_policy_definition",
        "leader",
        "members",
        "online",
        "operator_policy",
        "pid",
        "vhost",
    }
)
"""Columns that need no statistics."""

EXCHANGES: Final[Mapping[str, Column]] = {
    **{
        name: plain(name)
        for name in ("name", "type", "durable", "auto_delete", "internal", "policy", "vhost")
    },
    "arguments": table("arguments"),
}
BINDINGS: Final[Mapping[str, Column]] = {
    "source_name": plain("source"),
    "source_kind": constant("exchange"),
    "destination_name": plain("destination"),
    "destination_kind": plain("destination_type"),
    "routing_key": plain("routing_key"),
    "arguments": table("arguments"),
    "vhost": plain("vhost"),
}
CONNECTIONS: Final[Mapping[str, Column]] = {
    **{
        name: plain(name)
        for name in (
            "auth_mechanism",
            "channel_max",
            "channels",
            "connected_at",
            "frame_max",
            "host",
            "name",
            "node",
            "peer_cert_issuer",
            "peer_cert_serial_number",
            "peer_cert_subject",
            "peer_cert_validity",
            "peer_host",
            "peer_port",
            "port",
            "recv_cnt",
            "recv_oct",
            "send_cnt",
            "send_oct",
            "send_pend",
            "ssl",
            "ssl_cipher",
            "ssl_hash",
            "ssl_key_exchange",
            "ssl_protocol",
            "state",
            "timeout",
            "user",
            "user_provided_name",
            "vhost",
        )
    },
    "client_properties": table("client_properties"),
    "container_id": constant(None),
    "pid": Column(("node", "name"), pid_of_connection),
    "protocol": constant((0, 9, 1)),
}
CHANNELS: Final[Mapping[str, Column]] = {
    **{
        name: plain(name)
        for name in (
            "acks_uncommitted",
            "confirm",
            "consumer_count",
            "global_prefetch_count",
            "messages_unacknowledged",
            "messages_uncommitted",
            "messages_unconfirmed",
            "name",
            "number",
            "prefetch_count",
            "state",
            "transactional",
            "user",
            "vhost",
        )
    },
    "connection": Column(("node", "connection_details.name"), _pid_of_channels_connection),
    "pid": Column(("node", "number", "connection_details.name"), _pid_of_channel),
}
CONSUMERS: Final[Mapping[str, Column]] = {
    **{
        name: plain(name)
        for name in (
            "ack_required",
            "active",
            "activity_status",
            "consumer_tag",
            "exclusive",
            "prefetch_count",
        )
    },
    "arguments": table("arguments"),
    "channel_pid": Column(("channel_details",), _pid_of_consumer),
    "queue_name": nested("queue", "name"),
}


# -- verbs


def _list(run: Run, where: str, known: Mapping[str, Column], query: str = "") -> Rows:
    columns = run.wanted_columns
    keys = dict.fromkeys(key for name in columns for key in known[name].keys)
    rows = run.rows(f"{where}?columns={','.join(keys)}{query}")
    return Rows(columns, _cells(rows, [known[name] for name in columns]))


def _cells(rows: list[Fact], columns: list[Column]) -> Iterator[list[object]]:
    for row in rows:
        yield [column.value(row) for column in columns]


def list_queues(run: Run) -> Result:
    columns = run.wanted_columns
    if run.flag("offline") and not run.flag("online"):
        run.check_vhost()
        return Rows(columns, ())

    is_cheap = CHEAP.issuperset(columns)
    query = "&disable_stats=true&enable_queue_totals=true" if is_cheap else ""
    return _list(run, path("queues", run.vhost), QUEUES, query)


def list_exchanges(run: Run) -> Result:
    return _list(run, path("exchanges", run.vhost), EXCHANGES)


def list_bindings(run: Run) -> Result:
    columns = run.wanted_columns
    rows = run.rows(path("bindings", run.vhost))
    return Rows(columns, _cells(rows, [BINDINGS[name] for name in columns]))


def list_connections(run: Run) -> Result:
    return _list(run, "/connections", CONNECTIONS)


def list_channels(run: Run) -> Result:
    return _list(run, "/channels", CHANNELS)


def list_consumers(run: Run) -> Result:
    return _list(run, path("consumers", run.vhost), CONSUMERS)


def list_unresponsive_queues(run: Run) -> Result:
    """All queues are in one process, which answers."""
    columns = run.wanted_columns
    run.check_vhost()
    return Rows(columns, ())


COLUMN: Final = "[column] ..."

VERBS: Final = (
    Verb(
        "list_bindings",
        GROUP,
        "Lists all bindings on a vhost.",
        COLUMN,
        list_bindings,
        "Listing bindings for vhost {vhost}...",
        columns=tuple(BINDINGS),
        shown=(
            "source_name",
            "source_kind",
            "destination_name",
            "destination_kind",
            "routing_key",
            "arguments",
        ),
        has_vhost=True,
    ),
    Verb(
        "list_channels",
        GROUP,
        "Lists all channels in the node.",
        COLUMN,
        list_channels,
        "Listing channels ...",
        columns=tuple(CHANNELS),
        shown=("pid", "user", "consumer_count", "messages_unacknowledged"),
    ),
    Verb(
        "list_connections",
        GROUP,
        "Lists AMQP 0.9.1 connections for the node.",
        COLUMN,
        list_connections,
        "Listing connections ...",
        columns=tuple(CONNECTIONS),
        shown=("user", "peer_host", "peer_port", "state"),
    ),
    Verb(
        "list_consumers",
        GROUP,
        "Lists all consumers for a vhost.",
        COLUMN,
        list_consumers,
        "Listing consumers in vhost {vhost} ...",
        columns=tuple(CONSUMERS),
        shown=(
            "queue_name",
            "channel_pid",
            "consumer_tag",
            "ack_required",
            "prefetch_count",
            "active",
            "arguments",
        ),
        has_vhost=True,
    ),
    Verb(
        "list_exchanges",
        GROUP,
        "Lists exchanges.",
        COLUMN,
        list_exchanges,
        "Listing exchanges for vhost {vhost} ...",
        columns=tuple(EXCHANGES),
        shown=("name", "type"),
        has_vhost=True,
    ),
    Verb(
        "list_queues",
        GROUP,
        "Lists queues and their properties.",
        COLUMN,
        list_queues,
        "Timeout: {timeout} seconds ...\nListing queues for vhost {vhost} ...",
        (
            Option("--online", text="those on nodes that are up: all"),
            Option("--offline", text="those on nodes that are down: none"),
            Option("--local", text="those of this node: all"),
        ),
        columns=tuple(QUEUES),
        shown=("name", "messages"),
        has_vhost=True,
    ),
    Verb(
        "list_unresponsive_queues",
        GROUP,
        "Lists queues that do not answer: none.",
        COLUMN,
        list_unresponsive_queues,
        "Listing unresponsive queues for vhost {vhost} ...",
        columns=tuple(QUEUES),
        shown=("name",),
        has_vhost=True,
    ),
)
