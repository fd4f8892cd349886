"""Reads along with one direction of a connection, without touching it. Layer: testing.

Invariant: whatever the cuts between the pieces that are fed, the same frames are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FRAME_BODY", "FRAME_HEADER", "FRAME_METHOD", "Frame", "FrameReader", "frame"]

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
HEAD_BYTES: Final = 7
PROTOCOL_HEADER_BYTES: Final = 8
PROTOCOL_NAME: Final = b"AMQP"


class Frame(NamedTuple):
    """One whole frame.

    Attributes:
        start: where it begins in the piece that was fed last; negative when it began before that.
        end: where it ends there.

    """

    type: int
    channel: int
    payload: bytes
    start: int
    end: int

    @property
    def method(self) -> int:
        """The index of the method; 0 for another kind of frame."""
        return int.from_bytes(self.payload[:4], "big") if self.type == FRAME_METHOD else 0


class FrameReader:
    """Finds the frames in a stream, which may begin with a protocol header."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing but whole frames has come."""
        return not self._rest

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that end in this piece."""
        shift = len(self._rest)
        stream = self._rest + data
        position = 0
        if stream.startswith(PROTOCOL_NAME) and len(stream) >= PROTOCOL_HEADER_BYTES:
            position = PROTOCOL_HEADER_BYTES

        frames: list[Frame] = []
        while len(stream) - position >= HEAD_BYTES and not stream.startswith(
            PROTOCOL_NAME, position
        ):
            size = int.from_bytes(stream[position + 3 : position + 7], "big")
            end = position + HEAD_BYTES + size + 1
            if end > len(stream):
                break

            channel = int.from_bytes(stream[position + 1 : position + 3], "big")
            payload = stream[position + HEAD_BYTES : end - 1]
            frames.append(Frame(stream[position], channel, payload, position - shift, end - shift))
            position = end

        self._rest = stream[position:]
        return iter(frames)


def frame(channel: int, payload: bytes) -> bytes:
    """A method frame."""
    head = b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + b"\xce"
