"""Which metric says what: RabbitMQ's names for the broker's counts (exporter layer).

Invariant: names, labels and bounds are RabbitMQ's wherever RabbitMQ has the thing; what only this
broker has begins with ``leveret_``. Each series is there from the start, at zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.tally import SIZE_BOUNDS, QueueTally
from broker.metrics.totals import (
    CHANNEL_KEYS,
    CHURN_KEYS,
    CONNECTION_KEYS,
    EXCHANGE_KEYS,
    QUEUE_KEYS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.metrics.snapshot import ExchangeRow, Rows, Snapshot

__all__ = [
    "COUNTER",
    "FAMILIES",
    "GAUGE",
    "HISTOGRAM",
    "Family",
    "Labels",
    "cluster_families",
    "node_families",
    "queue_depths",
    "row_families",
]

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

PROTOCOL: Final = (("protocol", "amqp091"),)
QUEUE_TYPES: Final = ("classic", "quorum", "stream")
DEATHS: Final = ("confirmed", "delivery_limit", "expired", "maxlen", "rejected")
STRATEGIES: Final = ("disabled", "at_most_once", "at_least_once")
ALARMS: Final = (
    ("file_descriptor_limit", "descriptors"),
    ("free_disk_space_watermark", "disk"),
    ("memory_used_watermark", "memory"),
)
"""Names of RabbitMQ's metrics, and of the alarms here."""

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """One metric with all its series.

    Attributes:
        name: without prefix and without ``_total``; what begins with ``leveret_`` has no prefix.
        kind: COUNTER, GAUGE or HISTOGRAM.
        help: one line.
        labels: of each series; the same list for several families where these have the same.
        values: of each series; of a histogram, which has one series, the sum.
        counts: of a histogram, by class.
        bounds: of a histogram.

    """

    name: str
    kind: str
    help: str
    labels: list[Labels]
    values: list[float]
    counts: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()


def _single(name: str, kind: str, text: str, value: float | None) -> Iterator[Family]:
    if value is not None:
        yield Family(name, kind, text, [()], [value])


# -- of the node


def node_families(snapshot: Snapshot) -> Iterator[Family]:
    """Everything about a node as a whole."""
    yield from _gauges(snapshot)
    yield from _global_families(snapshot)
    for group in (_churn, _machine, _node_limits, _persister, _auth):
        yield from group(snapshot)

    yield from _alarms(snapshot)
    yield from _datagrams(snapshot)
    yield from _certificates(snapshot)


def _gauges(snapshot: Snapshot) -> Iterator[Family]:
    depth, ready, unacked = snapshot.depths
    ready_b, unacked_b = snapshot.ready_bytes, snapshot.unacked_bytes
    for name, text, value in (
        ("connections", "Connections currently open", snapshot.connection_count),
        ("channels", "Channels currently open", snapshot.channel_count),
        ("consumers", "Consumers currently connected", snapshot.consumer_count),
        ("queues", "Queues available", snapshot.queue_count),
        ("queue_messages", "Sum of ready and unacknowledged messages", depth),
        ("queue_messages_ready", "Messages ready to be delivered to consumers", ready),
        ("queue_messages_unacked", "Messages delivered and not yet acknowledged", unacked),
        ("queue_messages_bytes", "Size of the bodies of all messages", ready_b + unacked_b),
        ("queue_messages_ready_bytes", "Size of the bodies of ready messages", ready_b),
        ("queue_messages_unacked_bytes", "Size of the bodies of unacked messages", unacked_b),
    ):
        yield from _single(name, GAUGE, text, value)

    for name, text, value in (
        ("connection_incoming_bytes", "Bytes received on connections", snapshot.received_bytes),
        ("connection_outgoing_bytes", "Bytes sent on connections", snapshot.sent_bytes),
        ("queue_disk_reads", "Messages read from the disk", snapshot.tally.disk_reads),
        ("queue_disk_writes", "Messages written to the disk", snapshot.tally.disk_writes),
    ):
        yield from _single(name, COUNTER, text, int(value))


