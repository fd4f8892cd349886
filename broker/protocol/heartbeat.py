"""Heartbeats, both ways, by deadline (section C.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.wire.constants import HEARTBEAT_FRAME

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.deadlines import Deadlines, Timer
    from broker.protocol.connection import Connection

__all__ = ["Heartbeat"]

SILENT_CHECKS_MAX: Final = 2
"""Checks without a new byte after which the peer is taken for dead (rule C-61)."""


class Heartbeat:
    """Sends heartbeats when nothing else is sent, and notices when nothing comes.

    Args:
        deadlines: the node's time.
        connection: whose heart it is.
        interval_s: as the client settled it, more than 0.

    """

    __slots__ = (
        "_connection",
        "_deadlines",
        "_interval_ms",
        "_receive_timer",
        "_received_bytes",
        "_send_timer",
        "_sent_bytes",
        "_silent_checks",
    )

    def __init__(self, deadlines: Deadlines, connection: Connection, interval_s: int) -> None:
        self._deadlines = deadlines
        self._connection = connection
        self._interval_ms: i64 = interval_s * 1000
        self._received_bytes: i64 = connection.received_bytes
        # The first check always sends (rule C-60): as if nothing had been sent.
        self._sent_bytes: i64 = -1
        self._silent_checks = 0
        self._send_timer: Timer = self._next_send()
        self._receive_timer: Timer = self._next_receive()

    def _next_send(self) -> Timer:
        due_ms: i64 = self._deadlines.now_ms + self._interval_ms // 2
        return self._deadlines.schedule(due_ms, self._check_sent)

    def _next_receive(self) -> Timer:
        due_ms: i64 = self._deadlines.now_ms + self._interval_ms
        return self._deadlines.schedule(due_ms, self._check_received)

    def _check_sent(self) -> None:
        output = self._connection.output
        sent: i64 = output.total_bytes + output.size_bytes
        if self._sent_bytes < 0 or sent == self._sent_bytes:
            output.send(HEARTBEAT_FRAME)
            sent += len(HEARTBEAT_FRAME)

        self._sent_bytes = sent
        self._send_timer = self._next_send()

    def _check_received(self) -> None:
        connection = self._connection
        received: i64 = connection.received_bytes
        is_read = not connection.is_blocked and not connection.output.is_stalled
        if received != self._received_bytes or not is_read:
            # Rule C-62: while it is not read, its silence is ours.
            self._received_bytes = received
            self._silent_checks = 0
        else:
            self._silent_checks += 1

        if self._silent_checks >= SILENT_CHECKS_MAX:
            connection.peer_silent()
            return

        self._receive_timer = self._next_receive()

    def go_on(self) -> None:
        """After it was stopped: begin to count from now."""
        self._silent_checks = 0
        self._send_timer = self._next_send()
        self._receive_timer = self._next_receive()

    def stop(self) -> None:
        """The connection has ended; or its time is not to be looked at for a while."""
        self._deadlines.cancel(self._send_timer)
        self._deadlines.cancel(self._receive_timer)
