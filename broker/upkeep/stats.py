"""What takes space in a data directory, and whose it is. Layer: rim.

As of the last batch that is whole, and without a change: see check. What has expired is not there,
what a broker has handed out and had no answer to is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.errors import StoreError
from broker.store.log_files import checkpoint_name, segment_name
from broker.store.records import RECORD_HEADER_BYTES, u32_at
from broker.store.view import open_view
from broker.upkeep.messages import (
    held_count,
    held_messages,
    message_bytes,
    message_count,
    positions_in,
)
from broker.upkeep.offline import look_into

if TYPE_CHECKING:
    from broker.core.vhost import VirtualHost
    from broker.store.view import LogView

__all__ = ["DirectoryStats", "LogStats", "QueueStats", "SegmentStats", "directory_stats"]


class SegmentStats(NamedTuple):
    """One segment."""

    number: int
    bytes: int
    live_messages: int
    """Once for each queue that has them."""

    total_messages: int
    live_bytes: int
    """Of the records of those; a record that several queues share is counted once."""


class QueueStats(NamedTuple):
    """One queue, or exchange that delays messages."""

    name: str
    type: str
    messages: int
    bytes: int
    """Of the bodies."""


class LogStats(NamedTuple):
    """One virtual host."""

    vhost: str
    number: int
    bytes: int
    live_bytes: int
    checkpoint: int | None
    checkpoint_bytes: int
    checkpoint_age_s: float | None
    segments: list[SegmentStats]
    queues: list[QueueStats]

    @property
    def dead_share(self) -> float:
        """How much of the segments is of no use any more, from 0 to 1."""
        size = sum(one.bytes for one in self.segments)
        return 1 - self.live_bytes / size if size else 0.0


class DirectoryStats(NamedTuple):
    """A data directory."""

    path: str
    used_by: str
    logs: list[LogStats]


def directory_stats(path: str, now_s: float) -> DirectoryStats:
    """Count what is in a data directory.

    Args:
        path: of the directory.
        now_s: seconds since 1970.

    Raises:
        StoreError: it is none, or damaged.

    """
    with open_view(path) as view:
        if view.format is None:
            raise StoreError(f"{view.path} is no data directory of Leveret")

        logs = [_log_stats(log, now_s) for log in view.logs]
        return DirectoryStats(view.path, view.holder, logs)


def _log_stats(log: LogView, now_s: float) -> LogStats:
    vhost = look_into(log, log.name or "")
    journal = vhost.journal
    assert journal is not None
    live_bytes = _live_bytes(log, vhost)
    there = set(log.segments)
    segments = [
        SegmentStats(
            number=number,
            bytes=log.size(segment_name(number)),
            live_messages=int(segment.live),
            total_messages=int(segment.total),
            live_bytes=live_bytes.get(number, 0),
        )
        for number, segment in sorted(journal.log.segments.items())
        if number in there
    ]
    checkpoint = log.checkpoints[-1] if log.checkpoints else None
    checkpoint_bytes = 0
    age_s: float | None = None
    if checkpoint is not None:
        name = checkpoint_name(checkpoint)
        checkpoint_bytes = log.size(name)
        age_s = max(0.0, now_s - log.written_s(name))

    return LogStats(
        vhost=vhost.name,
        number=log.number,
        bytes=sum(one.bytes for one in segments) + checkpoint_bytes,
        live_bytes=sum(live_bytes.values()),
        checkpoint=checkpoint,
        checkpoint_bytes=checkpoint_bytes,
        checkpoint_age_s=age_s,
        segments=segments,
        queues=_queues(vhost),
    )


def _live_bytes(log: LogView, vhost: VirtualHost) -> dict[int, int]:
    """How many bytes of each segment are records of messages that are there."""
    sizes: dict[int, int] = {}
    for number, offsets in positions_in(vhost).items():
        buffer = log.read(segment_name(number))
        sizes[number] = sum(
            RECORD_HEADER_BYTES + int(u32_at(buffer, offset)) for offset in set(offsets)
        )

    return sizes


def _queues(vhost: VirtualHost) -> list[QueueStats]:
    found = [
        QueueStats(one.name, one.type, message_count(one), message_bytes(one))
        for one in vhost.queues.values()
    ]
    for exchange in vhost.exchanges.values():
        count = held_count(exchange)
        if count:
            size = sum(int(one.body_size) for one in held_messages(exchange))
            found.append(QueueStats(exchange.name, exchange.type, count, size))

    return sorted(found)
