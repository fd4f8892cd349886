"""A content that arrives frame by frame (rules F-11..F-17): the plain twin of the publish run.

``ContentAssembly`` takes the frames that follow a method with content until the message is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import build_content
from broker.errors import FrameError, UnexpectedFrame
from broker.limits import FRAME_BYTES_MAX_DEFAULT, MESSAGE_BYTES_MAX_HARD
from broker.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEADER
from broker.wire.framing import FRAME_OVERHEAD, FrameDecoder
from broker.wire.hot import long_long_at

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["ContentAssembly"]

PARTS_MAX: Final = 128
"""Body frames kept as they came; of a message in more of them only the bytes are kept, so that
tiny frames cost their bytes and not their number."""

PROPERTIES_OFFSET: Final = 12


class ContentAssembly:
    """The content of one method, from its header frame to its last body frame.

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
        "_missing",
        "_parts",
        "body_size",
        "content",
        "method_index",
        "method_payload",
        "properties",
    )

    def __init__(self, method_index: int, method_payload: bytes) -> None:
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

    def take(self, decoder: FrameDecoder) -> bool:
        """Take the current frame; True when the message is whole.

        Raises:
            UnexpectedFrame: it is not what had to come (rules F-11, F-12, F-13).
            FrameError: more body than announced (rule F-14), or a body too large (rule F-15).

        """
        if self._expects_header:
            self._take_header(decoder)
            if self._missing:
                return False

            self.content = self._header_frame
            return True

        self._take_body(decoder)
        if self._missing:
            return False

        self.content = self._whole()
        return True

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
        if size == 0:
            return

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