def _global_families(snapshot: Snapshot) -> Iterator[Family]:
    tally = snapshot.tally
    published = tally.publishes
    for name, text, count in (
        ("received", "Messages received from publishers", published.published),
        ("received_confirm", "Messages received in confirm mode", published.to_confirm),
        ("routed", "Messages routed to queues or streams", tally.publish_out),
        ("confirmed", "Messages confirmed to publishers", published.confirmed),
        ("unroutable_dropped", "Messages dropped as unroutable", published.dropped),
        ("unroutable_returned", "Messages returned as unroutable", published.returned),
    ):
        yield Family(f"global_messages_{name}", COUNTER, text, [PROTOCOL], [int(count)])

    for name, text, count in (
        ("publishers", "Publishers currently connected", snapshot.publisher_count),
        ("consumers", "Consumers currently connected", snapshot.consumer_count),
    ):
        yield Family(f"global_{name}", GAUGE, text, [PROTOCOL], [int(count)])

    persistent = int(tally.persistent)
    yield Family(
        "leveret_messages_received",
        COUNTER,
        "Messages received from publishers, by whether they were persistent",
        [(("persistent", "true"),), (("persistent", "false"),)],
        [persistent, sum(tally.sizes.counts) - persistent],
    )
    yield from _delivery_families(snapshot)
    yield from _death_families(snapshot)
    yield Family(
        "message_size_bytes",
        HISTOGRAM,
        "Size of messages received from publishers",
        [PROTOCOL],
        [int(tally.sizes.total_bytes)],
        tuple(tally.sizes.counts),
        SIZE_BOUNDS,
    )


_DELIVERED: Final[tuple[tuple[str, str, Callable[[QueueTally], int]], ...]] = (
    (
        "delivered",
        "Messages delivered to consumers",
        lambda one: (
            one.deliver_count + one.deliver_no_ack_count + one.get_count + one.get_no_ack_count
        ),
    ),
    (
        "delivered_consume_auto_ack",
        "Messages delivered by basic.consume without acknowledgement",
        lambda one: one.deliver_no_ack_count,
    ),
    (
        "delivered_consume_manual_ack",
        "Messages delivered by basic.consume with acknowledgement",
        lambda one: one.deliver_count,
    ),
    (
        "delivered_get_auto_ack",
        "Messages fetched by basic.get without acknowledgement",
        lambda one: one.get_no_ack_count,
    ),
    (
        "delivered_get_manual_ack",
        "Messages fetched by basic.get with acknowledgement",
        lambda one: one.get_count,
    ),
    ("get_empty", "basic.get that found no message", lambda one: one.get_empty_count),
    ("redelivered", "Messages delivered again", lambda one: one.redeliver_count),
    ("acknowledged", "Messages acknowledged by consumers", lambda one: one.ack_count),
)


def _delivery_families(snapshot: Snapshot) -> Iterator[Family]:
    nothing = QueueTally()
    queues = snapshot.tally.queues
    labels: list[Labels] = [
        (*PROTOCOL, ("queue_type", f"rabbit_{kind}_queue")) for kind in QUEUE_TYPES
    ]
    for name, text, count in _DELIVERED:
        values: list[float] = [int(count(queues.get(kind, nothing))) for kind in QUEUE_TYPES]
        yield Family(f"global_messages_{name}", COUNTER, text, labels, values)


def _death_families(snapshot: Snapshot) -> Iterator[Family]:
    deaths = snapshot.tally.dead_letters
    kinds = [(kind, strategy) for kind in QUEUE_TYPES[:2] for strategy in STRATEGIES]
    labels: list[Labels] = [
        (("queue_type", f"rabbit_{kind}_queue"), ("dead_letter_strategy", strategy))
        for kind, strategy in kinds
    ]
    for reason in DEATHS:
        values: list[float] = [deaths.get((kind, reason, strategy), 0) for kind, strategy in kinds]
        text = f"Messages dead-lettered: {reason.replace('_', ' ')}"
        yield Family(f"global_messages_dead_lettered_{reason}", COUNTER, text, labels, values)


_CHURN: Final = (
    ("connections_opened", "connection_created"),
    ("connections_closed", "connection_closed"),
    ("channels_opened", "channel_created"),
    ("channels_closed", "channel_closed"),
    ("queues_declared", "queue_declared"),
    ("queues_created", "queue_created"),
    ("queues_deleted", "queue_deleted"),
)


def _churn(snapshot: Snapshot) -> Iterator[Family]:
    for name, key in _CHURN:
        text = name.replace("_", " ").capitalize()
        yield from _single(name, COUNTER, text, snapshot.churn[CHURN_KEYS.index(key)])


def _machine(snapshot: Snapshot) -> Iterator[Family]:
    machine = snapshot.machine
    sockets = snapshot.connection_count
    for name, text, value in (
        ("process_open_fds", "Open file descriptors", machine.descriptors),
        ("process_open_tcp_sockets", "Sockets of connections", sockets),
        ("process_resident_memory_bytes", "Memory used in bytes", machine.memory_bytes),
        ("disk_space_available_bytes", "Disk space available", machine.disk_free_bytes),
    ):
        yield from _single(name, GAUGE, text, value)


