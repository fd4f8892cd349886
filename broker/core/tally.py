"""What is left of counts when the thing they were counted on is gone. Core.

Channels, queues and exchanges count what happens to them in plain integers of their own. When one
ends, its counts are added to those of its virtual host, and when that ends, to those of the node:
so totals never fall, and nothing is counted twice while a message is on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["SIZE_BOUNDS", "Churn", "PublishTally", "QueueTally", "SizeTally", "VHostTally"]

SIZE_BOUNDS: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""Upper bounds of the classes of body sizes; RabbitMQ's."""


class SizeTally:
    """Bodies that were published, by size.

    Attributes:
        counts: of each class; the last one is what is larger than all bounds.
        total_bytes: of all bodies.

    """

    __slots__ = ("counts", "total_bytes")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(SIZE_BOUNDS) + 1)
        self.total_bytes: i64 = 0

    def add(self, size: i64, count: i64) -> None:
        """Count bodies of one size."""
        self.total_bytes += size * count
        place = 0
        for bound in SIZE_BOUNDS:
            if size <= bound:
                break

            place += 1

        self.counts[place] += int(count)

    def absorb(self, other: SizeTally) -> None:
        """Add the counts of another one."""
        self.total_bytes += other.total_bytes
        for place, count in enumerate(other.counts):
            self.counts[place] += count


class PublishTally:
    """What channels have published.

    Attributes:
        published: messages taken from publishers.
        to_confirm: those of them that were published in confirm mode.
        confirmed: those of them that were acked to the publisher.
        returned: those that were mandatory and reached no queue.
        dropped: those that reached no queue and were not mandatory.

    """

    __slots__ = ("confirmed", "dropped", "published", "returned", "to_confirm")

    def __init__(self) -> None:
        self.published: i64 = 0
        self.to_confirm: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0

    def absorb(self, other: PublishTally) -> None:
        """Add the counts of another one."""
        self.published += other.published
        self.to_confirm += other.to_confirm
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped


class QueueTally:
    """What queues have taken and given; the names are those of a queue's own counts."""

    __slots__ = (
        "ack_count",
        "deliver_count",
        "deliver_no_ack_count",
        "get_count",
        "get_empty_count",
        "get_no_ack_count",
        "publish_count",
        "redeliver_count",
    )

    def __init__(self) -> None:
        self.publish_count: i64 = 0
        self.deliver_count: i64 = 0
        self.deliver_no_ack_count: i64 = 0
        self.get_count: i64 = 0
        self.get_no_ack_count: i64 = 0
        self.get_empty_count: i64 = 0
        self.ack_count: i64 = 0
        self.redeliver_count: i64 = 0

    def absorb(self, other: QueueTally) -> None:
        """Add the counts of another one."""
        self.publish_count += other.publish_count
        self.deliver_count += other.deliver_count
        self.deliver_no_ack_count += other.deliver_no_ack_count
        self.get_count += other.get_count
        self.get_no_ack_count += other.get_no_ack_count
        self.get_empty_count += other.get_empty_count
        self.ack_count += other.ack_count
        self.redeliver_count += other.redeliver_count


class VHostTally:
    """What has been counted in a virtual host on things that are gone.

    Attributes:
        publishes: of channels that are closed.
        queues: by the type of queue, of queues that are deleted.
        sizes: of bodies published, on channels of now too as far as they have told.
        dead_letters: messages that died, by the type of queue, the reason and the strategy; those
            that were handed on for certain count once more, for the reason ``confirmed``.
        persistent: messages published that were persistent, among those of ``sizes``.
        publish_in: of exchanges that are deleted.
        publish_out: likewise.
        disk_reads: messages read back by a log that is closed.
        disk_writes: messages that such a log has written.
        queues_declared: how often a queue was declared, made or not.
        queues_created: queues that were made.
        queues_deleted: queues that are gone, for whatever reason.

    """

    __slots__ = (
        "dead_letters",
        "disk_reads",
        "disk_writes",
        "persistent",
        "publish_in",
        "publish_out",
        "publishes",
        "queues",
        "queues_created",
        "queues_declared",
        "queues_deleted",
        "sizes",
    )

    def __init__(self) -> None:
        self.publishes = PublishTally()
        self.queues: dict[str, QueueTally] = {}
        self.sizes = SizeTally()
        self.dead_letters: dict[tuple[str, str, str], int] = {}
        self.persistent: i64 = 0
        self.publish_in: i64 = 0
        self.publish_out: i64 = 0
        self.disk_reads: i64 = 0
        self.disk_writes: i64 = 0
        self.queues_declared: i64 = 0
        self.queues_created: i64 = 0
        self.queues_deleted: i64 = 0

    def queues_of(self, queue_type: str) -> QueueTally:
        """The counts of deleted queues of a type."""
        tally = self.queues.get(queue_type)
        if tally is None:
            tally = QueueTally()
            self.queues[queue_type] = tally

        return tally

    def count_death(self, queue_type: str, reason: str, strategy: str) -> None:
        """A message has died in a queue of that type.

        Args:
            queue_type: of the queue.
            reason: of what.
            strategy: ``disabled``, ``at_most_once`` or ``at_least_once``.

        """
        key = (queue_type, reason, strategy)
        self.dead_letters[key] = self.dead_letters.get(key, 0) + 1

    def absorb(self, other: VHostTally) -> None:
        """Add the counts of another one."""
        self.publishes.absorb(other.publishes)
        for queue_type, tally in other.queues.items():
            self.queues_of(queue_type).absorb(tally)

        self.sizes.absorb(other.sizes)
        for key, count in other.dead_letters.items():
            self.dead_letters[key] = self.dead_letters.get(key, 0) + count

        self.persistent += other.persistent
        self.publish_in += other.publish_in
        self.publish_out += other.publish_out
        self.disk_reads += other.disk_reads
        self.disk_writes += other.disk_writes
        self.queues_declared += other.queues_declared
        self.queues_created += other.queues_created
        self.queues_deleted += other.queues_deleted


class Churn:
    """The coming and going of connections and channels of a node.

    Attributes:
        connections_opened: connections that have opened a virtual host.
        connections_closed: those of them that are gone.
        channels_opened: channels that were opened.
        channels_closed: those of them that are gone.
        logins: connections that were let in.
        logins_refused: connections that were not.
        received_bytes: of connections that are gone.
        sent_bytes: of connections that are gone.

    """

    __slots__ = (
        "channels_closed",
        "channels_opened",
        "connections_closed",
        "connections_opened",
        "logins",
        "logins_refused",
        "received_bytes",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.connections_opened: i64 = 0
        self.connections_closed: i64 = 0
        self.channels_opened: i64 = 0
        self.channels_closed: i64 = 0
        self.logins: i64 = 0
        self.logins_refused: i64 = 0
        self.received_bytes: i64 = 0
        self.sent_bytes: i64 = 0
