"""The seam between the broker's model and whatever keeps its log. Pure; core imports this only.

A log takes batches of records and says when they are safe. A position names a record for ever:
the segment's number in the upper 32 bits, the offset in it in the lower. Nothing here waits: what
was handed over is written elsewhere, and the log says when that is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from broker.limits import MOVED_BYTES_MAX, PENDING_BYTES_MAX

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.store.records import RecordSink

__all__ = ["OFFSET_BITS", "Log", "LogOwner", "Segment"]

OFFSET_BITS: Final = 32
"""The lower bits of a position: the offset in its segment."""


class Segment:
    """One file of a log, as the broker keeps account of it.

    Attributes:
        number: of the file.
        size: bytes written, or handed over to be written.
        live: messages in it that are still of use, once for each queue that has them.
        total: messages that were ever in it, counted likewise.
        dense_at: how many were live when it was last found not worth copying; -1 is never.

    """

    __slots__ = ("dense_at", "live", "number", "size", "total")

    def __init__(self, number: i64) -> None:
        self.number = number
        self.size: i64 = 0
        self.live: i64 = 0
        self.total: i64 = 0
        self.dense_at: i64 = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class LogOwner(ABC):
    """Who is told how the log fares."""

    __slots__ = ()

    @abstractmethod
    def batch_safe(self) -> None:
        """The batch handed over last is as safe as it was asked to be; the log takes the next."""

    @abstractmethod
    def log_stalled(self, reason: str) -> None:
        """Nothing can be written for lack of space; it is tried again until it can."""

    @abstractmethod
    def log_resumed(self) -> None:
        """What was stalled is written."""

    @abstractmethod
    def log_short(self, is_short: bool) -> None:
        """What was kept back for the day without space is in use, or is there again."""

    @abstractmethod
    def log_failed(self, reason: str) -> None:
        """The disk has failed: nothing written from now on can be trusted. Stop."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Log(ABC):
    """The log of one virtual host.

    Attributes:
        segments: by number, those that are there.
        checkpoint_number: the first segment that recovery has to read.
        is_writing: a batch is on its way; the next must wait.
        pending_bytes_max: bodies that may gather meanwhile, before nobody is read from.

    """

    __slots__ = ("checkpoint_number", "is_writing", "pending_bytes_max", "segments")

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}
        self.checkpoint_number: i64 = 0
        self.is_writing = False
        self.pending_bytes_max: i64 = PENDING_BYTES_MAX

    @abstractmethod
    def replay(self, sink: RecordSink) -> None:
        """Hand over the state that was kept: the last checkpoint's records, then all since.

        Raises:
            StoreError: something that was safe is damaged; the text names file and offset.

        """

    @abstractmethod
    def start(self, owner: LogOwner) -> None:
        """Take batches from now on, in a segment of their own."""

    @abstractmethod
    def begin_batch(self) -> i64:
        """The position that the first record of the next batch will have."""

    @abstractmethod
    def commit_batch(self, pieces: list[bytes], size: i64) -> None:
        """Hand over a batch; `LogOwner.batch_safe` tells when it is safe.

        Args:
            pieces: its framed records, in order.
            size: bytes of all of them.

        """

    @abstractmethod
    def read_at(self, position: i64, size: i64) -> bytes:
        """Read bytes that were written, from a record on; fewer where the segment ends.

        Raises:
            StoreError: they cannot be read.

        """

    @abstractmethod
    def place_of(self, position: i64) -> str:
        """File and offset of a position, for people."""

    @abstractmethod
    def retry(self) -> None:
        """Try again to write what could not be written for lack of space."""

    @abstractmethod
    def regain(self) -> None:
        """Try to keep space back again; `LogOwner.log_short` tells when that is done."""

    @abstractmethod
    def sync_soon(self) -> None:
        """Have the disk catch up, where batches are not synced one by one."""

    @property
    def spare_bytes(self) -> i64:
        """What may be written to tidy up, and leaves enough for what empties a full disk."""
        return MOVED_BYTES_MAX

    @property
    @abstractmethod
    def is_checkpointing(self) -> bool:
        """Whether a checkpoint is being written: the next must wait."""

    @abstractmethod
    def write_checkpoint(self, records: list[list[bytes]]) -> None:
        """Keep a state: what `replay` hands over first, next time. The log goes on meanwhile.

        Call it when nothing waits to be committed. The next batch begins a new segment.

        Args:
            records: bodies of the records that tell all, each in pieces that nobody changes any
                more. The list is the log's from now on. When they are safe, `checkpoint_number`
                moves.

        """

    @abstractmethod
    def remove_segments(self, numbers: list[int]) -> None:
        """Forget segments in which nothing is of use any more; all before the checkpoint."""

    @abstractmethod
    def close(self) -> None:
        """Write what was handed over, and let go of the files."""