def _node_limits(snapshot: Snapshot) -> Iterator[Family]:
    machine = snapshot.machine
    for name, text, value in (
        ("process_max_fds", "Open file descriptors limit", machine.descriptors_max),
        ("resident_memory_limit_bytes", "Memory alarm limit", machine.memory_limit_bytes),
        ("disk_space_available_limit_bytes", "Disk alarm limit", machine.disk_limit_bytes),
        (
            "leveret_consumer_timeout_seconds",
            "How long a delivery may stay unacknowledged",
            snapshot.consumer_timeout_s,
        ),
        ("erlang_uptime_seconds", "Time since the broker started", snapshot.uptime_s),
    ):
        yield from _single(name, GAUGE, text, value)


def _persister(snapshot: Snapshot) -> Iterator[Family]:
    disk = snapshot.disk
    for name, text, value in (
        ("io_read_ops", "Reads of the logs", disk.read_count),
        ("io_read_bytes", "Bytes read from the logs", disk.read_bytes),
        ("io_read_time_seconds", "Time spent reading", disk.read_s),
        ("io_write_ops", "Writes to the logs", disk.write_count),
        ("io_write_bytes", "Bytes written to the logs", disk.write_bytes),
        ("io_write_time_seconds", "Time spent writing", disk.write_s),
        ("io_sync_ops", "Syncs of the logs", disk.sync_count),
        ("io_sync_time_seconds", "Time spent syncing", disk.sync_s),
        ("msg_store_read", "Messages read from the disk", int(snapshot.tally.disk_reads)),
        ("msg_store_write", "Messages written to the disk", int(snapshot.tally.disk_writes)),
    ):
        yield from _single(name, COUNTER, text, value)

    if disk.sync_classes:
        yield Family(
            "leveret_log_sync_seconds",
            HISTOGRAM,
            "How long syncs of the logs took",
            [()],
            [disk.sync_s],
            disk.sync_classes,
            disk.sync_bounds_s,
        )


def _auth(snapshot: Snapshot) -> Iterator[Family]:
    attempts = snapshot.logins + snapshot.logins_refused
    for name, text, value in (
        ("auth_attempts", "Logins that were tried", attempts),
        ("auth_attempts_succeeded", "Logins that succeeded", snapshot.logins),
        ("auth_attempts_failed", "Logins that were refused", snapshot.logins_refused),
    ):
        yield from _single(name, COUNTER, text, value)


def _alarms(snapshot: Snapshot) -> Iterator[Family]:
    for name, alarm in ALARMS:
        text = f"is 1 if the {alarm} alarm is in effect"
        yield from _single(f"alarms_{name}", GAUGE, text, int(alarm in snapshot.alarms))


def _certificates(snapshot: Snapshot) -> Iterator[Family]:
    rows = snapshot.certificates
    if rows:
        yield Family(
            "leveret_tls_certificate_expiry_timestamp_seconds",
            GAUGE,
            "When a certificate in use expires, in seconds since 1970",
            [
                (
                    ("tls", row.tls),
                    ("server_name", row.server_name),
                    ("purpose", row.purpose),
                    ("subject", row.subject),
                )
                for row in rows
            ],
            [row.expires_s for row in rows],
        )


def _datagrams(snapshot: Snapshot) -> Iterator[Family]:
    rows = snapshot.datagrams
    if not rows:
        return

    labels: list[Labels] = [(("listener", row.listener),) for row in rows]
    yield Family(
        "leveret_datagrams_received",
        COUNTER,
        "Datagrams that came",
        labels,
        [row.received for row in rows],
    )
    yield Family(
        "leveret_datagrams_published",
        COUNTER,
        "Datagrams that reached a queue",
        labels,
        [row.published for row in rows],
    )
    yield Family(
        "leveret_datagrams_dropped",
        COUNTER,
        "Datagrams that were dropped, by the reason",
        [(("listener", row.listener), ("reason", why)) for row in rows for why, _ in row.dropped],
        [count for row in rows for _, count in row.dropped],
    )


# -- of each thing in it


def _columns(
    labels: list[Labels], columns: tuple[tuple[str, str, str], ...], rows: list[list[float]]
) -> Iterator[Family]:
    for place, (name, kind, text) in enumerate(columns):
        yield Family(name, kind, text, labels, [row[place] for row in rows])


def _queue_labels(rows: Rows) -> list[Labels]:
    return [(("vhost", row.vhost), ("queue", row.name)) for row in rows.queues]


