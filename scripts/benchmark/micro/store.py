"""Micro-benchmarks of the log: records out of messages, and messages out of records."""

from __future__ import annotations

import os
from typing import Final

from broker.core.recovery import recover_vhost
from broker.store.api import OFFSET_BITS, Log, LogOwner, Segment
from broker.store.records import (
    BATCH_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    TRAILER_BYTES,
    RecordSink,
    batch_header,
    frame_record,
    scan_batches,
)
from scripts.benchmark.frames import publish
from scripts.benchmark.micro.knob import Act, Micro
from scripts.benchmark.micro.stage import Caller, Stage

__all__ = ["MICROS"]

SALT: Final = b"saltsalt"
FRAME_BYTES_MAX: Final = 131_072
BATCH_MESSAGES: Final = 100


class _Paper(Log):
    """A log in memory, at once safe; it keeps one segment, which can be replayed."""

    def __init__(self, segment: bytes = b"") -> None:
        super().__init__()
        self.batches: list[bytes] = []
        self._size = SEGMENT_HEADER_BYTES
        self._replayed = segment
        self._owner: LogOwner | None = None
        if segment:
            self.segments[1] = Segment(1)
            self.segments[1].size = len(segment)

    def replay(self, sink: RecordSink) -> None:
        if self._replayed:
            scan_batches(self._replayed, SALT, 1 << OFFSET_BITS, -1, sink)

    def start(self, owner: LogOwner) -> None:
        self._owner = owner
        self.segments.setdefault(2 if self._replayed else 1, Segment(2 if self._replayed else 1))

    def begin_batch(self) -> int:
        number = 2 if self._replayed else 1
        return (number << OFFSET_BITS) + self._size + BATCH_HEADER_BYTES

    def commit_batch(self, pieces: list[bytes], size: int) -> None:
        records = b"".join(pieces)
        header = batch_header(SALT, len(self.batches), len(records), 0)
        self.batches.append(header + records + bytes(TRAILER_BYTES))
        self._size += len(self.batches[-1])
        assert self._owner is not None
        self._owner.batch_safe()

    def segment(self) -> bytes:
        """All batches, as they lie in a file."""
        return bytes(SEGMENT_HEADER_BYTES) + b"".join(self.batches)

    def read_at(self, position: int, size: int) -> bytes:
        offset = position & ((1 << OFFSET_BITS) - 1)
        return (self._replayed or self.segment())[offset : offset + size]

    def place_of(self, position: int) -> str:
        return f"paper at {position}"

    def retry(self) -> None:
        """Paper is never full."""

    def regain(self) -> None:
        """Paper keeps no space back."""

    def sync_soon(self) -> None:
        """Paper is never late."""

    @property
    def is_checkpointing(self) -> bool:
        return False

    def write_checkpoint(self, records: list[list[bytes]]) -> None:
        """Paper keeps all."""

    def remove_segments(self, numbers: list[int]) -> None:
        """Paper keeps all."""

    def close(self) -> None:
        """There is nothing to close."""


def _fail(reason: str) -> None:
    raise AssertionError(reason)


def _durable_stage() -> tuple[Stage, _Paper]:
    stage, log = Stage(), _Paper()
    recover_vhost(stage.vhost, log, _fail)
    stage.declare("q", durable=True)
    stage.settle()
    return stage, log


def _frame_record(body_bytes: int, operations: int) -> Act:
    body = os.urandom(body_bytes)

    def act() -> int:
        for _ in range(operations):
            frame_record(body)

        return operations

    return act


def _enqueue(body_bytes: int, operations: int) -> Act:
    """Persistent publishes, a hundred in a batch of the log."""
    stage, _ = _durable_stage()
    caller = Caller(stage)
    message = publish(
        "", "q", bytes(body_bytes), is_persistent=True, frame_bytes_max=FRAME_BYTES_MAX
    )
    reads = [message * BATCH_MESSAGES] * max(1, operations // BATCH_MESSAGES)

    def act() -> int:
        for read in reads:
            caller.send(read)

        return len(reads) * BATCH_MESSAGES

    return act


def _recover(body_bytes: int, operations: int) -> Act:
    """A virtual host out of a log of so many messages."""
    stage, log = _durable_stage()
    caller = Caller(stage)
    message = publish(
        "", "q", bytes(body_bytes), is_persistent=True, frame_bytes_max=FRAME_BYTES_MAX
    )
    batches = max(1, operations // BATCH_MESSAGES)
    for _ in range(batches):
        caller.send(message * BATCH_MESSAGES)

    segment = log.segment()

    def act() -> int:
        fresh = Stage()
        recover_vhost(fresh.vhost, _Paper(segment), _fail)
        queue = fresh.vhost.queues["q"]
        assert queue.ready_count == batches * BATCH_MESSAGES
        return batches * BATCH_MESSAGES

    return act


_BODIES: Final = (100, 1_024, 16_384)

MICROS: Final = (
    Micro("frame-record", "body bytes", _BODIES, 20_000, _frame_record),
    Micro("enqueue-persistent", "body bytes", _BODIES, 2_000, _enqueue),
    Micro("recover-message", "body bytes", _BODIES, 2_000, _recover),
)
