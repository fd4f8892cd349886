"""A content that arrives frame by frame (rules F-11..F-17): the plain twin of the publish run.

``ContentAssembly`` takes the frames that follow a method with content until the message is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import build_content
from broker.errors import FrameError, ResourceFault, UnexpectedFrame
from broker.limits import FRAME_BYTES_MAX_DEFAULT, MESSAGE_BYTES_MAX_HARD
from broker.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEADER
from broker.wire.framing import FRAME_OVERHEAD, FrameDecoder
from broker.wire.hot import long_long_at

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["ContentAssembly", "UnfinishedContents"]

PARTS_MAX: Final = 128
"""Body frames kept as they came; of a message in more of them only the bytes are kept, so that
tiny frames cost their bytes and not their number."""

PROPERTIES_OFFSET: Final = 12


class UnfinishedContents:
    """What has come of the contents of one connection, on whatever channels, that are not whole.

    Args:
        bytes_max: for all of them together.
        body_bytes_max: a longer body will be refused (rule P-02): it is counted but not kept.

    Attributes:
        count: contents.
        size_bytes: of their header frames and bodies.

    """

    __slots__ = ("body_bytes_max", "bytes_max", "count", "size_bytes")

    def __init__(self, bytes_max: i64, body_bytes_max: i64) -> None:
        self.bytes_max: i64 = bytes_max
        self.body_bytes_max: i64 = body_bytes_max
        self.count: i64 = 0
        self.size_bytes: i64 = 0


class ContentAssembly:
    """The content of one method, from its header frame to its last body frame.

    Args:
        method_index: the method it belongs to.
        method_payload: that method frame's payload.
        unfinished: the connection's; you must call `abandon` on a content that will not be whole.

    Attributes:
        method_index: the method it belongs to.
        method_payload: that method frame's payload.
        properties: flags and values out of the header, when that has come.
        body_size: bytes, as the header announced them.
        content: header frame and body frames, when the message is whole.

    """

    __slots__ = (
        "_body",
        "_expects_header",
        "_header_frame",
        "_kept_bytes",
        "_missing",
        "_parts",
        "_unfinished",
        "body_size",
        "content",
        "method_index",
        "method_payload",
        "properties",
    )

    def __init__(
        self, method_index: int, method_payload: bytes, unfinished: UnfinishedContents
    ) -> None:
        self.method_index = method_index
        self.method_payload = method_payload
        self.properties = b""
        self.body_size: i64 = 0
        self.content = b""
        self._expects_header = True
        self._header_frame = b""
        self._missing: i64 = 0
        self._parts: list[bytes] = []
        self._body: bytearray | None = None
        self._unfinished = unfinished
        self._kept_bytes: i64 = 0

    def take(self, decoder: FrameDecoder) -> bool:
        """Take the current frame; True when the message is whole.

        Raises:
            UnexpectedFrame: it is not what had to come (rules F-11, F-12, F-13).
            FrameError: more body than announced (rule F-14), or a body too large (rule F-15).
            ResourceFault: the connection has too much content that is not whole.

        """
        if self._expects_header:
            self._take_header(decoder)
            if self._missing:
                self._unfinished.count += 1
                self._keep(len(self._header_frame))
                return False

            self.content = self._header_frame
            return True

        self._take_body(decoder)
        if self._missing:
            return False

        self.content = self._whole()
        self.abandon()
        return True

    def abandon(self) -> None:
        """It is whole, or the channel has ended: it counts no longer as unfinished."""
        if self._kept_bytes:
            self._unfinished.count -= 1
            self._unfinished.size_bytes -= self._kept_bytes
            self._kept_bytes = 0

    def _keep(self, size: i64) -> None:
        """Count what is kept.

        Raises:
            ResourceFault: it is too much, all channels of the connection together.

        """
        unfinished = self._unfinished
        self._kept_bytes += size
        unfinished.size_bytes += size
        if unfinished.size_bytes > unfinished.bytes_max:
            raise ResourceFault(
                f"unfinished content of {unfinished.count} channels is larger than the limit of "
                f"{unfinished.bytes_max} bytes for one connection",
                class_id=self.method_index >> 16,
                method_id=self.method_index & 0xFFFF,
            )

    def _take_header(self, decoder: FrameDecoder) -> None:
        if decoder.frame_type != FRAME_HEADER:
            raise self._unexpected(
                "expected content header for class 60, got non content header frame instead"
            )

        payload = decoder.payload()
        class_id = (payload[0] << 8) | payload[1]
        if class_id != CLASS_BASIC:
            raise self._unexpected(
                f"expected content header for class 60, got one for class {class_id} instead"
            )

        if payload[2] or payload[3]:
            raise self._unexpected(
                "expected content header for class 60, got non content header frame instead"
            )

        body_size: i64 = long_long_at(payload, 4)
        if body_size < 0 or body_size > MESSAGE_BYTES_MAX_HARD:
            size = int.from_bytes(payload[4:12], "big")
            raise FrameError(
                f"content body size {size} exceeds maximum allowed size {MESSAGE_BYTES_MAX_HARD}",
                class_id=self.method_index >> 16,
                method_id=self.method_index & 0xFFFF,
            )

        self._expects_header = False
        self._header_frame = decoder.frame()
        self.properties = payload[PROPERTIES_OFFSET:]
        self.body_size = body_size
        self._missing = body_size

    def _take_body(self, decoder: FrameDecoder) -> None:
        if decoder.frame_type != FRAME_BODY:
            raise self._unexpected("expected content body, got non content body frame instead")

        size: i64 = decoder.payload_end - decoder.payload_start
        if size > self._missing:
            raise FrameError(
                "content body frame exceeds remaining content size",
                class_id=self.method_index >> 16,
                method_id=self.method_index & 0xFFFF,
            )

        self._missing -= size
        parts = self._parts
        if size == 0 or self.body_size > self._unfinished.body_bytes_max:
            return

        self._keep(size)
        if self._body is not None:
            self._body += decoder.payload()
        elif len(parts) < PARTS_MAX:
            parts.append(decoder.frame())
        else:
            # So many frames: keep the bytes alone, and frame them anew when all are there.
            self._body = bytearray().join([part[7:-1] for part in parts])
            self._body += decoder.payload()
            self._parts = []

    def _whole(self) -> bytes:
        body = self._body
        if body is None:
            return b"".join([self._header_frame, *self._parts])

        payload_max = FRAME_BYTES_MAX_DEFAULT - FRAME_OVERHEAD
        return build_content(self.properties, bytes(body), payload_max)

    def _unexpected(self, text: str) -> UnexpectedFrame:
        return UnexpectedFrame(
            text, class_id=self.method_index >> 16, method_id=self.method_index & 0xFFFF
        )