def queue_depths(rows: Rows) -> Iterator[Family]:
    """How many messages there are in each queue."""
    columns = (
        ("queue_messages_ready", GAUGE, "Messages ready to be delivered to consumers"),
        ("queue_messages_unacked", GAUGE, "Messages delivered and not yet acknowledged"),
        ("queue_messages", GAUGE, "Sum of ready and unacknowledged messages"),
    )
    start = len(QUEUE_KEYS)
    values: list[list[float]] = [
        [row.totals[start + 1], row.totals[start + 2], row.totals[start]] for row in rows.queues
    ]
    yield from _columns(_queue_labels(rows), columns, values)


def _queue_consumers(rows: Rows) -> Iterator[Family]:
    columns = (("queue_consumers", GAUGE, "Consumers on a queue"),)
    values: list[list[float]] = [[row.consumer_count] for row in rows.queues]
    yield from _columns(_queue_labels(rows), columns, values)


def _queue_metrics(rows: Rows) -> Iterator[Family]:
    yield from _queue_consumers(rows)
    columns = (
        ("queue_messages_bytes", GAUGE, "Size of the bodies of all messages"),
        ("queue_messages_ready_bytes", GAUGE, "Size of the bodies of ready messages"),
        ("queue_messages_unacked_bytes", GAUGE, "Size of the bodies of unacked messages"),
    )
    values: list[list[float]] = [
        [row.ready_bytes + row.unacked_bytes, row.ready_bytes, row.unacked_bytes]
        for row in rows.queues
    ]
    yield from _columns(_queue_labels(rows), columns, values)


_TAKEN: Final = (
    ("get_ack", "get", "Messages fetched with basic.get, to be acknowledged"),
    ("get", "get_no_ack", "Messages fetched with basic.get, not to be acknowledged"),
    ("get_empty", "get_empty", "basic.get that found no message"),
    ("messages_delivered_ack", "deliver", "Messages delivered, to be acknowledged"),
    ("messages_delivered", "deliver_no_ack", "Messages delivered, not to be acknowledged"),
    ("messages_redelivered", "redeliver", "Messages delivered again"),
    ("messages_acked", "ack", "Messages acknowledged"),
)


def _queue_deliveries(rows: Rows) -> Iterator[Family]:
    columns = tuple((f"queue_{name}", COUNTER, text) for name, _, text in _TAKEN)
    places = [QUEUE_KEYS.index(key) for _, key, _ in _TAKEN]
    values: list[list[float]] = [[row.totals[place] for place in places] for row in rows.queues]
    yield from _columns(_queue_labels(rows), columns, values)


def _exchange_metrics(rows: Rows) -> Iterator[Family]:
    columns = (
        ("exchange_messages_published", COUNTER, "Messages published into an exchange"),
        ("exchange_messages_routed", COUNTER, "Messages an exchange has passed to queues"),
    )
    places = [EXCHANGE_KEYS.index(key) for key in ("publish_in", "publish_out")]
    labels: list[Labels] = [
        (("vhost", row.vhost), ("exchange", row.name)) for row in rows.exchanges
    ]
    values: list[list[float]] = [[row.totals[place] for place in places] for row in rows.exchanges]
    yield from _columns(labels, columns, values)


def _connection_labels(rows: Rows) -> list[Labels]:
    return [(("vhost", row.vhost), ("connection", row.name)) for row in rows.connections]


def _connection_coarse(rows: Rows) -> Iterator[Family]:
    columns = (
        ("connection_incoming_bytes", COUNTER, "Bytes received on a connection"),
        ("connection_outgoing_bytes", COUNTER, "Bytes sent on a connection"),
    )
    places = [CONNECTION_KEYS.index(key) for key in ("recv_oct", "send_oct")]
    values: list[list[float]] = [
        [row.totals[place] for place in places] for row in rows.connections
    ]
    yield from _columns(_connection_labels(rows), columns, values)


def _connection_metrics(rows: Rows) -> Iterator[Family]:
    columns = (("connection_channels", GAUGE, "Channels on a connection"),)
    values: list[list[float]] = [[row.channel_count] for row in rows.connections]
    yield from _columns(_connection_labels(rows), columns, values)


def _channel_labels(rows: Rows) -> list[Labels]:
    return [(("vhost", row.vhost), ("channel", row.name)) for row in rows.channels]


