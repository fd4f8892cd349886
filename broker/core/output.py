"""What waits to be written to one connection.

The core appends pieces of bytes; once a read cycle they are joined and handed to the rim in one
write. A connection whose turn is full, or whose socket does not take more, is not eligible for
deliveries: its consumers are parked here and woken when there is room again (design §5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.core.consumer import Consumer

__all__ = ["OUTPUT_BACKLOG_BYTES_MAX", "OUTPUT_TURN_BYTES_MAX", "Output", "OutputSet"]

OUTPUT_TURN_BYTES_MAX: Final = 262_144
"""Bytes of deliveries for one connection in one turn of the loop; the rest waits for the next.

A join of more than this costs more in memory traffic than the saved system calls bring, and other
connections get their turn between two.
"""


OUTPUT_BACKLOG_BYTES_MAX: Final = 16_777_216
"""Bytes of answers and returns that wait for a client before its input is left unread.

Deliveries stop far earlier. RabbitMQ goes on reading without a bound; a much lower one than this
would make a client wait for us that writes everything before it reads anything.
"""


class OutputSet:
    """The outputs that have something to write, and those with consumers waiting for room."""

    __slots__ = ("dirty", "flooded", "is_flooded", "starved")

    def __init__(self) -> None:
        self.dirty: list[Output] = []
        self.starved: list[Output] = []
        # More waits for the disk than should: nothing is read, and who is not read from waits.
        self.is_flooded = False
        self.flooded: list[Output] = []

    def flood(self, is_flooded: bool) -> None:
        """The disk does not keep up with what comes in, or does so again."""
        self.is_flooded = is_flooded
        if not is_flooded and self.flooded:
            self.starved.extend(self.flooded)
            self.flooded = []

    def flush(self) -> None:
        """Write out every dirty output. Afterwards the starved ones may be resumed."""
        while self.dirty:
            dirty = self.dirty
            self.dirty = []
            for output in dirty:
                output.flush()

    def resume(self) -> None:
        """Let the consumers that waited for room have deliveries again."""
        starved = self.starved
        self.starved = []
        for output in starved:
            output.wake_parked()


class Output:
    """The output buffer of one connection.

    Args:
        outputs: the node's set, in which this one enters itself when it becomes dirty.
        write: takes the joined bytes; must not call back into the core.
        on_room: called in the next turn after a stall when there is room again.

    """

    __slots__ = (
        "backlog_bytes",
        "copies",
        "frame_payload_max",
        "has_room",
        "is_dirty",
        "is_gated",
        "is_stalled",
        "on_room",
        "outputs",
        "parked",
        "pieces",
        "size_bytes",
        "total_bytes",
        "write",
    )

    def __init__(
        self,
        outputs: OutputSet,
        write: Callable[[bytes], None],
        on_room: Callable[[], None] | None = None,
    ) -> None:
        self.outputs = outputs
        self.write = write
        self.on_room = on_room
        # What was written while the socket took no more, and whether that stopped the input.
        self.backlog_bytes: i64 = 0
        self.is_stalled = False
        # Queues that wide publishes have reached since it was the others' turn.
        self.copies: i64 = 0
        self.pieces: list[bytes] = []
        self.size_bytes: i64 = 0
        self.total_bytes: i64 = 0
        self.frame_payload_max: i64 = 0
        self.has_room = True
        # What is to be said waits until the log is safe, and so does what is to be read.
        self.is_gated = False
        self.is_dirty = False
        self.parked: dict[Consumer, None] = {}

    def send(self, data: bytes) -> None:
        """Append one whole frame, or several."""
        self.pieces.append(data)
        self.size_bytes += len(data)
        if not self.is_dirty:
            self.mark_dirty()

    def send_method(self, channel: bytes, payload: bytes) -> None:
        """Append a method frame: ``channel`` is the number as two bytes."""
        size: i64 = len(payload)
        self.send(b"\x01" + channel + int(size).to_bytes(4, "big") + payload + b"\xce")

    def mark_dirty(self) -> None:
        """Enter the set of outputs to be flushed at the end of the cycle."""
        self.is_dirty = True
        self.outputs.dirty.append(self)

    def flush(self) -> None:
        """Join the pieces and write them once, unless they have to wait."""
        self.is_dirty = False
        pieces = self.pieces
        if not pieces or self.is_gated:
            return

        self.pieces = []
        size: i64 = self.size_bytes
        self.total_bytes += size
        self.size_bytes = 0
        self.write(b"".join(pieces))
        if not self.has_room:
            self.backlog_bytes += size
        elif self.parked or self.is_stalled:
            self.outputs.starved.append(self)

    def is_over_backlog(self) -> bool:
        """Whether nothing that asks for more should be read now: more than enough waits already.

        The same holds while the disk does not keep up, or an answer waits for it.

        """
        if self.is_gated or self.outputs.is_flooded:
            return True

        return self.size_bytes + self.backlog_bytes >= OUTPUT_BACKLOG_BYTES_MAX

    def stall(self) -> None:
        """Nothing more is read, until there is room again: `on_room` is called then."""
        self.is_stalled = True
        outputs = self.outputs
        if outputs.is_flooded:
            outputs.flooded.append(self)

    def give_way(self) -> None:
        """Nothing more is read until the others have had their turn."""
        self.is_stalled = True
        self.outputs.starved.append(self)

    def open_gate(self) -> None:
        """The log is safe: say what had to wait."""
        self.is_gated = False
        if not self.is_dirty:
            self.mark_dirty()

        if not self.pieces and self.is_stalled and self.has_room:
            self.outputs.starved.append(self)

    def pause(self) -> None:
        """The socket takes no more: stop delivering."""
        self.has_room = False

    def resume(self) -> None:
        """The socket takes more again: the parked consumers are served in the next turn."""
        self.has_room = True
        self.backlog_bytes = 0
        if self.parked or self.is_stalled:
            self.outputs.starved.append(self)

    def wake_parked(self) -> None:
        """Put the parked consumers back into their queues' rotation and serve them.

        Those whose turn did not come before the output was full again are first the next time.

        """
        if not self.has_room:
            return

        on_room = self.on_room
        if self.is_stalled and on_room is not None:
            self.is_stalled = False
            on_room()

        parked = self.parked
        self.parked = {}
        for consumer in parked:
            consumer.unpark()

        served: dict[Consumer, None] = {}
        is_full = False
        for consumer in parked:
            if not is_full and self.size_bytes >= OUTPUT_TURN_BYTES_MAX:
                is_full = True
                served = self.parked
                self.parked = {}

            consumer.queue.pump()

        self.parked.update(served)

    def discard(self) -> None:
        """The connection is gone: nothing is written any more, nobody is woken."""
        self.pieces = []
        self.size_bytes = 0
        self.has_room = False
        self.is_stalled = False
        self.on_room = None
        self.parked = {}
