"""A publisher under an alarm: it is not read from until the alarm is over (section MA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.connection import Connection

__all__ = ["Blocking"]


class Blocking:
    """Whether a connection is blocked, and whether it was told."""

    __slots__ = ("_is_told", "is_on")

    def __init__(self) -> None:
        self._is_told = False
        self.is_on = False

    def begin(self, connection: Connection) -> None:
        """A part of a content came under an alarm: nothing more is read (rules MA-02, MA-08)."""
        reason = connection.node.alarm_reason()
        self.is_on = True
        connection.link.pause_reading()
        if connection.client.has_capability("connection.blocked"):
            self._is_told = True
            connection.send(codec.encode_connection_blocked(reason))

        connection.log("info", "connection.blocked", {"reason": reason})

    def end(self, connection: Connection) -> bool:
        """The last alarm is over: reading goes on (rule MA-04). False when it was not blocked."""
        if not self.is_on:
            return False

        self.is_on = False
        if self._is_told:
            self._is_told = False
            connection.send(codec.CONNECTION_UNBLOCKED)

        if not connection.output.is_stalled:
            connection.link.resume_reading()

        return True

    def lift(self, connection: Connection) -> None:
        """The connection ends: read on, without a word."""
        if self.is_on:
            self.is_on = False
            connection.link.resume_reading()
