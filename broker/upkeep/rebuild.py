"""Makes a sound log of what can be read of a damaged one. Layer: rim.

Segments without a fault stay as they are, by a second name where the file system has such. The
messages that are left in others are written again, by the same means that let a broker give space
back. At the end stands a checkpoint, so nothing of the old order has to be replayed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from broker.auth.users import UserStore
from broker.core.recovery import recover_vhost
from broker.errors import StoreError
from broker.store.api import OFFSET_BITS, Segment
from broker.store.committer import Committer
from broker.store.disk import SystemDisk
from broker.store.log import LogOptions, SegmentLog
from broker.store.log_files import checkpoint_name, segment_name
from broker.store.records import (
    CHECKPOINT_MAGIC,
    FLAG_END,
    SALT_BYTES,
    RecordSink,
    batch_header,
    batch_trailer,
    frame_record,
    segment_header,
)
from broker.store.replay import META_KIND
from broker.store.whole_file import sync_file
from broker.upkeep.offline import fail, new_node, settle, unheard
from broker.upkeep.readable import Readable
from broker.upkeep.salvage import Salvage

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.store.disk import Disk
    from broker.store.view import LogView

__all__ = ["Rebuilt", "link_or_copy", "rebuild_log"]


class Rebuilt(NamedTuple):
    """What has become of a log."""

    messages: int
    """That are there now."""

    lost: dict[str, int]
    """How many messages are known to be lost, by the names of their queues."""

    declared_anew: list[str]
    """Queues whose declarations were lost, as plain as can be."""

    has_old_state: bool
    """There was no whole checkpoint: messages that were settled long ago may be back."""


class _NoSink(RecordSink):
    """Takes records that have been read already."""

    __slots__ = ()

    def take(self, buffer: bytes, start: i64, end: i64, position: i64) -> None:
        pass


class _SalvageLog(SegmentLog):
    """The log that is made, with what is left of the old one behind it."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        committer: Committer,
        options: LogOptions,
        salvage: Salvage,
    ) -> None:
        super().__init__(disk, directory, committer, options, unheard)
        self._readable = salvage.readable
        self._salvage = salvage
        self.damaged = set(self._readable.segments) - self._readable.sound

    def replay(self, sink: RecordSink) -> None:
        super().replay(_NoSink())
        for number in self.damaged:
            segment = Segment(number)
            segment.size = self._readable.segments[number].size
            self.segments[number] = segment

        self._salvage.replay(sink)

    def read_at(self, position: i64, size: i64) -> bytes:
        number = int(position) >> OFFSET_BITS
        if number not in self.damaged:
            return super().read_at(position, size)

        return self._readable.read_at(int(position), int(size))


def rebuild_log(log: LogView, name: str, path: str) -> Rebuilt:
    """Write a sound log beside a damaged one.

    Args:
        log: the damaged one.
        name: of the virtual host.
        path: of a directory that is there, with the file ``name`` in it.

    Raises:
        StoreError: it cannot be read or written.
        OSError: the same.

    """
    readable = Readable(log)
    salvage = Salvage(readable)
    for number in sorted(readable.sound):
        source = os.path.join(log.path, segment_name(number))
        link_or_copy(source, path, may_change=number == log.last)

    _write_empty_checkpoint(path, readable.last + 1, readable.next_batch)
    committer = Committer(_nobody)
    node = new_node(UserStore(), unheard)
    vhost = node.add_vhost(name, number=log.number)
    disk = SystemDisk()
    options = LogOptions(os.urandom)
    made = _SalvageLog(disk, path, committer, options, salvage)
    try:
        journal = recover_vhost(vhost, made, fail)
        settle(node, committer)
        while journal.books.move_out(made.damaged):
            settle(node, committer)

        made.remove_segments([one for one in made.damaged if one in made.segments])
        journal.books.write_checkpoint()
        settle(node, committer)
        if journal.is_stalled:
            raise StoreError(f"no space is left for {path}")

        made.close()
    finally:
        made.abandon()

    queues = vhost.queues.values()
    return Rebuilt(
        messages=sum(int(queue.ready_count) for queue in queues),
        lost=dict(salvage.lost),
        declared_anew=salvage.declared_anew,
        has_old_state=not readable.has_sound_checkpoint and readable.first_due > 1,
    )


def _nobody() -> None:
    """The committer works when it is called."""


def _write_empty_checkpoint(path: str, number: int, next_batch: int) -> None:
    """Let the log go on behind all segments that there were; the state comes from elsewhere."""
    salt = os.urandom(SALT_BYTES)
    record = frame_record(bytes((META_KIND,)) + next_batch.to_bytes(8, "little"))
    pieces = [
        segment_header(CHECKPOINT_MAGIC, number, salt),
        batch_header(salt, 0, len(record), FLAG_END),
        record,
        batch_trailer(salt, 0),
    ]
    with open(os.path.join(path, checkpoint_name(number)), "wb") as file:
        file.write(b"".join(pieces))
        file.flush()
        sync_file(file.fileno())


def link_or_copy(source: str, directory: str, *, may_change: bool) -> None:
    """Give a file a second name, or copy it where it may be changed or cannot have one.

    Raises:
        OSError: neither can be done.

    """
    target = os.path.join(directory, os.path.basename(source))
    if not may_change:
        # Else it is another file system, or one without such links.
        with contextlib.suppress(OSError):
            os.link(source, target)
            return

    shutil.copy2(source, target)
    descriptor = os.open(target, os.O_RDWR)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
