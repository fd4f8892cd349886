"""The texts of frame errors, and what of a frame they show (rules F-02..F-06, F-19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_binary
from broker.errors import FrameError, UnexpectedFrame
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from broker.wire.framing import FRAME_OVERHEAD, FrameDecoder, FrameFault

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["frame_error", "is_known_frame", "misplaced_frame", "unknown_frame"]

SHOWN_WHOLE_MAX = 16

METHOD_BYTES_MIN: Final = 4
"""Class and method id."""

HEADER_BYTES_MIN: Final = 12
"""Class, weight and body size."""


def _octets(frame_type: int, payload: bytes) -> str:
    """``type <t>, <all|first 16> octets = <...>`` (rule F-05)."""
    amount = "all" if len(payload) <= SHOWN_WHOLE_MAX else "first 16"
    return f"type {frame_type}, {amount} octets = {erl_binary(payload[:SHOWN_WHOLE_MAX])}"


def frame_error(fault: FrameFault, payload_max: int) -> FrameError:
    """The error for bytes that are no frame; after it the socket closes in any case."""
    octets = _octets(fault.frame_type, fault.payload)
    if fault.end_octet < 0:
        # RabbitMQ names as the limit what the client should have kept to (rule F-02).
        detail = f"{{frame_too_large,{fault.size},{payload_max - FRAME_OVERHEAD}}}"
    else:
        detail = f"{{invalid_frame_end_marker,{fault.end_octet}}}"

    return FrameError(f"{octets}: {detail}", class_id=0, method_id=0, is_fatal=True)


def is_known_frame(decoder: FrameDecoder) -> bool:
    """Whether the current frame is of a known type and as long as that needs (rule F-06)."""
    size: i64 = decoder.payload_end - decoder.payload_start
    frame_type = decoder.frame_type
    if frame_type == FRAME_METHOD:
        return size >= METHOD_BYTES_MIN

    if frame_type == FRAME_HEADER:
        return size >= HEADER_BYTES_MIN

    return frame_type == FRAME_BODY or (frame_type == FRAME_HEARTBEAT and size == 0)


def unknown_frame(decoder: FrameDecoder) -> FrameError:
    """The error for a frame of an unknown type or too short for its own (rule F-06)."""
    octets = _octets(int(decoder.frame_type), decoder.shown_payload())
    return FrameError(f"{octets}: unknown_frame", class_id=0, method_id=0)


def misplaced_frame(decoder: FrameDecoder) -> UnexpectedFrame:
    """The error for a frame that has no place on channel 0, or only there (rules F-19, C-63)."""
    octets = _octets(int(decoder.frame_type), decoder.shown_payload())
    return UnexpectedFrame(octets, class_id=0, method_id=0)
