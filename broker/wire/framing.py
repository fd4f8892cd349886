"""Frames out of a stream of bytes: an offset moves over a read, the tail is kept for the next.

The decoder holds the bytes; whoever drives it may take more than one frame in a go from ``buffer``
and move ``position`` on (a publish with its content, handled whole). A frame that has not arrived
completely is not copied again with every read: the chunks are kept and joined once it has, and what
was read behind it is not copied at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.limits import MESSAGE_BYTES_MAX_HARD
from broker.wire.constants import FRAME_END

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["FRAME_OVERHEAD", "FrameDecoder", "FrameFault"]

FRAME_OVERHEAD: Final = 8
"""Type, channel, size and end octet (AMQP 0-9-1 §4.2.3)."""

FRAME_HEADER: Final = 7
SHOWN_BYTES: Final = 16


class FrameFault(Exception):
    """A frame that is no frame; whoever knows the connection's state says what follows of it.

    Attributes:
        frame_type: its type octet.
        payload: as much of the payload as an error text may show, up to 17 bytes.
        size: the payload size it announced.
        end_octet: what stood in place of the end octet; -1 when the size is the fault.

    """

    def __init__(self, frame_type: int, payload: bytes, size: int, end_octet: int) -> None:
        super().__init__(f"type {frame_type}, size {size}, end octet {end_octet}")
        self.frame_type = frame_type
        self.payload = payload
        self.size = size
        self.end_octet = end_octet


class FrameDecoder:
    """Finds the frames in what is fed to it.

    Attributes:
        buffer: bytes not yet taken, from ``position`` to ``end``.
        frame_start: where the current frame begins; it is the one ``next_frame`` found.
        frame_type: its type octet.
        channel_id: its channel number.
        payload_start: where its payload begins.
        payload_end: where its payload ends and the end octet stands.
        payload_max: bytes of payload beyond which a frame is refused.

    """

    __slots__ = (
        "_chunks",
        "_missing",
        "_rest",
        "_rest_start",
        "buffer",
        "channel_id",
        "end",
        "frame_start",
        "frame_type",
        "payload_end",
        "payload_max",
        "payload_start",
        "position",
    )

    def __init__(self, frame_bytes_max: i64) -> None:
        self.buffer = b""
        self.position: i64 = 0
        self.end: i64 = 0
        self.frame_start: i64 = 0
        self.frame_type: i64 = 0
        self.channel_id: i64 = 0
        self.payload_start: i64 = 0
        self.payload_end: i64 = 0
        self.payload_max: i64 = 0
        self._chunks: list[bytes] = []
        self._missing: i64 = 0
        self._rest = b""
        self._rest_start: i64 = 0
        self.limit_frames(frame_bytes_max)

    def limit_frames(self, frame_bytes_max: i64) -> None:
        """Refuse larger payloads than this from now on; 0 leaves only the hard bound.

        RabbitMQ: a payload may be as large as frame_max itself, eight bytes more than it should
        (rule F-02).

        """
        self.payload_max = frame_bytes_max if frame_bytes_max else MESSAGE_BYTES_MAX_HARD

    def feed(self, data: bytes) -> None:
        """Add what was read. Afterwards you must call `next_frame` until it is False."""
        if self._rest:
            self._take_rest()

        missing: i64 = self._missing
        if missing > 0:
            if len(data) < missing:
                self._chunks.append(data)
                self._missing = missing - len(data)
                return

            # What was waited for is put together alone; the rest stays where it was read.
            if len(data) > missing:
                self._rest = data
                self._rest_start = missing
                self._chunks.append(data[:missing])
            else:
                self._chunks.append(data)

            data = b"".join(self._chunks)
            self._chunks = []
            self._missing = 0
        elif self.position < self.end:
            data = self.buffer[self.position : self.end] + data

        self.buffer = data
        self.position = 0
        self.end = len(data)

    def _take_rest(self) -> bool:
        """Go on to what was read behind the bytes that had been waited for."""
        rest = self._rest
        if not rest:
            return False

        self._rest = b""
        if self.position < self.end:
            rest = self.buffer[self.position : self.end] + rest[self._rest_start :]
            self.position = 0
        else:
            self.position = self._rest_start

        self.buffer = rest
        self.end = len(rest)
        return True

    def wait_for(self, start: i64, size: i64) -> None:
        """Keep what begins at ``start`` back until ``size`` bytes of it are there."""
        if self._rest:
            # There is more than was looked at: look again.
            self.position = start
            self._take_rest()
            return

        missing: i64 = size - (self.end - start)
        self._chunks.append(self.buffer[start : self.end])
        self._missing = missing
        self.buffer = b""
        self.position = 0
        self.end = 0

    def next_frame(self) -> bool:
        """Find the next whole frame and move behind it; False when there is none yet.

        Raises:
            FrameFault: it is too large (rule F-02) or does not end where it should (rule F-04).

        """
        buffer = self.buffer
        start: i64 = self.position
        available: i64 = self.end - start
        if available < FRAME_HEADER:
            if not self._take_rest():
                # What was read may be large, and the next read may be long in coming.
                self.buffer = buffer[start : self.end]
                self.position = 0
                self.end = available
                return False

            return self.next_frame()

        size: i64 = (
            (buffer[start + 3] << 24)
            | (buffer[start + 4] << 16)
            | (buffer[start + 5] << 8)
            | buffer[start + 6]
        )
        if size > self.payload_max:
            raise FrameFault(buffer[start], b"", int(size), -1)

        payload_end: i64 = start + FRAME_HEADER + size
        if payload_end >= self.end:
            if self._take_rest():
                return self.next_frame()

            self.wait_for(start, FRAME_OVERHEAD + size)
            return False

        self.frame_start = start
        self.frame_type = buffer[start]
        self.channel_id = (buffer[start + 1] << 8) | buffer[start + 2]
        self.payload_start = start + FRAME_HEADER
        self.payload_end = payload_end
        self.position = payload_end + 1
        if buffer[payload_end] != FRAME_END:
            raise FrameFault(
                int(self.frame_type), self.shown_payload(), int(size), buffer[payload_end]
            )

        return True

    def payload(self) -> bytes:
        """The payload of the current frame."""
        return self.buffer[self.payload_start : self.payload_end]

    def frame(self) -> bytes:
        """The current frame as it came, with header and end octet."""
        return self.buffer[self.frame_start : self.payload_end + 1]

    def shown_payload(self) -> bytes:
        """As much of the current payload as an error text shows, and one byte (rule F-05)."""
        return self.buffer[self.payload_start : min(self.payload_end, self.payload_start + 17)]

    def clear(self) -> None:
        """Forget everything that has not been taken."""
        self.buffer = b""
        self.position = 0
        self.end = 0
        self._chunks = []
        self._missing = 0
        self._rest = b""