def _channel_metrics(rows: Rows) -> Iterator[Family]:
    columns = (
        ("channel_consumers", GAUGE, "Consumers on a channel"),
        ("channel_messages_unacked", GAUGE, "Delivered but not yet acknowledged messages"),
        ("channel_messages_unconfirmed", GAUGE, "Published but not yet confirmed messages"),
        ("channel_messages_uncommitted", GAUGE, "Messages published and not yet committed"),
        ("channel_acks_uncommitted", GAUGE, "Acknowledgements not yet committed"),
        ("consumer_prefetch", GAUGE, "Limit of unacknowledged messages for each consumer"),
        ("channel_prefetch", GAUGE, "Limit of unacknowledged messages for all consumers"),
    )
    values: list[list[float]] = [
        [
            row.consumer_count,
            row.unacked_count,
            row.unconfirmed_count,
            row.uncommitted_count,
            row.acks_uncommitted_count,
            row.prefetch_count,
            row.prefetch_limit,
        ]
        for row in rows.channels
    ]
    yield from _columns(_channel_labels(rows), columns, values)


_PUBLISHED: Final = (
    ("messages_published", "publish", "Messages published on a channel"),
    ("messages_confirmed", "confirm", "Messages confirmed on the channel"),
    ("messages_unroutable_returned", "return_unroutable", "Messages returned as unroutable"),
    ("messages_unroutable_dropped", "drop_unroutable", "Messages dropped as unroutable"),
)


def _channel_counters(rows: Rows, table: tuple[tuple[str, str, str], ...]) -> Iterator[Family]:
    columns = tuple((f"channel_{name}", COUNTER, text) for name, _, text in table)
    places = [CHANNEL_KEYS.index(key) for _, key, _ in table]
    values: list[list[float]] = [[row.totals[place] for place in places] for row in rows.channels]
    yield from _columns(_channel_labels(rows), columns, values)


def _channel_published(rows: Rows) -> Iterator[Family]:
    yield from _channel_counters(rows, _PUBLISHED)


def _channel_taken(rows: Rows) -> Iterator[Family]:
    yield from _channel_counters(rows, _TAKEN)


def cluster_families(rows: Rows, families: frozenset[str]) -> Iterator[Family]:
    """What RabbitMQ has once for all nodes."""
    if "vhost_status" in families:
        labels: list[Labels] = [(("vhost", row.name),) for row in rows.vhosts]
        text = "Whether a virtual host is running"
        yield Family("vhost_status", GAUGE, text, labels, [1] * len(labels))

    labels = [_typed(row) for row in rows.exchanges]

    if "exchange_bindings" in families:
        values: list[float] = [row.binding_count for row in rows.exchanges]
        yield Family("exchange_bindings", GAUGE, "Bindings of an exchange", labels, values)

    if "exchange_names" in families:
        yield Family("exchange_name", GAUGE, "Enumerates exchanges", labels, [1] * len(labels))


def _typed(row: ExchangeRow) -> Labels:
    return ("vhost", row.vhost), ("exchange", row.name), ("type", row.type)


ROW_GROUPS: Final[dict[str, Callable[[Rows], Iterator[Family]]]] = {
    "queue_coarse_metrics": queue_depths,
    "queue_consumer_count": _queue_consumers,
    "queue_metrics": _queue_metrics,
    "queue_delivery_metrics": _queue_deliveries,
    "exchange_metrics": _exchange_metrics,
    "connection_coarse_metrics": _connection_coarse,
    "connection_metrics": _connection_metrics,
    "channel_metrics": _channel_metrics,
    "channel_exchange_metrics": _channel_published,
    "channel_queue_metrics": _channel_taken,
}

NODE_GROUPS: Final[dict[str, Callable[[Snapshot], Iterator[Family]]]] = {
    "connection_churn_metrics": _churn,
    "node_coarse_metrics": _machine,
    "node_metrics": _node_limits,
    "node_persister_metrics": _persister,
    "auth_attempt_metrics": _auth,
}

PER_OBJECT: Final = frozenset(ROW_GROUPS) - {"queue_consumer_count"}

FAMILIES: Final = (
    frozenset(ROW_GROUPS)
    | frozenset(NODE_GROUPS)
    | {"vhost_status", "exchange_bindings", "exchange_names"}
)
"""What ``family=`` of /metrics/detailed may ask for."""


def row_families(
    snapshot: Snapshot, rows: Rows, wanted: frozenset[str] | None = None
) -> Iterator[Family]:
    """Everything one by one, for the groups that are wanted; None is all that is per object."""
    groups = PER_OBJECT if wanted is None else wanted
    for name, of_node in NODE_GROUPS.items():
        if wanted is not None and name in wanted:
            yield from of_node(snapshot)

    for name, of_rows in ROW_GROUPS.items():
        is_part = name == "queue_consumer_count" and "queue_metrics" in groups
        if name in groups and not is_part:
            yield from of_rows(rows)
