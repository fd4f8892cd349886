"""What the API shows of a queue (management layer).

Fields that RabbitMQ has of its processes are there with the values it gives for "not known", since
programs with strict types ask for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queue.quorum import QuorumQueue
from broker.core.queue.stream import StreamQueue
from broker.management.consumer_rows import consumer_row
from broker.management.json_text import rfc3339
from broker.management.samples import Ranges, add_samples
from broker.management.stats import add_queue_stats
from broker.metrics.lasting import lasting_of
from broker.metrics.totals import aside_count
from broker.protocol.connection import Connection
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.management.json_text import JSON
    from broker.management.site import Site
    from broker.metrics.unacked_bytes import UnackedSizes

__all__ = ["queue_details", "queue_row", "queue_totals_row"]

NO_GARBAGE: Final = {
    "max_heap_size": -1,
    "min_bin_vheap_size": -1,
    "min_heap_size": -1,
    "fullsweep_after": -1,
    "minor_gcs": -1,
}
QUEUE_BYTES: Final = 2048
"""What an empty queue takes, roughly."""

MESSAGE_BYTES: Final = 320
"""What a message takes besides its content, roughly."""


def identity_of(site: Site, queue: Queue) -> JSON:
    """What a queue is, whatever is in it."""
    return {
        "name": queue.name,
        "vhost": queue.vhost.name,
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive_owner is not None,
        "arguments": table_to_plain(queue.arguments),
        "node": site.node.settings.node_name,
        "state": "running",
        "internal": False,
        "internal_owner": False,
    }


def queue_totals_row(site: Site, queue: Queue, *, with_totals: bool) -> JSON:
    """A row without statistics, but for the depths where they are wanted."""
    row = identity_of(site, queue)
    _add_policies(row, queue)
    _add_replicas(row, queue)
    if with_totals:
        row.update(_depths_of(queue))

    return row


def _depths_of(queue: Queue) -> JSON:
    ready = int(queue.ready_count)
    unacked = int(queue.unacked_count)
    return {
        "messages": ready + unacked + int(aside_count(queue)),
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }


def queue_row(site: Site, ranges: Ranges, queue: Queue) -> JSON:
    """A row with statistics, and with histories where they are asked for."""
    row = identity_of(site, queue)
    add_queue_stats(row, site.sampler, queue)
    consumers = queue.consumers
    capacity = 1.0 if consumers and not queue.ready_count else 0.0
    row["consumers"] = len(consumers)
    row["consumer_capacity"] = capacity
    row["consumer_utilisation"] = capacity
    _add_policies(row, queue)
    active = queue.active_consumer
    exclusive = next(iter(consumers), None)
    row["exclusive_consumer_tag"] = (
        exclusive.tag if exclusive is not None and exclusive.exclusive else None
    )
    row["single_active_consumer_tag"] = None if active is None else active.tag
    _add_sizes(row, queue, site.sampler.unacked.sizes_of(queue))
    row["reductions"] = 0
    row["reductions_details"] = {"rate": 0.0}
    row["garbage_collection"] = NO_GARBAGE
    _add_owner(row, queue)
    _add_replicas(row, queue)
    idle_ms = _idle_since_ms(site, queue, row)
    if idle_ms is not None:
        row["idle_since"] = rfc3339(idle_ms)

    if ranges:
        add_samples(ranges, site.sampler, queue, row)

    return row


def _add_policies(row: JSON, queue: Queue) -> None:
    applied = queue.vhost.policies.for_queue(queue.name, queue.type)
    policy = applied.policy
    operator = applied.operator_policy
    row["policy"] = None if policy is None else policy.name
    row["operator_policy"] = None if operator is None else operator.name
    row["effective_policy_definition"] = applied.definition


def _add_sizes(row: JSON, queue: Queue, unacked: UnackedSizes) -> None:
    unacked_bytes = unacked.size
    ready_bytes = int(queue.ready_bytes)
    unacked_count = int(queue.unacked_count)
    ready = int(queue.ready_count)
    cold = sum(len(chunk) for chunk in queue.cold_chunks()) if queue.journal is not None else 0
    in_memory = max(ready - cold, 0)
    share = ready_bytes * in_memory // ready if ready else 0
    in_memory_bytes = share + unacked_bytes
    all_bytes = ready_bytes + unacked_bytes
    lasting = lasting_of(queue, unacked)
    messages_bytes = (in_memory + unacked_count) * MESSAGE_BYTES
    row["memory"] = QUEUE_BYTES + messages_bytes + in_memory_bytes + 8 * cold
    row["message_bytes"] = all_bytes
    row["message_bytes_ready"] = ready_bytes
    row["message_bytes_unacknowledged"] = unacked_bytes
    row["message_bytes_ram"] = in_memory_bytes
    row["message_bytes_persistent"] = lasting.size
    row["messages_ram"] = in_memory + unacked_count
    row["messages_ready_ram"] = in_memory
    row["messages_unacknowledged_ram"] = unacked_count
    row["messages_persistent"] = lasting.messages
    row["messages_paged_out"] = cold
    row["message_bytes_paged_out"] = ready_bytes - share
    row["storage_version"] = 2
    row["head_message_timestamp"] = None


def _add_owner(row: JSON, queue: Queue) -> None:
    owner = queue.exclusive_owner
    if isinstance(owner, Connection):
        row["owner_pid_details"] = {
            "name": owner.name,
            "peer_host": owner.peer.host,
            "peer_port": owner.peer.port,
        }


def _add_replicas(row: JSON, queue: Queue) -> None:
    node = row["node"]
    if isinstance(queue, QuorumQueue | StreamQueue):
        row["leader"] = node
        row["members"] = [node]
        row["online"] = [node]

    if isinstance(queue, QuorumQueue):
        limit = queue.delivery_limit
        row["delivery_limit"] = "unlimited" if limit < 0 else limit
        row["delayed_retry"] = queue.settings.delayed_retry_type or "disabled"
        row["open_files"] = {str(node): 0}
        row["messages_delayed"] = queue.delayed_count
        row["messages_dlx"] = queue.dead_letter_count
        row["message_bytes_dlx"] = queue.dead_letter_bytes
    elif isinstance(queue, StreamQueue):
        row["readers"] = {str(node): len(queue.consumers)}


def _idle_since_ms(site: Site, queue: Queue, row: JSON) -> int | None:
    """Since when nothing has happened in a queue; None where something does."""
    idle_ms = site.sampler.idle_since_ms(queue)
    if idle_ms is None and not row["messages"] and "message_stats" not in row:
        # Younger than the last sample, and nothing has happened yet.
        return int(queue.vhost.deadlines.wall_offset_ms) + queue.last_used_ms

    return idle_ms


def queue_details(site: Site, ranges: Ranges, queue: Queue) -> JSON:
    """All there is to say of one queue."""
    row = queue_row(site, ranges, queue)
    row["head_message_timestamp"] = _head_timestamp(queue)
    if isinstance(queue, StreamQueue):
        row["segments"] = queue.log.segment_count
        first_ms = queue.log.first_ms
        offset_ms = int(queue.vhost.deadlines.wall_offset_ms)
        row["first_timestamp"] = first_ms + offset_ms if first_ms else 0

    row["consumer_details"] = [consumer_row(site, one) for one in queue.consumers]
    row["deliveries"] = []
    row["incoming"] = []
    return row


def _head_timestamp(queue: Queue) -> int | None:
    front: list[Message] = queue.ready.front()
    if not front:
        return None

    stamp = front[0].properties().to_plain().get("timestamp")
    return stamp if isinstance(stamp, int) else None
