"""A link that keeps what a connection writes, in the place of a socket."""

from __future__ import annotations

from broker.protocol.link import Link

__all__ = ["RecordingLink"]


class RecordingLink(Link):
    """Keeps every write. A write after close or abort is a broken promise (broker.protocol.link).

    Attributes:
        writes: each write as it came, in order.
        calls: everything else that was asked of it, in order.
        disgraces: how often what came was no handshake.

    """

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.calls: list[str] = []
        self.disgraces = 0
        self.is_paused = False
        self.late_writes: list[bytes] = []

    @property
    def is_closed(self) -> bool:
        """Whether the connection has let go of it, in whatever way."""
        return "close" in self.calls or "abort" in self.calls

    @property
    def written(self) -> bytes:
        """Everything written so far."""
        return b"".join(self.writes)

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        if self.is_closed:
            self.late_writes.append(data)
        else:
            self.writes.append(data)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.is_paused = True
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.is_paused = False
        self.calls.append("resume_reading")

    def disgraced(self) -> None:
        self.disgraces += 1
